"""Data files that mislead: rows that swallow others, and changes that leave no trace."""

import os
import re

import pytest

from toy import write_rows

SWALLOWS = """id,sentence,mood
1,"Bad,1
2,worse" film,0
3,good,1
"""


def test_text_after_a_closing_quote_is_a_bad_row(cotrunk, toy):
    (toy.parent / "mood-train.csv").write_text(SWALLOWS)
    said = cotrunk("data", "check", toy)
    assert said.code == 2
    [line] = said.err.splitlines()
    assert "mood-train.csv:2: " in line
    assert 'quoting = "none"' in line


def test_a_dropped_row_with_text_after_a_closing_quote_is_counted(cotrunk, toy):
    (toy.parent / "mood-train.csv").write_text(SWALLOWS)
    said = cotrunk("data", "check", toy, "--set", "tasks.mood.skip_bad_rows=true", "--json")
    train = said.document["tasks"]["mood"]["train"]
    assert (train["rows"], train["dropped"]) == (1, 1)


@pytest.fixture
def rewrite(toy):
    """Replaces a label of the dev rows in place; size and modification time stay."""

    def change() -> None:
        path = toy.parent / "mood-dev.csv"
        before = path.stat()
        rows = path.read_bytes()
        with path.open("r+b") as file:
            file.write(re.sub(rb",[02]\r\n", b",1\r\n", rows))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = path.stat()
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)

    return change


@pytest.mark.slow
def test_labels_rewritten_in_place_are_what_evaluate_scores(cotrunk, run, rewrite, monkeypatch):
    before = cotrunk("evaluate", run, "--json").document
    rewrite()
    after = cotrunk("evaluate", run, "--json").document
    monkeypatch.setenv("COTRUNK_CACHE", str(run.parent / "cache-of-its-own"))
    assert cotrunk("evaluate", run, "--json").document == after != before


@pytest.mark.slow
def test_a_run_does_not_go_on_with_labels_rewritten_in_place(cotrunk, run, toy, rewrite):
    rewrite()
    said = cotrunk("train", toy, "--out", run, "--resume", "--set", "train.max_steps=3")
    assert said.code == 2
    assert "mood" in said.err


def test_a_label_that_is_too_small_for_a_number_is_not_read_as_zero(cotrunk, toy):
    rows = [[1, "a", "b", 0, "1e-400"], [2, "a", "c", 1, "0e-400"]]
    write_rows(toy.parent / "pair-train.csv", ["id", "left", "right", "same", "alike"], rows)
    said = cotrunk("data", "check", toy)
    assert said.code == 2
    [line] = said.err.splitlines()
    assert "pair-train.csv:2:5 (alike)" in line
    assert "1e-400" in line


@pytest.mark.parametrize("value", ["1e-400", "1.5E-9999"])
def test_a_setting_that_is_too_small_for_a_number_is_not_read_as_zero(cotrunk, toy, value):
    said = cotrunk("plan", toy, "--set", f"encoder.dropout={value}")
    assert said.code == 2
    assert f"encoder.dropout={value}" in said.err
    toy.write_text(toy.read_text().replace("[encoder]", f"[encoder]\ndropout = {value}"))
    said = cotrunk("plan", toy)
    assert said.code == 2
    assert value in said.err
