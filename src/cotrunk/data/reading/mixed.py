"""JSON lines whose objects may be for different tasks."""

from collections.abc import Iterable, Sequence

from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import OBJECTS
from cotrunk.data.reading.formats import Fault
from cotrunk.data.reading.refusal import BadRow, Refusal


def is_mixed(source: Source) -> bool:
    """Whether rows may lack columns; the rows of a table have all of them."""
    return source.path.suffix.lower() in OBJECTS


def columns_in(source: Source) -> list[str]:
    """The columns of a file; among JSON objects, the text columns only if a row has all of them."""
    with source.open(source.texts) as table:
        columns = list(table.columns)
        if table.numbered:
            return columns
        found: set[str] = set()
        for _, cells in table.select(source.texts):
            held = set() if isinstance(cells, Fault) else _filled(source.texts, cells)
            found |= held
            if held == set(source.texts):
                return list(dict.fromkeys([*columns, *source.texts]))
    lacking = set(source.texts) - found or set(source.texts)
    return [name for name in columns if name not in lacking]


def rows_without_texts(source: Source, wanted: Sequence[tuple[str, ...]]) -> list[str]:
    """A line for each cause or row that has none of the ``wanted`` sets of text columns.

    Refuses the file, unless ``source`` skips bad rows. Rows that cannot be parsed are left to
    ``Rows``.
    """
    names = list(dict.fromkeys(name for texts in wanted for name in texts))
    rule = f"a row must have the texts of a task ({' or '.join(map('+'.join, wanted))})"
    refused, rows, usable = Refusal(source.place), 0, 0
    with source.open(names) as table:
        for line, cells in table.select(names):
            rows += 1
            if isinstance(cells, Fault):
                continue
            held = _filled(names, cells)
            if any(held.issuperset(texts) for texts in wanted):
                usable += 1
                continue
            found = f"only {', '.join(sorted(held))}" if held else "none"
            at = f"{source.place}:{line}"
            refused.add(BadRow(at, line, f"{rule}; found {found}", "add the text"))
    if refused.causes and not source.skip_bad_rows:
        raise refused.error(rows=rows, usable=usable)
    return refused.lines(rows=rows, usable=usable, fixes=False)


def _filled(names: Iterable[str], cells: Iterable[object]) -> set[str]:
    """The names that have a value; null counts as missing."""
    return {name for name, cell in zip(names, cells, strict=True) if cell is not None}
