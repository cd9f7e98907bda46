"""What is wrong with the bad rows of a file, and what to do about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotrunk.data.reading.cells import (
    as_words,
    character_fault,
    is_undecoded,
    text_fault,
    words_fault,
)
from cotrunk.data.reading.encodings import encoding_fix
from cotrunk.data.reading.formats import Fault, Table
from cotrunk.data.reading.refusal import SKIP, About, BadRow, Refusal, listed_values
from cotrunk.kinds import Kind, LabelError, WordError
from cotrunk.kinds.task import Task


@dataclass(frozen=True)
class Columns:
    """Names of the selected columns, in this order: texts, then id, then label."""

    texts: tuple[str, ...]
    id: str | None
    label: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.texts, *(name for name in (self.id, self.label) if name is not None))


def findings_of(
    task: Task, table: Table, columns: Columns, line: int, cells: tuple[Any, ...] | Fault
) -> Iterator[BadRow]:
    """Everything wrong with a bad row, each with its fix."""
    if isinstance(cells, Fault):
        yield fault_of_row(table, line, cells)
        return
    for index, (name, cell) in enumerate(zip(columns.names, cells, strict=True)):
        fix, drops, row = "correct the cell", SKIP, line
        about: About = "text"
        if index < len(columns.texts) and task.labels.reads_words:
            reason = words_fault(cell, table.encoding)
        elif index < len(columns.texts):
            reason = text_fault(cell, "text", table.encoding)
        elif name == columns.id and index == len(columns.texts):
            about = "id"
            reason = None if type(cell) is int else text_fault(cell, "id", table.encoding)
        elif task.labels.is_empty(cell):
            reason = "the label is missing" if cell is None else "the label is empty"
            fix, drops = "fill the cell", f"sparse_labels = true or {SKIP}"
        else:
            about = "label"
            fault = _label_fault(task, table, cells[0], cell)
            reason = str(fault) if fault else None
            if table.word_per_line and isinstance(fault, WordError):
                row = line + fault.word - 1
            if isinstance(fault, LabelError) and fault.fix:
                fix = fault.fix
            elif isinstance(fault, LabelError) and fault.limited_by:
                fix = f"correct the cell or tasks.{task.name}.{fault.limited_by}"
            elif task.labels.lists_classes:
                fix = "correct the cell or the task's classes"
        if reason:
            at = f":{table.columns.index(name) + 1}" if table.numbered else ""
            place = f"{table.place}:{row}{at} ({name})"
            if is_undecoded(cell):
                yield BadRow(place, line, reason, "correct the cell", "encoding")
            else:
                raw = cell if about == "label" else None
                yield BadRow(place, line, reason, fix, about, name, drops, raw)


def fault_of_row(table: Table, line: int, fault: Fault) -> BadRow:
    at = f":{fault.number}" if fault.number else ""
    about: About = "encoding" if fault.is_undecoded else "row"
    return BadRow(f"{table.place}:{line}{at}", line, fault.reason, fault.fix, about)


def _label_fault(task: Task, table: Table, text: object, cell: object) -> ValueError | None:
    if isinstance(cell, str) and (fault := character_fault(cell, table.encoding)):
        return ValueError(fault)
    try:
        target = task.labels.read(cell)
    except ValueError as error:
        return error
    if task.labels.reads_words and words_fault(text) is None:
        words = len(as_words(text))
        if len(target) != words:
            reason = f"each word needs a label; found {len(target)} for {words} words"
            return LabelError(reason, fix="correct the cell")
    return None


def explain(refused: Refusal, labels: Kind, *, path: Path, encoding: str, fitting: int) -> None:
    """Explain mistakes that affect every row.

    ``fitting``: the number of labels that could be read.
    """
    for cause in refused.about("encoding"):
        cause.fix = encoding_fix(path, encoding)
    wrong = refused.about("label")
    if fitting or len(wrong) != 1 or not wrong[0].is_common:
        return
    held = _in_order(wrong[0].raws)
    if advice := labels.no_label_fits(held):
        said, wrong[0].fix = advice
        wrong[0].said = f"{said}; the file holds {listed_values(held)}"


def _in_order(labels: Sequence[object]) -> list[object]:
    return sorted(labels, key=lambda label: (len(str(label)), str(label)))
