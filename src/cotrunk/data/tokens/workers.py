"""Chunks of rows encoded in this process or, of large files, in one more for every core."""

import json
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
"""Bytes. A smaller file is done in about a second, and to start processes takes half of one."""

MOST_WORKERS = 8
# The caller's own modules, found where the caller found them; its main script is left alone.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
START += "from cotrunk.data.tokens.worker import main; main()"

Chunk = list[Example]


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers_for(path: Path) -> int:
    """How many processes a file is worth; 0: it is encoded in this one."""
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
    """Each chunk with what was computed from its texts, in the order they came.

    ``words``: texts are tuples of words.
    """
    texts_of = _words if words else _texts
    if not workers:
        tokenise = Tokeniser(tokenizer)
        for chunk in chunks:
            yield chunk, encode(tokenise, texts_of(chunk), texts_per_row, words=words)
        return
    with ExitStack() as stack:
        crew = [stack.enter_context(_Worker()) for _ in range(workers)]
        for worker in crew:  # all of them started first, for they take their time
            worker.send(f"{texts_per_row} {int(words)}".encode(), tokenizer.to_str().encode())
        idle, busy = deque(crew), deque[tuple[Chunk, _Worker]]()
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
    """A process that has one chunk at most, so that neither side waits for the other to read."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, json.dumps([str(place) for place in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,  # Ctrl-C is for us alone: without us it ends by itself
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
        with suppress(BrokenPipeError):  # of what it did not live to read
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
            f"a process that tokenises ended with code {self.process.wait()}; "
            "nothing was stored: is there memory enough for it?"
        )
