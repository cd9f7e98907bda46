"""What a killed process leaves in the token cache does not stay for ever."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens.cache import load_corpus
from cotrunk.data.tokens.store import cache_folder
from cotrunk.files import clear_leftovers
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.model.weights.tokenizer import character_tokenizer

HOUR = 60 * 60
NAME = "a" * 64 + "." + "b" * 32


def begun(name: str, *, hours: float) -> Path:
    """A folder that a writer began, and last wrote to some hours ago."""
    folder = cache_folder() / "tokens" / name
    folder.mkdir(parents=True)
    (folder / "label").write_bytes(bytes(8))
    then = time.time() - hours * HOUR
    for path in (folder / "label", folder):
        os.utime(path, (then, then))
    return folder


def load(path: Path) -> None:
    task = Task("mood", 1, Binary())
    load_corpus(task, Source(path, ("text",), "label"), character_tokenizer("bert"))


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "mood.csv"
    path.write_text("text,label\ngood,1\nbad,0\n")
    return path


def test_a_leftover_goes_when_the_cache_is_next_written(table):
    leftover = begun(NAME, hours=25)
    load(table)
    assert not leftover.exists()
    [kept] = (cache_folder() / "tokens").iterdir()
    leftover = begun(NAME, hours=25)
    load(table)  # from the cache: nothing is written, so nothing is cleared
    assert leftover.exists()
    assert (kept / "about.json").is_file()


def test_what_is_still_written_to_stays(table):
    young = begun(NAME, hours=23)
    growing = begun(NAME.replace("b", "c"), hours=25)
    os.utime(growing / "label")  # the folder is old, but not what is written into it
    load(table)
    assert young.is_dir()
    assert growing.is_dir()


@pytest.mark.parametrize("name", ["a" * 64, "a" * 64 + ".old", "notes.txt", "b" * 32 + ".a"])
def test_what_no_writer_has_begun_stays(table, name):
    other = begun(name, hours=1000)
    load(table)
    assert other.is_dir()


def test_several_may_clear_at_once():
    leftovers = [begun("a" * 64 + f".{number:032x}", hours=25) for number in range(50)]
    young = begun(NAME, hours=1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(clear_leftovers, [young.parent] * 8))
    assert not any(folder.exists() for folder in leftovers)
    assert young.is_dir()


def test_a_cache_that_is_not_there_yet_needs_no_clearing():
    clear_leftovers(cache_folder() / "tokens")
    assert not cache_folder().exists()
