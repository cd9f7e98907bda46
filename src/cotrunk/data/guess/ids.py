"""The column with the ids of rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cotrunk.data.guess.refusals import IDS
from cotrunk.data.guess.summary import FileSummary, label_cells, names_of_columns
from cotrunk.data.reading.cells import are_sound


def id_of(seen: FileSummary, texts: Sequence[str]) -> str | None:
    """The column with ids of rows; None if there is none, or if it is called id, the default."""
    if "id" in (column.name for column in seen.columns):
        return None
    filled = [c for c in seen.columns if c.role in IDS and not c.empty and not c.marked]
    names = [c.name for c in filled if c.distinct == c.filled]
    return next((name for name in names if name and name not in texts), None)


def identifies_all_rows(name: str, files: Iterable[Path], encoding: str) -> bool:
    """Whether every row of a file has an id of its own there, in each of the files."""
    for file in files:
        columns = names_of_columns(file, encoding)
        if name not in columns:
            return False
        cells = label_cells(file, encoding, columns, [name]).cells[name]
        ids = [str(cell) if type(cell) is int else cell for cell in cells]
        if not are_sound(*ids) or len(set(ids)) < len(ids):
            return False
    return True
