"""Turns the records of a file into checked examples. Bad rows are reported, never repaired."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotrunk.data.reading.files import open_table
from cotrunk.data.reading.formats import LONGEST_CELL, Fault, Quoting, Table
from cotrunk.data.reading.refusal import LISTED, BadRow, Refusal
from cotrunk.data.reading.splits import Part, Text
from cotrunk.errors import UserError, plural, shown
from cotrunk.kinds import Kind, WordError
from cotrunk.kinds.task import Task

REMEMBERED_LABELS = 10_000


@dataclass(frozen=True)
class Source:
    """The file of one task and one split, and how to read it.

    ``label`` None: no labels are read. ``id`` None: the column "id" if there is one, else the row
    number. ``sparse_labels`` skips rows with an empty label, ``skip_bad_rows`` skips bad rows
    instead of rejecting the file; both are counted. ``columns`` names the columns of a CoNLL file.
    ``is_plain_text``: each line is a text. ``called`` is the file's name in messages (default: its
    path). ``part``: only some of its rows are meant.
    """

    path: Path
    texts: tuple[str, ...]
    label: str | None
    id: str | None = None
    sparse_labels: bool = False
    skip_bad_rows: bool = False
    quoting: Quoting = "csv"
    columns: tuple[str, ...] = ()
    is_plain_text: bool = False
    called: str | None = None
    part: Part | None = None

    @property
    def place(self) -> str:
        return self.called or str(self.path)

    def open(self, needed: Sequence[str]) -> AbstractContextManager[Table]:
        """Open the file as a table; the delimiter is detected by the ``needed`` columns."""
        return open_table(
            self.path,
            needed=needed,
            quoting=self.quoting,
            place=self.place,
            columns=self.columns,
            is_plain_text=self.is_plain_text,
        )


@dataclass(frozen=True, slots=True)
class Example:
    """``line`` is where the record starts (Parquet: its row); ``target`` is the parsed label."""

    line: int
    id: str
    texts: tuple[Text, ...]
    target: tuple[float, ...] | None


@dataclass(frozen=True)
class _Columns:
    """Names of the selected columns, in this order: texts, then id, then label."""

    texts: tuple[str, ...]
    id: str | None
    label: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.texts, *(name for name in (self.id, self.label) if name is not None))


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

    def _examples(self, table: Table, columns: _Columns) -> Iterator[Example]:
        texts = len(columns.texts)
        has_id, has_label = columns.id is not None, columns.label is not None
        labels, sparse, part = self.task.labels, self.source.sparse_labels, self.source.part
        known, words, any_text = _KnownLabels(labels), labels.reads_words, labels.takes_any_text
        target: tuple[float, ...] | None = None
        refused = Refusal(table.place)
        number = usable = meant = 0
        for number, (line, cells) in enumerate(table.select(columns.names), 1):
            if type(cells) is tuple:
                if has_label:
                    if sparse and labels.is_empty(cells[-1]):
                        self.unlabelled += 1
                        continue
                    target = known[cells[-1]] if type(cells[-1]) is str else known.read(cells[-1])
                if words or any_text:
                    written = as_words if words else _as_text
                    cells = (*map(written, cells[:texts]), *cells[texts:])
                name = cells[texts] if has_id else str(number)
                if type(name) is int:
                    name = str(name)
                sound = _are_sound(name, *(cells[0] if words else cells[:texts]))
                if words:
                    expected = len(cells[0]) if target is None else len(target)
                    sound = sound and 0 < len(cells[0]) == expected
                if (target is not None or not has_label) and sound:
                    usable += 1
                    if part is not None and not part.has(cells[:texts]):
                        continue
                    meant += 1
                    if not refused.lines:
                        yield Example(line, name, cells[:texts], target)
                    continue
            findings = list(_findings(self.task, table, columns, line, cells))
            if self.source.skip_bad_rows:
                self.dropped_count += 1
                self.dropped += list(map(str, findings))[: LISTED - len(self.dropped)]
                continue
            for finding in findings:
                refused.add(finding)
            if refused.is_long:
                break
        if refused.lines:
            raise refused.error()
        if not usable:
            raise UserError(f"{table.place}: {self._nothing_left(number)}", *self.dropped)
        if part is not None and not meant:
            raise UserError(
                f"{table.place}: none of {plural(usable, 'row')} of task {self.task.name} is for "
                f"{part.split}; give another share, or a file of {part.split} rows"
            )

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
    refused, usable = Refusal(source.place), False
    with source.open([source.label]) as table:
        table.require(source.label)
        for line, cells in table.select([source.label]):
            if isinstance(cells, Fault):
                if not refused.is_long:
                    refused.add(_fault_of_row(table, line, cells))
            elif not labels.is_empty(cells[0]):
                usable = True
                yield cells[0]
    if refused.lines and not usable:
        raise refused.error()


def _columns(table: Table, source: Source) -> _Columns:
    named = source.id if source.id is not None or "id" not in table.columns else "id"
    columns = _Columns(source.texts, named, source.label)
    for name in columns.names:
        # JSON objects without a label may lack the key, and so may all that were sniffed.
        if table.numbered or name != source.label or not source.sparse_labels:
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


def _as_text(cell: Any) -> Any:
    """A list of words joined by blanks; anything else unchanged."""
    is_words = isinstance(cell, list) and all(isinstance(word, str) for word in cell)
    return " ".join(cell) if is_words else cell


def as_words(cell: Any) -> Any:
    """The words of a list, or of a string split at blanks; anything else is rejected later."""
    if isinstance(cell, str):
        return tuple(cell.split())
    return tuple(cell) if isinstance(cell, list | tuple) else (cell,)


def _are_sound(*cells: object) -> bool:
    """A fast version of ``text_fault``, because most rows are good."""
    for cell in cells:
        if type(cell) is not str or not cell or cell.isspace() or "\0" in cell:
            return False
        if len(cell) > LONGEST_CELL or not (cell.isascii() or _is_unicode(cell)):
            return False
    return True


def _is_unicode(text: str) -> bool:
    """False for lone surrogates, which stand for bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and (not cell or cell.isspace()))


def _findings(
    task: Task, table: Table, columns: _Columns, line: int, cells: tuple[Any, ...] | Fault
) -> Iterator[BadRow]:
    """Everything wrong with a bad row, each with its fix."""
    if isinstance(cells, Fault):
        yield _fault_of_row(table, line, cells)
        return
    for index, (name, cell) in enumerate(zip(columns.names, cells, strict=True)):
        fix, common, row = "correct the cell or set skip_bad_rows = true", False, line
        if index < len(columns.texts) and task.labels.reads_words:
            reason = words_fault(cell)
        elif index < len(columns.texts):
            reason = text_fault(cell, "text")
        elif name == columns.id and index == len(columns.texts):
            reason = None if type(cell) is int else text_fault(cell, "id")
        elif task.labels.is_empty(cell):
            reason = "the label is missing" if cell is None else "the label is empty"
            fix = "fill the cell, or set sparse_labels = true or skip_bad_rows = true"
        else:
            fault, common = _label_fault(task, cells[0], cell), task.labels.lists_classes
            reason = str(fault) if fault else None
            if table.word_per_line and isinstance(fault, WordError):
                row = line + fault.word - 1
            if common:
                fix = "correct the cell or the task's classes, or set skip_bad_rows = true"
        if reason:
            at = f":{table.columns.index(name) + 1}" if table.numbered else ""
            yield BadRow(f"{table.place}:{row}{at} ({name})", reason, fix, common)


def _fault_of_row(table: Table, line: int, fault: Fault) -> BadRow:
    at = f":{fault.number}" if fault.number else ""
    fix = "correct the row or set skip_bad_rows = true"
    return BadRow(f"{table.place}:{line}{at}", fault.reason, fix)


def text_fault(cell: object, what: str) -> str | None:
    """Why a cell is not a valid text, or None if it is."""
    if cell is None:
        return f"the {what} is missing"
    if not isinstance(cell, str):
        return f"the {what} must be a string; found {shown(cell)}"
    if _is_empty(cell):
        return f"the {what} is empty"
    if len(cell) > LONGEST_CELL:
        return f"a cell must not exceed {LONGEST_CELL:,} characters; found {len(cell):,}"
    return _character_fault(cell)


def words_fault(cell: object) -> str | None:
    """Why a cell is not a valid list of words, or None if it is."""
    if cell is None:
        return "the text is missing"
    if not isinstance(cell, list | tuple | str):
        return f"the text must be a list of words; found {shown(cell)}"
    words = as_words(cell)
    if not words:
        return "the text is empty"
    faults = ((number, text_fault(word, "word")) for number, word in enumerate(words, 1))
    return next((f"word {number}: {fault}" for number, fault in faults if fault), None)


def _label_fault(task: Task, text: object, cell: object) -> ValueError | None:
    if isinstance(cell, str) and (fault := _character_fault(cell)):
        return ValueError(fault)
    try:
        target = task.labels.read(cell)
    except ValueError as error:
        return error
    if task.labels.reads_words and words_fault(text) is None:
        words = len(as_words(text))
        if len(target) != words:
            return ValueError(f"each word needs a label; found {len(target)} for {words} words")
    return None


def _character_fault(cell: str) -> str | None:
    if "\0" in cell:
        return f"a cell must not contain NUL; found one at character {cell.index(chr(0)) + 1:,}"
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        around = shown(cell[max(0, error.start - 10) : error.start + 10])
        return f"a cell must be UTF-8; character {error.start + 1:,} is not: {around}"
    return None
