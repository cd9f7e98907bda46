"""Turns the records of a file into checked examples. Bad rows are reported, never repaired."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cotrunk.data.reading.bad_rows import Columns, explain, fault_of_row, findings_of
from cotrunk.data.reading.cells import are_sound, as_text, as_words
from cotrunk.data.reading.encodings import UTF8
from cotrunk.data.reading.files import open_table
from cotrunk.data.reading.formats import Fault, Quoting, Table
from cotrunk.data.reading.refusal import Refusal
from cotrunk.data.reading.splits import Part, Text
from cotrunk.errors import UserError, plural
from cotrunk.kinds import Kind
from cotrunk.kinds.task import Task

REMEMBERED_LABELS = 10_000


@dataclass(frozen=True)
class Source:
    """The file of one task and one split, and how to read it.

    ``label`` None: no labels are read. ``id`` None: the column "id" if there is one, else the row
    number. ``sparse_labels`` skips rows with an empty label, ``skip_bad_rows`` skips bad rows
    instead of rejecting the file; both are counted. ``sparse_texts`` skips JSON objects that lack
    a text column. ``columns`` names the columns of a CoNLL file. ``is_plain_text``: each line is a
    text. ``called`` is the file's name in messages (default: its path). ``part``: read
    only the rows of this split.
    """

    path: Path
    texts: tuple[str, ...]
    label: str | None
    id: str | None = None
    sparse_labels: bool = False
    skip_bad_rows: bool = False
    sparse_texts: bool = False
    quoting: Quoting = "csv"
    encoding: str = UTF8
    columns: tuple[str, ...] = ()
    is_plain_text: bool = False
    called: str | None = None
    part: Part | None = None

    @property
    def place(self) -> str:
        return self.called or str(self.path)

    def open(self, needed: Sequence[str]) -> AbstractContextManager[Table]:
        """Open the file as a table; the delimiter is detected by the ``needed`` columns.

        Without labels, a CoNLL file may have its words alone.
        """
        words = self.texts[0] if self.label is None and len(self.texts) == 1 else None
        return open_table(
            self.path,
            needed=needed,
            quoting=self.quoting,
            encoding=self.encoding,
            place=self.place,
            columns=self.columns,
            words=words,
            is_plain_text=self.is_plain_text,
        )


@dataclass(frozen=True, slots=True)
class Example:
    """``line`` is where the record starts (Parquet: its row); ``target`` is the parsed label."""

    line: int
    id: str
    texts: tuple[Text, ...]
    target: tuple[float, ...] | None


class Rows:
    """The examples of a file, read again in every pass. The counts are those of the last pass."""

    def __init__(self, task: Task, source: Source) -> None:
        if len(source.texts) != task.texts and not task.labels.takes_any_text:
            raise UserError(
                f"{source.place}: task {task.name} reads {plural(task.texts, 'text')}, "
                f"but its text columns are {', '.join(map(repr, source.texts)) or 'not named'}"
            )
        self.task = task
        self.source = source
        self.dropped: list[str] = []
        self.dropped_count = 0
        self.unlabelled = 0
        self.usable = self.in_part = 0
        self._share: Callable[[], float] = lambda: 0.0

    @property
    def share(self) -> float:
        """The share of the file that the pass has read so far."""
        return self._share()

    def __iter__(self) -> Iterator[Example]:
        source = self.source
        self.dropped, self.dropped_count, self.unlabelled = [], 0, 0
        needed = [name for name in (*source.texts, source.id, source.label) if name is not None]
        with source.open(needed) as table:
            self._share = table.share
            examples = self._examples(table, _columns(table, source))
            any_text = self.task.labels.takes_any_text
            yield from _each_text(examples, source.texts) if any_text else examples
            self._share = lambda: 1.0

    def _examples(self, table: Table, columns: Columns) -> Iterator[Example]:
        texts = len(columns.texts)
        has_id, has_label = columns.id is not None, columns.label is not None
        labels, sparse, part = self.task.labels, self.source.sparse_labels, self.source.part
        known, words, any_text = _KnownLabels(labels), labels.reads_words, labels.takes_any_text
        target: tuple[float, ...] | None = None
        refused, skips = Refusal(table.place), self.source.skip_bad_rows
        number = usable = in_part = fitting = 0
        for number, (line, cells) in enumerate(table.select(columns.names), 1):
            if type(cells) is tuple:
                if self.source.sparse_texts and None in cells[:texts]:
                    continue
                if has_label:
                    if sparse and labels.is_empty(cells[-1]):
                        self.unlabelled += 1
                        continue
                    target = known[cells[-1]] if type(cells[-1]) is str else known.read(cells[-1])
                    fitting += target is not None
                if words or any_text:
                    written = as_words if words else as_text
                    cells = (*map(written, cells[:texts]), *cells[texts:])
                name = cells[texts] if has_id else str(number)
                if name is None and self.source.sparse_texts:
                    name = str(number)
                if type(name) is int:
                    name = str(name)
                sound = are_sound(name, *(cells[0] if words else cells[:texts]))
                if words:
                    expected = len(cells[0]) if target is None else len(target)
                    sound = sound and 0 < len(cells[0]) == expected
                if (target is not None or not has_label) and sound:
                    usable += 1
                    if part is not None and not part.has(cells[:texts]):
                        continue
                    in_part += 1
                    if skips or not refused.causes:
                        yield Example(line, name, cells[:texts], target)
                    continue
            self.dropped_count += skips
            for finding in findings_of(self.task, table, columns, line, cells):
                refused.add(finding)
        self.usable, self.in_part = usable, in_part
        self._explain(refused, fitting)
        self._conclude(table.place, refused, rows=number, usable=usable, in_part=in_part)

    def _conclude(
        self, place: str, refused: Refusal, *, rows: int, usable: int, in_part: int
    ) -> None:
        """Refuse a file with bad rows, or without usable ones (``in_part``: those of its part)."""
        if refused.causes and not self.source.skip_bad_rows:
            raise refused.error(rows=rows, usable=usable)
        self.dropped = refused.lines(rows=rows, usable=usable, fixes=not usable)
        if not usable:
            raise UserError(f"{place}: {self._nothing_left(rows)}", *self.dropped)
        if (part := self.source.part) is not None and not in_part:
            raise UserError(
                f"{place}: none of the {plural(usable, 'row')} of task {self.task.name} "
                f"falls into {part.split}; give another share, or a file of {part.split} rows"
            )

    def _explain(self, refused: Refusal, fitting: int) -> None:
        source, labels = self.source, self.task.labels
        explain(refused, labels, path=source.path, encoding=source.encoding, fitting=fitting)

    def _nothing_left(self, rows: int) -> str:
        if not rows:
            return "the file has no rows"
        return (
            f"none of {plural(rows, 'row')} is usable: "
            f"{self.dropped_count:,} bad, {self.unlabelled:,} without a label"
        )


def raw_labels(source: Source, labels: Kind) -> Iterator[object]:
    """The label cells that are not empty; single rows that cannot be read are left to ``Rows``."""
    assert source.label is not None
    refused, rows, usable = Refusal(source.place), 0, 0
    with source.open([source.label]) as table:
        table.require(source.label)
        for line, cells in table.select([source.label]):
            rows += 1
            if isinstance(cells, Fault):
                refused.add(fault_of_row(table, line, cells))
            elif not labels.is_empty(cells[0]):
                usable += 1
                yield cells[0]
    if refused.causes and not usable:
        explain(refused, labels, path=source.path, encoding=source.encoding, fitting=0)
        raise refused.error(rows=rows, usable=usable)


def _columns(table: Table, source: Source) -> Columns:
    named = source.id if source.id is not None or "id" not in table.columns else "id"
    columns = Columns(source.texts, named, source.label)
    for name in columns.names:
        # JSON objects without a label may lack the key, and so may all that were sniffed.
        may_lack = source.sparse_labels if name == source.label else source.sparse_texts
        if table.numbered or not may_lack:
            table.require(name)
    return columns


class _KnownLabels(dict[str, tuple[float, ...] | None]):
    """Parsed labels, cached because labels repeat; None for an invalid one."""

    def __init__(self, labels: Kind) -> None:
        super().__init__()
        self.labels = labels

    def __missing__(self, raw: str) -> tuple[float, ...] | None:
        target = self.read(raw)
        if target is not None and len(self) < REMEMBERED_LABELS:
            self[raw] = target
        return target

    def read(self, raw: object) -> tuple[float, ...] | None:
        if self.labels.is_empty(raw):
            return None
        try:
            return self.labels.read(raw)
        except ValueError:
            return None


def _each_text(examples: Iterator[Example], columns: Sequence[str]) -> Iterator[Example]:
    """Each text of a row as a separate row."""
    if len(columns) == 1:
        yield from examples
        return
    for row in examples:
        for column, text in zip(columns, row.texts, strict=True):
            yield Example(row.line, f"{row.id} {column}", (text,), None)
