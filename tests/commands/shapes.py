"""Six shapes of labelled files, as strangers have them: their columns say nothing in English."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

WORDS = ["river", "stone", "tea", "light", "slow", "bright", "plot", "moon", "paper", "clock"]
random = np.random.default_rng(0)
TINY = ["--set", "encoder.weights=random:tiny", "train.epochs=1"]


def sentence():
    return " ".join(random.choice(WORDS, size=random.integers(4, 9)))


def write_csv(path, header, rows, delimiter=","):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


def reviews(folder):
    rows = [[1000 + n, sentence(), n % 3] for n in range(60)]
    return write_csv(folder / "reviews.csv", ["key", "body", "stars"], rows)


def pairs(folder):
    rows = [[sentence(), sentence(), round(random.uniform(0, 4.9), 2)] for _ in range(60)]
    return write_csv(folder / "pairs.tsv", ["a", "b", "alike"], rows, "\t")


def gaps(folder):
    rows = [
        [sentence(), ["sport", "news", ""][n % 3], ["yes", "no"][n % 2], "x|y" if n % 4 else "x"]
        for n in range(80)
    ]
    return write_csv(folder / "many.csv", ["q", "topic", "urgent", "marks"], rows, ";")


def lines(folder):
    path = folder / "rows.jsonl"
    rows = [{"t": sentence(), "flag": n % 2, "uid": f"u{n}"} for n in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def named(folder):
    rows = [[["angry", "very happy", "calm"][n % 3], sentence()] for n in range(60)]
    return write_csv(folder / "named.csv", ["w", "z"], rows)


def conll(folder):
    path = folder / "ner.conll"
    sentences = [
        "\n".join(f"{word} {'B-LOC' if word == 'river' else 'O'}" for word in sentence().split())
        for _ in range(60)
    ]
    path.write_text("\n\n".join(["river B-LOC\nflows O", *sentences]) + "\n")
    return path


Write = Callable[[Path], Path]
SHAPES: dict[str, tuple[Write, dict[str, tuple[str, list[str], object]]]] = {
    "single": (reviews, {"stars": ("classes", ["body"], 3)}),
    "pairs": (pairs, {"alike": ("score", ["a", "b"], None)}),
    "gaps": (
        gaps,
        {
            "topic": ("classes", ["q"], ["news", "sport"]),
            "urgent": ("binary", ["q"], None),
            "marks": ("classes", ["q"], ["x", "x|y"]),
        },
    ),
    "jsonl": (lines, {"flag": ("binary", ["t"], None)}),
    "named": (named, {"w": ("classes", ["z"], ["angry", "calm", "very happy"])}),
    "conll": (conll, {"tags": ("tags", ["tokens"], "from-train")}),
}
"""By shape: what writes the file, and the kind, texts and classes of each task in it."""
