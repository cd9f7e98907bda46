"""The runnable blocks of the documentation, and the world in which they run."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

import cotrunk
from cotrunk.cli.main import main
from toy import write_rows

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELLS = ("sh", "bash", "shell", "console")
RUNNABLE = (*SHELLS, "python")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
NOT_RUN = re.compile(r"<!-- not run: (.*?) -->\n\Z")
FILE = re.compile(r"# (\S+\.toml)\n")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    not_run: str | None
    """Why it is not run."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        skipped = NOT_RUN.search(before)
        line = before.count("\n") + 1
        found.append(Block(page, line, match[1], match[2], skipped and skipped[1]))
    return found


WORDS = ["goal", "striker", "vote", "minister", "star", "atom", "the", "a", "wins", "new", "old"]
TOPICS = ["sport", "politics", "science"]
CONFIG = """
[encoder]
weights = "minilm"
max_tokens = 32

[sharing]
encoder = "S3 I3"

[tasks.topic]
kind = "classes"
classes = ["sport", "politics", "science"]
text = ["headline"]
label = "topic"
train = "news-train.csv"
dev = "news-dev.csv"

[tasks.alike]
kind = "score"
range = [0, 5]
text = ["left", "right"]
label = "similarity"
train = "pairs.csv"
dev = "pairs-dev.csv"

[tasks.names]
kind = "tags"
classes = "from-train"
text = ["tokens"]
label = "tags"
train = "ner-train.conll"
dev = "ner-dev.conll"

[train]
epochs = 1
"""


def write_files(folder: Path) -> None:
    """Every data file that the documentation names, small."""
    random = np.random.default_rng(0)

    def text() -> str:
        return " ".join(random.choice(WORDS, size=random.integers(4, 9)))

    def rows(count: int, *columns: Any) -> list[list[object]]:
        return [
            [column(n) if callable(column) else column for column in columns] for n in range(count)
        ]

    def words(_: int) -> str:
        return text()

    def topic(n: int) -> str:
        return TOPICS[n % 3]

    def similarity(n: int) -> float:
        return n % 11 / 2

    tables = {
        "reviews.csv": (["text", "stars"], rows(40, words, lambda n: ["bad", "good"][n % 2])),
        "questions.csv": (["one", "other", "same"], rows(40, words, words, lambda n: n % 2)),
        "new.csv": (["text"], rows(8, words)),
        "mails.csv": (["text", "spam"], rows(40, words, lambda n: int(n % 5 == 0))),
        "steps.csv": (["headline", "step"], rows(40, words, lambda n: n % 3)),
        "news-train.csv": (["headline", "topic"], rows(40, words, topic)),
        "news-dev.csv": (["headline", "topic"], rows(12, words, topic)),
        "news-new.csv": (["headline", "topic"], rows(12, words, topic)),
        "old.csv": (["headline", "category"], rows(12, words, topic)),
        "pairs.csv": (["left", "right", "similarity"], rows(40, words, words, similarity)),
        "pairs-dev.csv": (["left", "right", "similarity"], rows(12, words, words, similarity)),
    }
    for name, (header, content) in tables.items():
        write_rows(folder / name, header, content)
    pairs = rows(40, words, words, similarity)
    lines = ["left\tright\tsimilarity", *("\t".join(map(str, row)) for row in pairs)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    keys = ("left", "right", "similarity")
    objects = (json.dumps(dict(zip(keys, row, strict=True))) for row in pairs[:12])
    (folder / "pairs-new.jsonl").write_text("\n".join(objects) + "\n")
    for name in ("ner.conll", "ner-train.conll", "ner-dev.conll"):
        sentences = (
            "\n".join(
                f"{w} {'B-PER' if w == 'striker' else 'O'}" for w in f"striker {text()}".split()
            )
            for _ in range(12)
        )
        (folder / name).write_text("\n\n".join(sentences) + "\n")


def write_weights(folder: Path, *, layers: int = 6, width: int = 32, tall: int = 64) -> None:
    """An encoder as deep as MiniLM and 12 times narrower, as a folder of Hugging Face."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!'\"{}-"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    single = [*letters, *(f"##{letter}" for letter in letters)]
    pieces = [*special, *dict.fromkeys([*single, *WORDS])]
    config = {
        "model_type": "bert",
        "vocab_size": len(pieces),
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": tall,
        "max_position_embeddings": 128,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }
    shapes = {
        "embeddings.word_embeddings": (len(pieces), width),
        "embeddings.position_embeddings": (128, width),
        "embeddings.token_type_embeddings": (2, width),
        "pooler.dense": (width, width),
    }
    maps = {
        **{f"attention.self.{name}": (width, width) for name in ("query", "key", "value")},
        "attention.output.dense": (width, width),
        "intermediate.dense": (tall, width),
        "output.dense": (width, tall),
    }
    norms = ["embeddings"]
    for layer in range(layers):
        place = f"encoder.layer.{layer}"
        shapes |= {f"{place}.{name}": shape for name, shape in maps.items()}
        norms += [f"{place}.attention.output", f"{place}.output"]
    chance = torch.Generator().manual_seed(0)
    tensors = {f"{k}.weight": torch.randn(*s, generator=chance) * 0.05 for k, s in shapes.items()}
    tensors |= {f"{k}.bias": torch.zeros(s[0]) for k, s in shapes.items() if "embeddings" not in k}
    for norm in norms:
        tensors[f"{norm}.LayerNorm.weight"] = torch.ones(width)
        tensors[f"{norm}.LayerNorm.bias"] = torch.zeros(width)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    save_file(tensors, folder / "model.safetensors")


@dataclass
class Reader:
    """Works through a page from the top, in a folder.

    Configs that are written there train ``weights`` instead of MiniLM, for one epoch. Nothing else
    differs from what a reader does, but that commands run in this process.
    """

    folder: Path
    weights: Path

    def __post_init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def follow(self, block: Block) -> None:
        if block.language == "toml" and (named := FILE.match(block.text)):
            (self.folder / named[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            self._compare(block)
        elif block.language in SHELLS:
            for line in _lines(block.text):
                self.command(line, block.place)
        elif block.language == "python":
            code = compile("\n" * block.line + block.text, str(block.page), "exec")
            with redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of guards: a few steps train nothing
                self._narrow()
                exec(code, self.names)

    def command(self, line: str, place: str) -> str:
        """What a command prints; it must succeed."""
        self._narrow()
        words = shlex.split(line, comments=True)
        if words[0] != "cotrunk" or set(words) & {"|", ">", "<", "&&"}:
            return self._in_a_shell(line, place)
        printed, said = io.StringIO(), io.StringIO()
        with redirect_stdout(printed), redirect_stderr(said):
            code = main(words[1:])
        assert code == 0, f"{place}: {line}\n{said.getvalue()}"
        return printed.getvalue()

    def _in_a_shell(self, line: str, place: str) -> str:
        paths = [Path(sys.executable).parent, os.environ["PATH"]]
        environment = os.environ | {"PATH": os.pathsep.join(map(str, paths))}
        command = ["bash", "-c", f'cotrunk() {{ python -m cotrunk "$@"; }}; {line}']
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{place}: {line}\n{done.stderr}"
        return done.stdout

    def _narrow(self) -> None:
        for config in self.folder.glob("*.toml"):
            text = config.read_text(encoding="utf-8")
            if "[tasks." in text and "[encoder]" not in text:
                text = f'[encoder]\nweights = "minilm"\n\n{text}'
            text = text.replace('"minilm"', json.dumps(str(self.weights)))
            config.write_text(re.sub(r"epochs = \d+", "epochs = 1", text), encoding="utf-8")

    def _compare(self, block: Block) -> None:
        """A command after ``$``, then what it prints; ``...`` is any further lines."""
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            line, _, shown = part.partition("\n")
            printed = self.command(line, block.place)
            pattern = re.escape(_plain(shown)).replace(re.escape("..."), ".*")
            assert re.fullmatch(pattern, _plain(printed), re.S), f"{block.place}:\n{printed}"


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def write_world(folder: Path) -> dict[str, Path]:
    """The files, and runs of the config with three plans; returns the runs."""
    write_files(folder)
    write_weights(folder / "narrow")
    config = folder / "run.toml"
    config.write_text(CONFIG.replace('"minilm"', json.dumps(str(folder / "narrow"))))
    runs = {}
    for name, plan in (("shared", "S6"), ("hybrid", "S3 I3"), ("apart", "I6")):
        runs[name] = folder / "runs" / name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cotrunk.train(config, runs[name], overrides=[f"sharing.encoder={plan}"])
    return runs
