"""Encodes chunks of rows in this process or, for large files, in worker processes."""

import json
import math
import os
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from tokenizers import Tokenizer

from cotrunk.data.reading.examples import Example
from cotrunk.data.tokens.encoded import BETWEEN_TEXTS, BETWEEN_WORDS, Encoded, encode, send
from cotrunk.data.tokens.tokenise import Tokeniser

LARGE_FILE = 8 << 20
"""Bytes. A smaller file takes about a second, and starting processes half a second."""

MOST_WORKERS = 8
# Modules are imported from the caller's sys.path; its main script is not run.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
START += "from cotrunk.data.tokens.worker import main; main()"

Chunk = list[Example]


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The number of cores this process may use; ``quota`` is the limit of its container."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        allowed, period = quota.read_text().split()
        return max(1, min(usable or 1, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return usable or 1


def workers_for(path: Path) -> int:
    """How many worker processes a file is worth; 0: it is encoded in this process."""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    if not is_python or cores() == 1 or path.stat().st_size < LARGE_FILE:
        return 0
    return min(cores(), MOST_WORKERS)


def encoded(
    chunks: Iterable[Chunk],
    tokenizer: Tokenizer,
    texts_per_row: int,
    *,
    workers: int,
    words: bool = False,
) -> Generator[tuple[Chunk, Encoded], None, None]:
    """Each chunk with its encoding, in order. ``words``: texts are tuples of words."""
    texts_of = _words if words else _texts
    if not workers:
        tokenise = Tokeniser(tokenizer)
        for chunk in chunks:
            yield chunk, encode(tokenise, texts_of(chunk), texts_per_row, words=words)
        return
    with ExitStack() as stack:
        started = [stack.enter_context(_Worker()) for _ in range(workers)]
        for worker in started:  # after all have been started, because starting takes time
            worker.send(f"{texts_per_row} {int(words)}".encode(), tokenizer.to_str().encode())
        idle, busy = deque(started), deque[tuple[Chunk, _Worker]]()
        for chunk in chunks:
            if not idle:
                done, worker = busy.popleft()
                yield done, worker.receive()
                idle.append(worker)
            worker = idle.popleft()
            worker.send(BETWEEN_TEXTS.join(texts_of(chunk)).encode())
            busy.append((chunk, worker))
        for done, worker in busy:
            yield done, worker.receive()


def _texts(chunk: Chunk) -> list[str]:
    return [text for example in chunk for text in example.texts]  # type: ignore[misc]


def _words(chunk: Chunk) -> list[str]:
    return [BETWEEN_WORDS.join(words) for example in chunk for words in example.texts]


class _Worker:
    """A process with at most one chunk, so that neither side blocks on a full pipe."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, json.dumps([str(place) for place in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,  # no Ctrl-C for the worker: it exits when the pipe closes
        )
        assert self.process.stdin
        assert self.process.stdout
        self.work, self.answers = self.process.stdin, self.process.stdout

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()
        with suppress(BrokenPipeError):  # unread input
            self.work.close()

    def send(self, *messages: bytes) -> None:
        try:
            for message in messages:
                send(self.work, message)
            self.work.flush()
        except BrokenPipeError:
            raise self._died() from None

    def receive(self) -> Encoded:
        try:
            return Encoded.receive(self.answers)
        except EOFError:
            raise self._died() from None

    def _died(self) -> RuntimeError:
        return RuntimeError(
            f"a tokenising process exited with code {self.process.wait()}; nothing was stored; "
            "it may have run out of memory"
        )
