"""The README.md of an export: data, plan, scores, cost, limits, licence, use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotrunk.build.saved_network import read_saved_network
from cotrunk.build.sources import SPLITS
from cotrunk.data.reading.examples import Source
from cotrunk.kinds.threshold import threshold_line
from cotrunk.model.sharing.drawn import draw_owners
from cotrunk.model.weights.locate import local_folder
from cotrunk.runs.checkpoint import read_documents
from cotrunk.runs.cost import read_cost
from cotrunk.runs.evaluation import Evaluation, read_evaluation
from cotrunk.runs.folder import RunFolder

CHOSEN = "\n\nThe best epoch was chosen on these rows."


@dataclass(frozen=True)
class Use:
    """What a card says about one export: the library, its pipeline tag and a few lines of code."""

    library: str
    pipeline: str
    code: str
    checked: Sequence[str]
    notes: Sequence[str] = ()


def write_card(run: Path, which: str, tasks: Sequence[str], use: Use, folder: Path) -> None:
    from huggingface_hub import ModelCard, ModelCardData

    saved = run / which
    documents = read_documents(saved)
    weights, base = documents["settings"]["encoder"]["weights"], Path(documents["base"])
    licence = licence_of(weights, base)
    data = ModelCardData(
        license=licence,
        library_name=use.library,
        pipeline_tag=use.pipeline,
        tags=["cotrunk", "multitask"],
    )
    sections = [
        f"# {run.resolve().name}: {', '.join(tasks)}",
        f"Trained with Cotrunk from the weights `{weights}`; exported from `{which}`.",
        f"```python\n{use.code.strip()}\n```",
        *_sections(run, which, tasks, documents["settings"]),
        "## Limits\n\n" + "\n".join(f"- {line}" for line in (*_limits(documents), *use.notes)),
        f"## Licence\n\n{_licence_text(weights, licence)}",
        "## Check\n\n" + "\n".join(f"- {line}" for line in use.checked),
    ]
    text = "\n\n".join(sections)
    ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n").save(folder / "README.md")


def licence_of(weights: str, base: Path) -> str | None:
    """What the model card beside the weights says; None if there is none."""
    from huggingface_hub import ModelCard

    try:
        folder = None if weights.startswith("random:") else local_folder(weights, base=base)
        if folder is None or not (folder / "README.md").is_file():
            return None
        found = ModelCard.load(folder / "README.md").data.to_dict().get("license")
    except Exception:  # a card of others may be broken in any way
        return None
    return found if isinstance(found, str) else None


def _licence_text(weights: str, licence: str | None) -> str:
    yours = "Your data may have licence terms as well."
    if weights.startswith("random:"):
        return "The encoder started from random weights, so only the licence of your data applies."
    if licence is None:
        return f"Not known: see where `{weights}` was published. {yours}"
    return f"The weights `{weights}` are under {licence}. {yours}"


def _sections(
    run: Path, which: str, tasks: Sequence[str], settings: Mapping[str, Any]
) -> list[str]:
    saved = read_saved_network(run / which)
    evaluation = read_evaluation(run / which)
    scores = [_score_line(task, settings, evaluation) for task in tasks]
    table = "| task | kind | score on dev [95 % interval] |\n|---|---|---|\n" + "\n".join(scores)
    files = [
        f"- {task}: "
        + "; ".join(
            f"{split} {_files(saved.sources[split][task], settings['tasks'][task][split])}"
            for split in SPLITS
            if task in saved.sources[split]
        )
        for task in tasks
    ]
    drawing = draw_owners(saved.plan, saved.reads)
    return [
        f"## Scores\n\n{table}{'' if which == 'final' else CHOSEN}",
        "## Data\n\n" + "\n".join(files),
        f"## Plan\n\nThe network of the run; tasks in one box share a copy.\n\n```\n{drawing}\n```",
        f"## Cost\n\n{_cost(run)}",
    ]


def _files(sources: Sequence[Source], named: object) -> str:
    """``named``: the files in the config, or the share of the training rows that is held out."""
    names = ", ".join(source.path.name for source in sources)
    return f"{named:g} of {names}, held out" if isinstance(named, float) else names


def _score_line(task: str, settings: Mapping[str, Any], evaluation: Evaluation | None) -> str:
    kind = settings["tasks"][task]["kind"]
    found = evaluation.scores.get(task) if evaluation else None
    if not found or found["score"] is None:
        return f"| {task} | {kind} | not evaluated |"
    interval = "" if found["low"] is None else f" [{found['low']:.3f}, {found['high']:.3f}]"
    threshold = threshold_line(found.get("thresholds") or {})
    measured = f"{found['metric']} {found['score']:.3f}{interval}"
    return f"| {task} | {kind} | {measured}{f'; {threshold}' if threshold else ''} |"


def _cost(run: Path) -> str:
    folder = RunFolder.open(run)
    cost, record = read_cost(folder), folder.read_document("run")
    lines = [f"{record['parameters']['total']:,} parameters in the whole run"]
    if cost.peak_memory is not None:
        lines.append(f"{cost.cpu_seconds['train']:,.0f} CPU seconds of training")
        lines.append(f"peak memory {cost.peak_memory / 1e6:,.0f} MB")
    return ", ".join(lines) + "."


def _limits(documents: Mapping[str, Any]) -> list[str]:
    longest = documents["settings"]["encoder"]["max_tokens"]
    return [
        f"Texts are cut after {longest} tokens.",
        "Scores were measured on rows similar to the training data; expect lower scores on other "
        "texts.",
    ]
