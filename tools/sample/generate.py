"""Writes the sample files: ``python -m tools.sample.generate OUTDIR``. Same seed, same bytes."""

import argparse
import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from tools.sample import paraphrase, sentiment, similarity

SEED = 20
COUNTS = {"train": 1200, "dev": 300}

Row = tuple[str | int | float, ...]
Draw = Callable[[Random, bool], Row]

COLUMNS = {
    "sentiment": ("sentence", "sentiment"),
    "paraphrase": ("sentence1", "sentence2", "is_duplicate"),
    "similarity": ("sentence1", "sentence2", "similarity"),
}
DRAWS: dict[str, Draw] = {
    "sentiment": sentiment.draw,
    "paraphrase": paraphrase.draw,
    "similarity": similarity.draw,
}


def fingerprint(row: Row) -> frozenset[str]:
    """What makes two rows the same: their texts, in either order and ignoring case."""
    return frozenset(str(text).lower() for text in row[:-1])


def fresh_rows(
    draw: Draw, count: int, rng: Random, *, held_out: bool, taken: set[frozenset[str]]
) -> list[Row]:
    rows: list[Row] = []
    while len(rows) < count:
        row = draw(rng, held_out)
        texts = fingerprint(row)
        if texts not in taken and len(texts) == len(row) - 1:
            taken.add(texts)
            rows.append(row)
    return rows


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *header])
        writer.writerows([f"{path.stem}-{number:04}", *row] for number, row in enumerate(rows, 1))


def generate(folder: Path) -> None:
    """Writes all six files; the dev rows avoid every train row of their task."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, draw in DRAWS.items():
        rng = Random(f"{task} {SEED}")
        taken: set[frozenset[str]] = set()
        for split, count in COUNTS.items():
            rows = fresh_rows(draw, count, rng, held_out=split == "dev", taken=taken)
            write_csv(folder / f"{task}-{split}.csv", COLUMNS[task], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the sample task files.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    generate(parser.parse_args().folder)


if __name__ == "__main__":
    main()
