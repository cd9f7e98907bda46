"""Tables in Markdown: our value, its spread over seeds, and the printed value in parentheses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cotrunk.study.layout import spelled
from tools.results.documents import ZeroShot

NOTHING, NOT_RUN = "-", "not run"
UNTRAINED = "MiniLM, not trained (zero-shot)"
PAIRED = ("para", "sts")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column is aligned to the left, the others to the right."""
    yield _line(columns)
    yield _line(["---", *["---:"] * (len(columns) - 1)], escape=False)
    yield from map(_line, rows)
    yield ""


def report_table(made: Mapping[str, Any], zero_shot: ZeroShot | None) -> Iterator[str]:
    """A table of a report, as its study's JSON has it."""
    columns = made["columns"]
    rows = [[row["name"], _seeds(row), *_cells(row, columns)] for row in made["rows"]]
    if zero_shot and set(columns) & set(PAIRED):
        known = {"para": zero_shot.para, "sts": zero_shot.sts}
        cells = [spelled(known[c], c) if c in known else NOTHING for c in columns]
        rows.append([UNTRAINED, NOTHING, *cells])
    yield f"**{escaped(made['title'])}**"
    yield ""
    yield from table(["", "seeds", *columns], rows)


def with_spread(value: float | None, spread: float | None, column: str) -> str:
    """Exact numbers, such as parameters, have no spread."""
    if value is None:
        return NOTHING
    return spelled(value, column) + (f" ± {spelled(spread, column)}" if spread else "")


def escaped(text: str) -> str:
    """Escapes what would break a table, emphasis or HTML."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def has_paraphrase(tables: Sequence[Mapping[str, Any]]) -> bool:
    return any("para" in made["columns"] for made in tables)


def _seeds(row: Mapping[str, Any]) -> str:
    """Rows that only repeat printed values have no runs."""
    if row["seeds"]:
        return str(row["seeds"])
    return NOT_RUN if row["runs"] else NOTHING


def _cells(row: Mapping[str, Any], columns: Sequence[str]) -> Iterator[str]:
    for column in columns:
        ours = with_spread(row["ours"][column], row.get("spread", {}).get(column), column)
        printed = row["printed"][column]
        if printed is None:
            yield ours
        else:
            shown = printed if isinstance(printed, str) else spelled(printed, column)
            yield f"{ours} ({shown})"


def _line(cells: Sequence[str], *, escape: bool = True) -> str:
    return f"| {' | '.join(map(escaped, cells) if escape else cells)} |"
