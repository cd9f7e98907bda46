"""The sets of tasks: small parts of public data, so that a run takes half a minute on one core."""

import csv
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cotrunk.build.guessed import config_of_files
from cotrunk.data import sample as package_sample

Row = Mapping[str, str]
NEGATIONS = re.compile(r"\b(not|no|never|nothing|n't)\b")
OVERRIDES: Mapping[str, Mapping[str, object]] = {"reviews": {"encoder.max_tokens": 40}}
"""Settings for all recipes on a set."""


def make_set(name: str, data: Path, folder: Path) -> Path:
    """Write the files of a set, and the config that ``cotrunk init`` makes of them."""
    folder.mkdir(parents=True, exist_ok=True)
    SETS[name](data, folder)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".csv", ".conll"))
    config = folder / "run.toml"
    config.write_text(config_of_files(files, folder).text, encoding="utf-8")
    return config


def course(data: Path, folder: Path) -> None:
    """Three tasks of different sizes: sentiment, duplicate questions, similarity."""
    write(folder, "sst", sentiment(data), train=100, dev=200, words=12)
    write(folder, "quora", quora(data), train=80, dev=200, words=8)
    write(folder, "sts", similarity(data), train=60, dev=200, words=8)


def reviews(data: Path, folder: Path) -> None:
    """CFIMDB: long texts, two classes."""
    write(folder, "cfimdb", cfimdb(data), train=110, dev=245)


def entities(data: Path, folder: Path) -> None:
    """WNUT17: sentences with at least one entity to train on, any to score."""
    for split, rows in (("train", 150), ("dev", 300)):
        text = (data / "wnut17" / f"{split}.conll").read_text(encoding="utf-8")
        sentences = [part for part in text.split("\n\n") if 3 <= len(part.split("\n")) <= 15]
        chosen = [s for s in sentences if split == "dev" or re.search(r"\t[BI]-", s)]
        taken = random.Random(split).sample(chosen, min(rows, len(chosen)))
        path = folder / f"wnut-{split}.conll"
        path.write_text("\n\n".join(s.strip("\n") for s in taken) + "\n", encoding="utf-8")


def sample(_data: Path, folder: Path) -> None:
    """The three tasks in the package."""
    for task in ("sentiment", "paraphrase", "similarity"):
        splits = {
            split: read(package_sample.folder() / f"{task}-{split}.csv", ",")
            for split in ("train", "dev")
        }
        write(folder, task, splits.__getitem__, train=60, dev=200)


def scores(data: Path, folder: Path) -> None:
    """A score and five classes."""
    write(folder, "sts", similarity(data), train=80, dev=250, words=8)
    write(folder, "sst", sentiment(data), train=180, dev=250, words=12)


def several(data: Path, folder: Path) -> None:
    """Any number of labels per text, some of them rare."""

    def labelled(row: Row) -> Row:
        stars, text = int(row["sentiment"]), row["sentence"].lower()
        held = {
            "positive": stars > 2,
            "negative": stars < 2,
            "strong": stars in (0, 4),
            "negated": bool(NEGATIONS.search(text)),
            "contrast": " but " in text,
        }
        return {
            "text": row["sentence"],
            "labels": "|".join(name for name, holds in held.items() if holds),
        }

    read_split = sentiment(data)
    write(folder, "sst", lambda split: map(labelled, read_split(split)), 330, 300, words=14)


def tiny(data: Path, folder: Path) -> None:
    """Two hundred rows, two classes."""

    def polar(split: str) -> Iterable[Row]:
        for row in sentiment(data)(split):
            if row["sentiment"] != "2":
                yield {"text": row["sentence"], "good": str(int(int(row["sentiment"]) > 2))}

    write(folder, "sst", polar, train=200, dev=400, words=14)


def short(data: Path, folder: Path) -> None:
    """One task with more rows, which are short."""
    write(folder, "sst", sentiment(data), train=600, dev=300, words=10)


SETS: Mapping[str, Callable[[Path, Path], None]] = {
    "course": course,
    "reviews": reviews,
    "entities": entities,
    "sample": sample,
    "scores": scores,
    "several": several,
    "tiny": tiny,
    "short": short,
}


def sentiment(data: Path) -> Callable[[str], Iterable[Row]]:
    return lambda split: read(data / "cs224n" / f"ids-sst-{split}.csv")


def cfimdb(data: Path) -> Callable[[str], Iterable[Row]]:
    return lambda split: read(data / "cs224n" / f"ids-cfimdb-{split}.csv")


def similarity(data: Path) -> Callable[[str], Iterable[Row]]:
    return lambda split: read(data / "cs224n" / f"sts-{split}.csv")


def quora(data: Path) -> Callable[[str], Iterable[Row]]:
    """The labels as whole numbers; rows without texts left out."""

    def rows(split: str) -> Iterable[Row]:
        for row in read(data / "cs224n" / f"quora-{split}.csv"):
            if row["sentence1"] and row["sentence2"] and row["is_duplicate"]:
                yield {**row, "is_duplicate": str(int(float(row["is_duplicate"])))}

    return rows


def read(path: Path, delimiter: str = "\t") -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter=delimiter)
        return [
            {k: (v or "").strip() for k, v in row.items() if k not in ("", "id")} for row in rows
        ]


def write(
    folder: Path,
    name: str,
    rows: Callable[[str], Iterable[Row]],
    train: int,
    dev: int,
    words: int | None = None,
) -> None:
    """Random rows, the same in every call; with at most ``words`` in each cell."""
    for split, wanted in (("train", train), ("dev", dev)):
        fitting = [row for row in rows(split) if words is None or longest(row) <= words]
        chosen = random.Random(f"{name} {split}").sample(fitting, min(wanted, len(fitting)))
        write_table(folder / f"{name}-{split}.csv", chosen)


def longest(row: Row) -> int:
    return max(len(cell.split()) for cell in row.values())


def write_table(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
