"""The command in a folder of its own, and a run to use it on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from calling import Said

from cotrunk.cli.main import main

Cotrunk = Callable[..., Said]


@pytest.fixture
def cotrunk(capsys, monkeypatch, tmp_path) -> Cotrunk:
    """The command, called in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        code = main([str(argument) for argument in arguments])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def run(toy, cotrunk) -> Path:
    """A run of three steps."""
    assert cotrunk("train", toy, "--out", "run", "--set", "train.max_steps=3").code == 0
    return toy.parent / "run"
