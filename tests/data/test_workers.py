"""Other processes tokenise large files: they write the same, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cotrunk.data.reading.examples import Example, Source
from cotrunk.data.tokens import cache
from cotrunk.data.tokens.cache import load_corpus
from cotrunk.data.tokens.store import cache_folder
from cotrunk.data.tokens.workers import LARGE_FILE, encoded, workers_for
from cotrunk.errors import UserError
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.model.weights.tokenizer import character_tokenizer
from toy import sentence, write_rows

ALIKE = Task("alike", 2, Binary())
HEADER = ["left", "right", "label"]


def pairs_file(path: Path, rows: int) -> Source:
    random = np.random.default_rng(0)
    odd = ["café ", "日本 ", "a\nb ", '"quoted" ', "[SEP] "]
    write_rows(
        path,
        HEADER,
        [
            [sentence(random), odd[i % 5] * (i % 3) + sentence(random) + f" {i}", i % 2]
            for i in range(rows)
        ],
    )
    return Source(path, ("left", "right"), "label")


def stored(source: Source, folder: Path, monkeypatch, **how: int) -> dict[str, bytes]:
    monkeypatch.setenv("COTRUNK_CACHE", str(folder))
    load_corpus(ALIKE, source, character_tokenizer("bert"), **how)
    [made] = (folder / "tokens").iterdir()
    return {file.name: file.read_bytes() for file in made.iterdir()}


def all_children() -> set[str]:
    own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return set(own.read_text().split())


OTHERS: set[str] = set()


@pytest.fixture(autouse=True)
def others():
    """Processes that tests of other files have started and keep."""
    OTHERS.clear()
    OTHERS.update(all_children() if Path("/proc").is_dir() else ())


def children() -> set[str]:
    return all_children() - OTHERS


@pytest.mark.slow
def test_what_is_stored_does_not_depend_on_the_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 100)
    source = pairs_file(tmp_path / "pairs.csv", 1050)
    alone = stored(source, tmp_path / "0", monkeypatch, workers=0)
    assert alone.keys() >= {"token16", "offset", "fingerprint", "about.json"}
    for workers in (1, 3):
        assert stored(source, tmp_path / str(workers), monkeypatch, workers=workers) == alone


@pytest.mark.slow
def test_more_workers_than_chunks_do_no_harm(tmp_path, monkeypatch):
    source = pairs_file(tmp_path / "pairs.csv", 3)
    alone = stored(source, tmp_path / "0", monkeypatch, workers=0)
    assert stored(source, tmp_path / "4", monkeypatch, workers=4) == alone


def test_a_chunk_ends_when_its_texts_are_long(tmp_path, monkeypatch):
    source = pairs_file(tmp_path / "pairs.csv", 50)
    whole = stored(source, tmp_path / "whole", monkeypatch, workers=0)
    monkeypatch.setattr(cache, "CHUNK_LETTERS", 100)
    done: list[int] = []
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path / "cut"))
    load_corpus(
        ALIKE,
        source,
        character_tokenizer("bert"),
        on_progress=lambda done_: done.append(done_.rows),
    )
    assert len(done) > 10
    assert sum(done) == 50
    assert stored(source, tmp_path / "cut", monkeypatch, workers=0) == whole


@pytest.mark.slow
def test_a_bad_row_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 100)
    source = pairs_file(tmp_path / "pairs.csv", 500)
    with source.path.open("a", encoding="utf-8") as file:
        file.write("left,right,maybe\n,right,1\n")
    with pytest.raises(UserError) as error:
        load_corpus(ALIKE, source, character_tokenizer("bert"), workers=2)
    assert len(error.value.lines) == 2
    assert not list((cache_folder() / "tokens").iterdir())
    assert not children()


def test_a_worker_that_dies_is_told_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 10)
    source = pairs_file(tmp_path / "pairs.csv", 500)

    def kill(_: object) -> None:
        for child in children():
            os.kill(int(child), signal.SIGKILL)

    with pytest.raises(RuntimeError, match="a tokenising process exited with code -9"):
        load_corpus(ALIKE, source, character_tokenizer("bert"), workers=2, on_progress=kill)
    assert not list((cache_folder() / "tokens").iterdir())
    assert not children()


def test_whoever_stops_reading_leaves_no_process():
    chunks = ([Example(i, str(i), ("a", "b"), (0.0,))] for i in range(100))
    parts = encoded(chunks, character_tokenizer("bert"), 2, workers=2)
    next(parts)
    assert len(children()) == 2
    parts.close()
    assert not children()


STOPPED = """
import os, sys
from pathlib import Path
from cotrunk.cli.train import terminable
from cotrunk.data.tokens import cache
from cotrunk.data.reading.examples import Source
from cotrunk.model.weights.tokenizer import character_tokenizer
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task

cache.CHUNK = 10
source = Source(Path(sys.argv[1]), ("left", "right"), "label")
with terminable():
    cache.load_corpus(
        Task("alike", 2, Binary()),
        source,
        character_tokenizer("bert"),
        workers=2,
        on_progress=lambda _: os.kill(os.getpid(), int(sys.argv[2])),
    )
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT), (signal.SIGKILL, -signal.SIGKILL)],
    ids=["terminated", "interrupted", "killed"],
)
def test_a_signal_ends_the_workers_too(tmp_path, number, code):
    source = pairs_file(tmp_path / "pairs.csv", 500)
    # The workers hold the other end of what is captured: only when they have gone is it read out.
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(source.path), str(int(number))],
        capture_output=True,
        check=False,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # may be ignored here
    )
    assert done.returncode == code
    left = list((cache_folder() / "tokens").iterdir())
    assert not left or number == signal.SIGKILL
    assert not any((folder / "about.json").exists() for folder in left)


SCRIPT = """
import sys
from pathlib import Path
from cotrunk.data.tokens.cache import load_corpus
from cotrunk.data.reading.examples import Source
from cotrunk.model.weights.tokenizer import character_tokenizer
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task

print("begun")
source = Source(Path(sys.argv[1]), ("left", "right"), "label")
tokenizer = character_tokenizer("bert")
print(len(load_corpus(Task("alike", 2, Binary()), source, tokenizer, workers=2)))
"""


@pytest.mark.slow
def test_a_script_that_does_not_guard_its_main_part_is_run_once(tmp_path):
    source = pairs_file(tmp_path / "pairs.csv", 20)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "numpy.py").write_text("raise SystemExit('this is not numpy')")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = (tmp_path / "script.py").rename(elsewhere / "script.py")
    done = subprocess.run(
        [sys.executable, str(script), str(source.path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["begun", "20"]


def test_only_large_files_are_worth_other_processes(tmp_path):
    small = tmp_path / "small.csv"
    small.write_text("text,label\n")
    assert workers_for(small) == 0
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(LARGE_FILE)
    cores = len(os.sched_getaffinity(0))
    assert workers_for(large) == (0 if cores == 1 else min(cores, 8))


@pytest.mark.slow
def test_the_share_of_a_file_that_was_read_grows_to_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 100)
    for name in ("pairs.csv", "pairs.jsonl"):
        source = pairs_file(tmp_path / "pairs.csv", 2000)
        if name == "pairs.jsonl":
            lines = [f'{{"left": "a{i}", "right": "b", "label": 1}}\n' for i in range(2000)]
            (tmp_path / name).write_text("".join(lines))
            source = Source(tmp_path / name, ("left", "right"), "label")
        shares: list[float] = []
        load_corpus(
            ALIKE,
            source,
            character_tokenizer("bert"),
            on_progress=lambda done, shares=shares: shares.append(done.share),
        )
        assert shares == sorted(shares)
        assert 0 < shares[0] < 0.6
        assert shares[-1] == 1
