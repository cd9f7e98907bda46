"""Names of files, tasks and labels that are not text, or that could command a terminal."""

import json
import os
import shutil

import pytest

from toy import train


@pytest.fixture
def odd(tmp_path):
    """A folder whose name is not UTF-8 and begins a terminal command of one byte, 0x9B."""
    folder = tmp_path / os.fsdecode(b"n\x9b31m")
    folder.mkdir()
    return folder


def test_bytes_that_are_terminal_commands_are_shown_escaped(cotrunk, run, odd):
    shutil.copy(run.parent / "mood-dev.csv", odd / "dev.csv")
    said = cotrunk("evaluate", run, odd / "dev.csv", "--task", "mood")
    assert said.code == 0
    assert r"n\x9b31m" in said.out
    assert "\udc9b" not in said.out + said.err
    said = cotrunk("info", odd)
    assert said.code == 2
    assert r"n\x9b31m" in said.err


def test_a_path_in_utf8_is_shown_as_text_in_an_ascii_locale(cotrunk):
    name = "Übung".encode().decode("ascii", "surrogateescape")  # as Python decodes it there
    assert "Übung is not a run" in cotrunk("info", name).err


@pytest.mark.slow
def test_a_report_on_runs_whose_names_are_not_utf8(cotrunk, toy, odd):
    pytest.importorskip("vl_convert")
    runs = [odd.with_name(f"{odd.name}-{seed}") for seed in (1, 2)]
    for seed, run in enumerate(runs):
        assert train(toy, run, "--set", f"train.seed={seed}", "train.max_steps=3") == 0
    said = cotrunk("report", *runs, "-o", "report.html")
    assert said.code == 0, said.err
    assert r"9b31m-1</span>" in (toy.parent / "report.html").read_bytes().decode()


ESCAPES = "\x1b]0;title\x07\x9b31m"


def test_escapes_in_labels_are_shown_escaped(cotrunk, toy):
    """In a name of a task they are refused."""
    rows = [f"r{n},good {n},{ESCAPES}{n % 2}" for n in range(12)]
    for split in ("train", "dev"):
        (toy.parent / f"mood-{split}.csv").write_text("\n".join(["id,sentence,mood", *rows]))
    text = toy.read_text()
    labels = json.dumps([f"{ESCAPES}0", f"{ESCAPES}1"]).replace("\x9b", "\\u009b")
    toy.write_text(text.replace("classes = 3", f"classes = {labels}"))
    commands = [
        ["data", "check", toy],
        ["train", toy, "--out", "run", "--set", "train.max_steps=2"],
        ["evaluate", "run", "--detail", "--worst", "2"],
        ["predict", "run", "mood-dev.csv", "--task", "mood", "-o", "answers.csv"],
        ["info", "run"],
    ]
    for command in commands:
        said = cotrunk(*command)
        assert said.code == 0, said.err
        assert not {"\x1b", "\x07", "\x9b"} & set(said.out + said.err), command
    toy.write_text(text.replace("[tasks.mood]", f"[tasks.{json.dumps(ESCAPES)}]"))
    said = cotrunk("train", toy, "--out", "other")
    assert said.code == 2
    assert not {"\x1b", "\x07", "\x9b"} & set(said.err)
