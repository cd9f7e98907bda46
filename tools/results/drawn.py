"""What the picture of a report shows, and its description in words."""

from collections.abc import Mapping
from typing import Any

from tools.results.documents import Result
from tools.results.texts import ReportTexts

OURS, PRINTED = "ours, mean ± standard deviation over seeds", "as printed in the report"
Record = dict[str, Any]


def records_of(result: Result, texts: ReportTexts) -> list[Record]:
    """One per row, column and side, from the tables that the picture of a report shows.

    Tables may share rows: our runs are then the same, but the printed values may differ.
    """
    records: list[Record] = []
    for number in texts.tables:
        for row in result.document["tables"][number]["rows"]:
            both = [record for column in texts.columns for record in _both(row, column)]
            records += [record for record in both if record not in records]
    return records if any(record["whose"] == OURS for record in records) else []


def description(result: Result, texts: ReportTexts) -> str:
    titles = [result.document["tables"][number]["title"] for number in texts.tables]
    sides = {record["whose"] for record in records_of(result, texts)}
    shown = "; and ".join(side for side in (OURS, PRINTED) if side in sides)
    return f"{', '.join(texts.columns)} in the rows of: {'; '.join(titles)}. Shown: {shown}"


def _both(row: Mapping[str, Any], column: str) -> list[Record]:
    named = {"row": row["name"], "column": column}
    ours, printed = row["ours"][column], row["printed"][column]
    spread = row["spread"][column] or 0.0
    found = []
    if ours is not None:
        ends = {"low": ours - spread, "high": ours + spread}
        found.append({**named, "whose": OURS, "score": ours, **ends})
    if isinstance(printed, int | float):
        ends = {"low": printed, "high": printed}
        found.append({**named, "whose": PRINTED, "score": printed, **ends})
    return found
