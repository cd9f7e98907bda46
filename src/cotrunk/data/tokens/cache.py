"""Tokenised corpora on disk, keyed by content and memory-mapped: memory does not grow with rows."""

import hashlib
import json
import mmap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields, replace
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from tokenizers import Tokenizer

from cotrunk.data.reading.examples import Example, Rows, Source
from cotrunk.data.tokens.digests import digest_of, file_digest, refuse_changed, stamp_of
from cotrunk.data.tokens.encoded import Encoded
from cotrunk.data.tokens.store import CacheUnusable, cache_folder, is_intact, storing
from cotrunk.data.tokens.workers import encoded, workers_for
from cotrunk.errors import Errors
from cotrunk.kinds.rows import TokenIds
from cotrunk.kinds.task import Task
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

FORMAT = 5
CHUNK, CHUNK_LETTERS = 4096, 1 << 22
SMALL = 1 << 25
RELEASED_EVERY = 64
"""Rows between releases: each row that is read keeps about 64 kB of pages in memory."""

About = dict[str, Any]
Create = Callable[[str], BinaryIO]
"""Opens an empty file of that name."""
OpenArray = Callable[[str, type[np.generic]], np.ndarray | None]
"""The array of that name and type; None if the corpus has none."""


@dataclass(frozen=True)
class Corpus:
    """The tokenised rows of one task and split. Arrays are memory-mapped files.

    ``target`` has the numbers of all targets, concatenated: ``width`` per row or, if that is None,
    those from ``target_offset[row]`` to the next offset. If texts are lists of words, ``site`` has
    the index of each word's first token in the row's text. ``not_cached`` says why the arrays are
    in memory instead.
    """

    texts: int
    width: int | None
    token: np.ndarray
    offset: np.ndarray
    target: np.ndarray
    target_offset: np.ndarray | None
    site: np.ndarray | None
    site_offset: np.ndarray | None
    id_byte: np.ndarray
    id_offset: np.ndarray
    line: np.ndarray
    fingerprint: np.ndarray
    digest: str
    key: str
    dropped: tuple[str, ...]
    dropped_count: int
    unlabelled: int
    not_cached: str = ""

    def __len__(self) -> int:
        return len(self.line)

    def pieces(self, row: int) -> TokenIds:
        """The token ids of a row's texts."""
        if not row % RELEASED_EVERY:
            self.release()
        at = self.offset[row * self.texts : row * self.texts + self.texts + 1]
        return tuple(self.token[at[i] : at[i + 1]] for i in range(self.texts))

    def targets(self, rows: np.ndarray) -> list[np.ndarray]:
        """The target of each row; empty if ``width`` is None and the row has no label."""
        if self.target_offset is None:
            assert self.width is not None
            first = rows * self.width
            return list(self.target[first[:, None] + np.arange(self.width)])
        return _slices(self.target, self.target_offset, rows)

    def sites(self, rows: np.ndarray) -> list[np.ndarray] | None:
        """The first token of each word of each row; None if texts are not lists of words."""
        if self.site is None or self.site_offset is None:
            return None
        return [site.astype(np.int64) for site in _slices(self.site, self.site_offset, rows)]

    def site_counts(self) -> np.ndarray | None:
        """The number of words of each row."""
        return None if self.site_offset is None else np.diff(self.site_offset)

    def id(self, row: int) -> str:
        return bytes(self.id_byte[self.id_offset[row] : self.id_offset[row + 1]]).decode()

    def text_lengths(self, first: int, end: int) -> np.ndarray:
        """The number of tokens of each text of some rows, as [rows, texts]."""
        at = self.offset[first * self.texts : end * self.texts + 1]
        return np.diff(at).reshape(-1, self.texts)

    def release(self) -> None:
        """Free the pages read so far, if the corpus is large. Arrays in use stay valid."""
        if self.token.nbytes < SMALL:
            return
        for array in (self.token, self.offset, self.target, self.fingerprint):
            if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                array.base.madvise(mmap.MADV_DONTNEED)


def _slices(values: np.ndarray, offset: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    return [values[offset[row] : offset[row + 1]] for row in rows.tolist()]


@dataclass(frozen=True)
class CorpusRows(Sequence[TokenIds]):
    """The rows of a corpus, read on access."""

    corpus: Corpus

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, row: int) -> TokenIds:  # type: ignore[override]
        if row >= len(self.corpus):
            raise IndexError(row)
        return self.corpus.pieces(row)


def load_corpus(
    task: Task,
    source: Source | Sequence[Source],
    tokenizer: Tokenizer,
    *,
    workers: int | Literal["auto"] = "auto",
    on_progress: OnProgress = ignore_progress,
) -> Corpus:
    """The corpus of some files, from the cache if the same contents were tokenised before.

    It is verified, and written again if it is damaged. ``workers``: how many processes tokenise;
    the result does not depend on it. ``CacheUnusable`` if it has to be written and cannot.
    """
    sources = (source,) if isinstance(source, Source) else tuple(source)
    folder = cache_folder() / "tokens" / _key(task, sources, tokenizer)
    if not is_intact(folder):
        with storing(folder) as beside, ExitStack() as stack:

            def create(name: str) -> BinaryIO:
                return stack.enter_context((beside / name).open("wb"))

            about = _write(create, task, sources, tokenizer, workers, on_progress)
            create("about.json").write(json.dumps(about).encode())
    about = json.loads((folder / "about.json").read_bytes())
    return _corpus(partial(_mapped, folder), about, task, digest_of(sources), key=folder.name)


def load_or_hold_corpus(
    task: Task,
    source: Source | Sequence[Source],
    tokenizer: Tokenizer,
    *,
    on_progress: OnProgress = ignore_progress,
) -> Corpus:
    """``load_corpus``, or the same corpus in memory if the cache cannot be written."""
    try:
        return load_corpus(task, source, tokenizer, on_progress=on_progress)
    except CacheUnusable as error:
        why = str(error)
    sources = (source,) if isinstance(source, Source) else tuple(source)
    files = defaultdict[str, BytesIO](BytesIO)
    about = _write(files.__getitem__, task, sources, tokenizer, "auto", on_progress)
    key = _key(task, sources, tokenizer)
    corpus = _corpus(partial(_in_memory, files), about, task, digest_of(sources), key=key)
    return replace(corpus, not_cached=why)


def _key(task: Task, sources: Sequence[Source], tokenizer: Tokenizer) -> str:
    """A digest of everything that a corpus depends on."""
    files = [[file_digest(source.path), _reading(source)] for source in sources]
    identity = json.dumps(
        [FORMAT, files, task.texts, task.labels.reading_key(), _digest(tokenizer)],
        sort_keys=True,
    )
    return hashlib.sha256(identity.encode()).hexdigest()


def _reading(source: Source) -> dict[str, object]:
    """How a file is read, without its path."""
    named = {field.name: getattr(source, field.name) for field in fields(source)}
    part = source.part and (source.part.split, source.part.held.digest)
    return {key: named[key] for key in named if key not in ("path", "called")} | {"part": part}


def _digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def _write(
    create: Create,
    task: Task,
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    workers: int | Literal["auto"],
    on_progress: OnProgress,
) -> About:
    read = [Rows(task, source) for source in sources]
    stamps = [stamp_of(source.path) for source in sources]
    wide = tokenizer.get_vocab_size() > 1 << 16
    words, width = task.labels.reads_words, task.labels.width
    writer = _Writer(create, wide=wide, width=width, words=words)
    errors = Errors()
    for rows, stamp in zip(read, stamps, strict=True):
        path = rows.source.path
        count = workers_for(path) if workers == "auto" else workers
        parts = encoded(_chunks(rows), tokenizer, task.texts, workers=count, words=words)
        with errors.gathered(), closing(parts):
            for chunk, part in parts:
                writer.write(chunk, part)
                on_progress(ProgressUpdate(f"tokenising {path.name}", len(chunk), rows.share))
            refuse_changed(path, stamp)
    errors.refuse()
    return {
        "dropped": [line for rows in read for line in rows.dropped],
        "dropped_count": sum(rows.dropped_count for rows in read),
        "unlabelled": sum(rows.unlabelled for rows in read),
    }


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

    def __init__(self, create: Create, *, wide: bool, width: int | None, words: bool) -> None:
        self.token_type = np.uint32 if wide else np.uint16
        self.wide, self.width, self.words = wide, width, words
        offsets = ["offset", "id_offset", *(["target_offset"] if width is None else [])]
        offsets += ["site_offset"] if words else []
        names = [_token_name(wide), "target", "id_byte", "line", "fingerprint", *offsets]
        self.files = {name: create(name) for name in [*names, *(["site"] if words else [])]}
        self.ends = dict.fromkeys(offsets, 0)
        for name in offsets:
            self._append(name, np.zeros(1, np.int64))

    def write(self, chunk: list[Example], encoded: Encoded) -> None:
        names = [example.id.encode() for example in chunk]
        unlabelled = () if self.width is None else (np.nan,) * self.width
        targets = [unlabelled if row.target is None else row.target for row in chunk]
        self._append(_token_name(self.wide), encoded.token.astype(self.token_type))
        self._append_ends("offset", encoded.length)
        self._append("target", np.fromiter(chain.from_iterable(targets), np.float64))
        self._append("line", np.array([example.line for example in chunk], np.int64))
        self._append("fingerprint", encoded.fingerprint)
        self._append("id_byte", np.frombuffer(b"".join(names), np.uint8))
        self._append_ends("id_offset", [len(name) for name in names])
        if self.width is None:
            self._append_ends("target_offset", [len(target) for target in targets])
        if self.words:
            self._append("site", encoded.site)
            self._append_ends("site_offset", encoded.words)

    def _append_ends(self, name: str, lengths: np.ndarray | list[int]) -> None:
        ends = self.ends[name] + np.cumsum(lengths, dtype=np.int64)
        self._append(name, ends)
        self.ends[name] = int(ends[-1])

    def _append(self, name: str, values: np.ndarray) -> None:
        self.files[name].write(values.tobytes())


def _token_name(wide: bool) -> str:
    return "token32" if wide else "token16"


def _corpus(array: OpenArray, about: About, task: Task, digest: str, *, key: str) -> Corpus:
    token = array(_token_name(True), np.uint32)

    def needed(name: str, kind: type[np.generic]) -> np.ndarray:
        found = array(name, kind)
        assert found is not None, name
        return found

    return Corpus(
        texts=task.texts,
        width=task.labels.width,
        token=needed(_token_name(False), np.uint16) if token is None else token,
        offset=needed("offset", np.int64),
        target=needed("target", np.float64),
        target_offset=array("target_offset", np.int64),
        site=array("site", np.int32),
        site_offset=array("site_offset", np.int64),
        id_byte=needed("id_byte", np.uint8),
        id_offset=needed("id_offset", np.int64),
        line=needed("line", np.int64),
        fingerprint=needed("fingerprint", np.uint64),
        digest=digest,
        key=key,
        dropped=tuple(about["dropped"]),
        dropped_count=about["dropped_count"],
        unlabelled=about["unlabelled"],
    )


def _mapped(folder: Path, name: str, kind: type[np.generic]) -> np.ndarray | None:
    path = folder / name
    if not path.exists():
        return None
    size = path.stat().st_size
    if not size:
        return np.zeros(0, kind)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Like np.memmap, but a plain array, which is six times faster to slice.
    return np.ndarray(size // np.dtype(kind).itemsize, kind, mapped)


def _in_memory(
    files: Mapping[str, BytesIO], name: str, kind: type[np.generic]
) -> np.ndarray | None:
    return np.frombuffer(files[name].getbuffer(), kind) if name in files else None
