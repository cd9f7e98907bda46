"""How well models learn: ``python -m bench.quality NAME --data DIR``, into results/quality.json.

``tags`` needs the folder of train.conll and dev.conll (WNUT17), ``mlm`` that of the course's files;
``lora`` trains on the sample.
"""

import argparse
import csv
import json
import logging
import math
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import cotrunk
from bench.__main__ import commit_of, say
from bench.plain_tagger import Recipe, entity_f1, read_conll
from cotrunk.build.heads import head_plans
from cotrunk.build.tasks import tasks_of
from cotrunk.cli.plan import parameter_table_of
from cotrunk.config import presets
from cotrunk.config.check import read_settings
from cotrunk.model.sharing.parameter_table import ParameterTable
from cotrunk.model.weights.locate import shape_of
from cotrunk.model.weights.pretrained import find, load_tokenizer

Figures = dict[str, Any]
COURSE = [("ids-sst-{}.csv", ["sentence"]), ("sts-{}.csv", ["sentence1", "sentence2"])]
SIDES = {
    "lora": ["sharing.lora.rank=8", "train.freeze=encoder", "train.lr=1e-3"],
    "full": ["train.lr=1e-4"],
}
TAGS = """
[encoder]
weights = "minilm"
[tasks.ner]
kind = "tags"
classes = "from-train"
text = ["tokens"]
label = "tags"
train = "{data}/train.conll"
dev = "{data}/dev.conll"
"""
MLM = """
[encoder]
weights = "minilm"
[tasks.mlm]
kind = "mlm"
train = "train.txt"
dev = "dev.txt"
[train]
batch = 32
lr = 5e-4
head_lr = "lr"
sampling = "together"
"""
STEPS = {"tags": 300, "mlm": 700, "lora": 80}
"""``mlm``: about ten minutes of one core."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("name", choices=["tags", "mlm", "lora"])
    parser.add_argument("--data", type=Path, help="folder with the files")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="optimizer steps")
    parser.add_argument("-o", "--out", type=Path, default=Path("results/quality.json"))
    chosen = parser.parse_args()
    if chosen.name != "lora" and chosen.data is None:
        parser.error(f"{chosen.name} needs --data")
    data, seeds = chosen.data and chosen.data.resolve(), range(chosen.seeds)
    steps = chosen.steps or STEPS[chosen.name]
    warnings.simplefilter("ignore")  # findings of short runs, and the peer's own
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        if chosen.name == "tags":
            found = tags(data, Path(folder), Recipe(steps=steps), seeds)
        elif chosen.name == "mlm":
            found = mlm(data, Path(folder), steps)
        else:
            found = lora(Path(folder), steps, seeds)
    keep(chosen.name, found | {"commit": commit_of(Path(__file__).parent)}, chosen.out)
    for key, value in found.items():
        say(f"{chosen.name} {key}: {value}")
    return 0


def tags(data: Path, folder: Path, recipe: Recipe, seeds: Iterable[int]) -> Figures:
    """Entity F1 on dev after the last step, beside a plain loop with ``transformers``."""
    config = folder / "tags.toml"
    config.write_text(TAGS.format(data=data))
    common = [
        f"train.batch={recipe.batch}", f"train.lr={recipe.lr}", f"train.warmup={recipe.warmup}",
        f"train.decay={recipe.decay}", *of_length(recipe.steps),
    ]  # fmt: skip
    ours, plain = [], []
    for seed in seeds:
        run = cotrunk.train(
            config, folder / f"tags-{seed}", overrides=[*common, f"train.seed={seed}"]
        )
        ours.append(run.scores["ner"]["score"])
        train, dev = (read_conll(data / f"{split}.conll") for split in ("train", "dev"))
        plain.append(entity_f1(train, dev, recipe, seed=seed))
        say(f"tags, seed {seed}: cotrunk {ours[-1]:.3f}, transformers {plain[-1]:.3f}")
    return {
        "cotrunk": ours, "transformers": plain, **gap_of(ours, plain),
        "steps": recipe.steps, "batch": recipe.batch, "lr": recipe.lr,
    }  # fmt: skip


def mlm(data: Path, folder: Path, steps: int) -> Figures:
    """Loss on held-out texts before and after training, and the entropy of their tokens."""
    texts = {split: course_texts(data, split) for split in ("train", "dev")}
    seen = set(texts["train"])
    texts["dev"] = [text for text in texts["dev"] if text not in seen]
    for split, lines in texts.items():
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    config = folder / "mlm.toml"
    config.write_text(MLM)
    untrained = [*of_length(1), "train.lr=1e-12"]
    before = cotrunk.train(config, folder / "before", overrides=untrained).scores["mlm"]
    begun = time.process_time()
    after = cotrunk.train(config, folder / "after", overrides=of_length(steps)).scores["mlm"]
    spent = time.process_time() - begun
    entropy = unigram_entropy(tokens_of(texts["dev"]))
    return {
        "loss before": before["more"]["loss"], "loss after": after["more"]["loss"],
        "unigram entropy": entropy, "nats below it": entropy - after["more"]["loss"],
        "accuracy before": before["score"], "accuracy after": after["score"],
        "steps": steps, "CPU minutes": spent / 60,
    }  # fmt: skip


def lora(folder: Path, steps: int, seeds: Iterable[int]) -> Figures:
    """Shared adapters of rank 8 in a frozen encoder, beside full fine-tuning."""
    config = folder / "lora.toml"
    config.write_text(presets.text("1-bert"))
    found: Figures = {}
    for side, changes in SIDES.items():
        overalls = []
        for seed in seeds:
            overrides = [*changes, *of_length(steps), f"train.seed={seed}"]
            run = cotrunk.train(config, folder / f"{side}-{seed}", overrides=overrides)
            overalls.append(run.overall["official"])
            for task, score in run.scores.items():
                found.setdefault(f"{side} {task}", []).append(score["score"])
            say(f"lora, {side}, seed {seed}: overall {overalls[-1]:.3f}")
        found[f"{side} overall"] = overalls
    plan = planned(config, SIDES["lora"])
    share = plan.trained / plan.parameters["total"]
    return found | {"trained parameters": plan.trained, "share": share, "steps": steps}


def of_length(steps: int) -> list[str]:
    """One evaluation, after the last step, so that nothing is chosen on dev."""
    return ["train.epochs=1", f"train.steps_per_epoch={steps}", "train.checkpoint=never"]


def planned(config: Path, changes: Sequence[str]) -> ParameterTable:
    settings = read_settings(config, list(changes))
    tasks = tasks_of(settings)
    shape = shape_of(settings.encoder.weights, base=config.parent)
    return parameter_table_of(settings, tasks, shape, head_plans(settings, tasks))


def course_texts(data: Path, split: str) -> list[str]:
    """The sentences of SST and STS, each once."""
    texts: dict[str, None] = {}
    for pattern, columns in COURSE:
        with (data / pattern.format(split)).open(newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                texts.update((row[column].strip(), None) for column in columns if row[column])
    return [text for text in texts if text]


def unigram_entropy(tokens: Iterable[int]) -> float:
    """In nats: the loss of an answer that knows how often each token occurs in these texts."""
    counts = Counter(tokens)
    total = counts.total()
    return -sum(n / total * math.log(n / total) for n in counts.values())


def tokens_of(texts: Sequence[str]) -> list[int]:
    tokenizer = load_tokenizer(find("minilm", base=Path()))
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [token for one in encoded for token in one.ids]


def gap_of(ours: Sequence[float], others: Sequence[float]) -> Figures:
    """Difference of the means, and its standard error over the seeds."""
    gap = statistics.mean(ours) - statistics.mean(others)
    if min(len(ours), len(others)) < 2:
        return {"difference": gap, "standard error": None}
    parts = [statistics.variance(side) / len(side) for side in (ours, others)]
    return {"difference": gap, "standard error": math.sqrt(sum(parts))}


def keep(name: str, found: Figures, file: Path) -> None:
    """Replaces the figures of that name, and keeps the others."""
    file.parent.mkdir(exist_ok=True)
    kept = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(kept | {name: found}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
