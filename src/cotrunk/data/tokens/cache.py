"""Tokens on disk, memory-mapped, keyed by content: memory does not grow with the rows."""

import hashlib
import json
import math
import mmap
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import platformdirs
from tokenizers import Tokenizer

from cotrunk.data.batches.text import TokenIds
from cotrunk.data.reading.examples import Example, Rows, Source
from cotrunk.data.tokens.encoded import Encoded
from cotrunk.data.tokens.workers import encoded, workers_for
from cotrunk.kinds.task import Task
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

FORMAT = 2
CHUNK, CHUNK_LETTERS = 4096, 1 << 22
HASH_BLOCK = 1 << 20
SMALL = 1 << 25
BEGUN = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")
A_DAY = 24 * 60 * 60
RELEASED_EVERY = 64
"""Rows. A page that was read stays in memory, with its neighbours: 64 kB for each row."""


@dataclass(frozen=True)
class Corpus:
    """The tokenised rows of one task and split. Arrays are memory-mapped files."""

    texts: int
    token: np.ndarray
    offset: np.ndarray
    label: np.ndarray
    id_byte: np.ndarray
    id_offset: np.ndarray
    line: np.ndarray
    fingerprint: np.ndarray
    digest: str
    key: str
    dropped: tuple[str, ...]
    dropped_count: int
    unlabelled: int

    def __len__(self) -> int:
        return len(self.line)

    def pieces(self, row: int) -> TokenIds:
        """The token ids of a row's texts."""
        if not row % RELEASED_EVERY:
            self.release()
        at = self.offset[row * self.texts : row * self.texts + self.texts + 1]
        return tuple(self.token[at[i] : at[i + 1]] for i in range(self.texts))

    def id(self, row: int) -> str:
        return bytes(self.id_byte[self.id_offset[row] : self.id_offset[row + 1]]).decode()

    def text_lengths(self, first: int, end: int) -> np.ndarray:
        """Tokens of each text of some rows, as [rows, texts]."""
        at = self.offset[first * self.texts : end * self.texts + 1]
        return np.diff(at).reshape(-1, self.texts)

    def release(self) -> None:
        """Let go of the pages read so far, if they can be many. Values in use stay good."""
        if self.token.nbytes < SMALL:
            return
        for array in (self.token, self.offset, self.label, self.fingerprint):
            if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                array.base.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class CorpusRows(Sequence[TokenIds]):
    """The rows of a corpus, read when asked for."""

    corpus: Corpus

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, row: int) -> TokenIds:  # type: ignore[override]
        if row >= len(self.corpus):
            raise IndexError(row)
        return self.corpus.pieces(row)


def load_corpus(
    task: Task,
    source: Source,
    tokenizer: Tokenizer,
    *,
    workers: int | Literal["auto"] = "auto",
    on_progress: OnProgress = ignore_progress,
) -> Corpus:
    """The corpus of a source, from the cache if these very contents were read before.

    ``workers`` other processes tokenise; what they write does not depend on their number.
    """
    content = file_digest(source.path)
    reading = asdict(source) | {"path": ""}
    del reading["called"]
    spelled = json.dumps(
        [FORMAT, content, asdict(task), reading, _digest(tokenizer)], sort_keys=True
    )
    digest = hashlib.sha256(spelled.encode()).hexdigest()
    folder = cache_folder() / "tokens" / digest
    if not _is_whole(folder):
        crew = workers_for(source.path) if workers == "auto" else workers
        with whole_or_not_at_all(folder, _is_whole) as beside:
            _write(beside, task, source, tokenizer, crew, on_progress)
    return _open(folder, task.texts, content)


def cache_folder() -> Path:
    """``COTRUNK_CACHE``, else where the system keeps a user's caches."""
    named = os.environ.get("COTRUNK_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("cotrunk")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, remembered until its size or time of change differs."""
    status = path.stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()
    note = cache_folder() / "digests" / f"{name}.json"
    try:
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a missing or damaged note is written again
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BLOCK):
            content.update(block)
    note.parent.mkdir(parents=True, exist_ok=True)
    beside = note.with_name(f"{note.name}.{uuid.uuid4().hex}")
    beside.write_text(json.dumps({"stamp": stamp, "sha256": content.hexdigest()}))
    beside.rename(note)
    return content.hexdigest()


def _digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def _write(
    folder: Path,
    task: Task,
    source: Source,
    tokenizer: Tokenizer,
    workers: int,
    on_progress: OnProgress,
) -> None:
    rows = Rows(task, source)
    wide = tokenizer.get_vocab_size() > 1 << 16
    parts = encoded(_chunks(rows), tokenizer, task.texts, workers=workers)
    with closing(parts), _Writer(folder, wide=wide) as writer:
        for chunk, part in parts:
            writer.write(chunk, part)
            on_progress(ProgressUpdate(f"tokenising {source.path.name}", len(chunk), rows.share))
    about = {
        "dropped": rows.dropped,
        "dropped_count": rows.dropped_count,
        "unlabelled": rows.unlabelled,
        "bytes": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
    }
    (folder / "about.json").write_text(json.dumps(about))


@contextmanager
def whole_or_not_at_all(folder: Path, is_whole: Callable[[Path], bool]) -> Iterator[Path]:
    """A place beside ``folder`` to fill; it takes that name once nothing has failed."""
    clear_leftovers(folder.parent)
    beside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    beside.mkdir(parents=True)
    try:
        yield beside
        try:
            beside.rename(folder)
        except OSError:
            if not is_whole(folder):  # else another process was quicker
                shutil.rmtree(folder, ignore_errors=True)  # something in it is lost or cut short
                beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def clear_leftovers(folder: Path) -> None:
    """Remove what a process that was killed had begun: nothing was written there for a day.

    Its age is asked for, not its process: that may run on another machine with the same home.
    """
    begun = [path for path in folder.glob("*.*") if BEGUN.fullmatch(path.name)]
    for path in begun:
        if time.time() - _last_written(path) > A_DAY:
            shutil.rmtree(path, ignore_errors=True)  # another process may do so too


def _last_written(folder: Path) -> float:
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:  # it was finished or removed meanwhile
        return math.inf


def _is_whole(folder: Path) -> bool:
    """All arrays are there, in full length."""
    try:
        sizes = json.loads((folder / "about.json").read_text())["bytes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def _chunks(rows: Rows) -> Iterator[list[Example]]:
    chunk, letters = [], 0
    for example in rows:
        chunk.append(example)
        letters += sum(map(len, example.texts))
        if len(chunk) == CHUNK or letters > CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


class _Writer:
    """Appends rows to the arrays of a corpus."""

    def __init__(self, folder: Path, *, wide: bool) -> None:
        self.token_type = np.uint32 if wide else np.uint16
        self.files: dict[str, BinaryIO] = {
            name: (folder / name).open("wb")
            for name in (
                _token_name(wide),
                "offset",
                "label",
                "id_byte",
                "id_offset",
                "line",
                "fingerprint",
            )
        }
        self.tokens = self.id_bytes = 0
        self.wide = wide
        self._append("offset", np.zeros(1, np.int64))
        self._append("id_offset", np.zeros(1, np.int64))

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files.values():
            file.close()

    def write(self, chunk: list[Example], encoded: Encoded) -> None:
        ends = self.tokens + np.cumsum(encoded.length)
        names = [example.id.encode() for example in chunk]
        name_ends = self.id_bytes + np.cumsum([len(name) for name in names])
        labels = [np.nan if example.label is None else example.label for example in chunk]
        self._append(_token_name(self.wide), encoded.token.astype(self.token_type))
        self._append("offset", ends)
        self._append("label", np.array(labels, np.float64))
        self._append("line", np.array([example.line for example in chunk], np.int64))
        self._append("fingerprint", encoded.fingerprint)
        self._append("id_byte", np.frombuffer(b"".join(names), np.uint8))
        self._append("id_offset", name_ends)
        self.tokens, self.id_bytes = int(ends[-1]), int(name_ends[-1])

    def _append(self, name: str, values: np.ndarray) -> None:
        self.files[name].write(values.tobytes())


def _token_name(wide: bool) -> str:
    return "token32" if wide else "token16"


def _open(folder: Path, texts: int, digest: str) -> Corpus:
    about = json.loads((folder / "about.json").read_text())
    wide = (folder / _token_name(True)).exists()

    def array(name: str, kind: type[np.generic]) -> np.ndarray:
        path = folder / name
        size = path.stat().st_size
        if not size:
            return np.zeros(0, kind)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # As np.memmap does, but as a plain array: taking a slice of it is six times faster.
        return np.ndarray(size // np.dtype(kind).itemsize, kind, mapped)

    return Corpus(
        texts=texts,
        token=array(_token_name(wide), np.uint32 if wide else np.uint16),
        offset=array("offset", np.int64),
        label=array("label", np.float64),
        id_byte=array("id_byte", np.uint8),
        id_offset=array("id_offset", np.int64),
        line=array("line", np.int64),
        fingerprint=array("fingerprint", np.uint64),
        digest=digest,
        key=folder.name,
        dropped=tuple(about["dropped"]),
        dropped_count=about["dropped_count"],
        unlabelled=about["unlabelled"],
    )
