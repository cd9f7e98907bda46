"""Each side of a comparison has a process of its own.

The processes import this file again, so it imports little.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from bench.sides import Side, compare_apart


def noting(place: Path, word: str):
    """Work that appends to a file which process made it and which one does it."""
    maker = os.getpid()

    def work() -> None:
        with place.open("a") as file:
            file.write(f"{word} {maker} {os.getpid()}\n")

    return work


def missing():
    raise ModuleNotFoundError("No module named 'peer'", name="peer")


@pytest.mark.slow
def test_each_side_makes_its_work_once_in_a_process_of_its_own(tmp_path):
    notes = tmp_path / "notes"
    ours, peer = (partial(noting, notes, word) for word in ("ours", "peer"))
    found = compare_apart("x", ours, peer, rounds=2)
    assert found.rounds == 2
    made = {tuple(line.split()) for line in notes.read_text().splitlines()}
    assert len(made) == 2
    assert all(maker == doer != str(os.getpid()) for _, maker, doer in made)


@pytest.mark.slow
def test_a_peer_that_is_missing_there_is_missing_here():
    with Side(missing) as side, pytest.raises(ModuleNotFoundError) as found:
        side.spend()
    assert found.value.name == "peer"
