"""From an unknown file to answers with three commands, and what each file may have wrong."""

import csv
import io
import json
import re
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from calling import files
from shapes import SHAPES, TINY

from cotrunk.cli.main import main

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Trained:
    file: Path
    config: Path
    run: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """For a shape: its file, the config made from it and a run, for reading only."""
    made: dict[str, Trained] = {}

    def of(shape: str) -> Trained:
        if shape not in made:
            folder = tmp_path_factory.mktemp(shape)
            file = SHAPES[shape][0](folder)
            found = Trained(file, folder / "run.toml", folder / "out")
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                assert main(["init", str(file), "-o", str(found.config)]) == 0
                train = ["train", str(found.config), "--out", str(found.run), *TINY]
                assert main(train) == 0
            made[shape] = found
        return made[shape]

    return of


def answers(path: Path) -> list[dict]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_config_says_what_the_columns_hold(trained, shape):
    tasks = tomllib.loads(trained(shape).config.read_text())["tasks"]
    found = {name: (t["kind"], t["text"], t.get("classes")) for name, t in tasks.items()}
    assert found == SHAPES[shape][1]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_trained_is_scored_and_answers(cotrunk, trained, tmp_path, shape):
    here = trained(shape)
    for given in ([], [here.file]):
        scores = cotrunk("evaluate", here.run, *given, "--json").document["tasks"]
        assert set(scores) == set(SHAPES[shape][1])
        assert all(found["rows"] > 0 and found["metric"] for found in scores.values())
    target = tmp_path / "answers.jsonl"
    assert cotrunk("predict", here.run, here.file, "-o", target).code == 0
    rows = answers(target)
    assert len(rows) >= 60
    assert all(set(SHAPES[shape][1]) <= set(row) for row in rows)


def edited(text: str, pattern: str, new: str, count: int = 0) -> str:
    """A file with some cells changed; ``count``: how many, by default all."""
    changed, found = re.subn(pattern, new, text, count=count, flags=re.M)
    assert found
    return changed


LABELS, TEXTS = ("train", "evaluate"), ("train", "evaluate", "predict")
BAD = {
    "single": {
        "a class that no row had": (r",2\r?$", ",9", 2, "must be .* 0..2; found '9'", LABELS),
        "words instead of numbers": (r",\d\r?$", ",red", 0, "'red' .*all 60 rows", LABELS),
        "no text": (r"^(\d+),[^,]*,", r"\1,,", 1, "body.*the text is empty", TEXTS),
        "too few cells": (r"^(\d+),[^,]*,1\r?$", r"\1", 1, "3 cells.*found 1", TEXTS),
        "no label column": (r"stars", "note", 1, "stars", LABELS),
        "no text column": (r"body", "other", 1, "body", TEXTS),
    },
    "pairs": {
        "a score out of range": (r"\t[\d.]+\r?$", "\t7.5", 1, "0..5; found '7.5'", LABELS),
        "words for scores": (r"\t[\d.]+\r?$", "\tmuch", 0, "'much' .*all 60 rows", LABELS),
        "one text of a pair": (r"\t\w+ [a-z ]+\t", "\t\t", 1, "the text is empty", TEXTS),
    },
    "gaps": {
        "a class that no row had": (r";news;", ";wheather;", 1, "'news', 'sport'.*'wh", LABELS),
        "neither yes nor no": (r";yes;", ";maybe;", 0, "'maybe' .*40 of 80 rows", LABELS),
    },
    "jsonl": {
        "a broken line": (r"\}$", "", 1, "JSON", TEXTS),
        "no text": (r'"t": "[a-z ]+"', '"t": ""', 1, "the text is empty", TEXTS),
        "a list as a label": (r'"flag": \d', '"flag": [1]', 1, "type list", LABELS),
    },
    "named": {
        "numbers for names": (r"^[a-z ]{4,},", "0,", 0, "holds '0' .*all 60 rows", LABELS),
        "a misspelled name": (r"^calm,", "clam,", 1, "did you mean 'calm'", LABELS),
    },
    "conll": {
        "a word without a tag": (r"^flows O$", "flows", 1, "2 columns.*found 1", LABELS),
        "a tag that no row had": (r"B-LOC$", "B-PER", 0, "'B-PER' .*of 61 rows", LABELS[1:]),
    },
}
"""By shape and mistake: cells, what they become, how many, the finding, and who refuses them."""


@pytest.mark.parametrize(
    ("shape", "mistake"), [(shape, mistake) for shape, found in BAD.items() for mistake in found]
)
def test_a_bad_file_is_refused_in_a_line_for_each_cause(cotrunk, trained, tmp_path, shape, mistake):
    here = trained(shape)
    pattern, new, count, finding, refused_by = BAD[shape][mistake]
    bad = tmp_path / here.file.name
    bad.write_text(edited(here.file.read_text(), pattern, new, count))
    config = tmp_path / "run.toml"
    config.write_text(here.config.read_text().replace(str(here.file), bad.name))
    before = files(tmp_path)
    calls = {
        "train": ("train", config, "--out", tmp_path / "new", *TINY),
        "evaluate": ("evaluate", here.run, bad),
        "predict": ("predict", here.run, bad, "-o", tmp_path / "answers.csv"),
    }
    for command in refused_by:
        said = cotrunk(*calls[command])
        assert (said.code, said.out) == (2, ""), command
        lines = said.err.splitlines()
        assert len(lines) == max(count, 1)  # more than five rows are one line
        for line in lines:
            assert line.startswith(f"error: {bad}")
            assert re.search(finding, line)
        assert files(tmp_path) == before
