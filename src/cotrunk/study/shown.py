"""A comparison as a Python prompt or a notebook shows it."""

from dataclasses import dataclass, fields

from cotrunk.notebook import html_table, text_table
from cotrunk.study.comparison import Comparison
from cotrunk.study.tables import Table, table_of


@dataclass(frozen=True, eq=False, repr=False)
class ShownComparison(Comparison):
    """Runs compared with a baseline; ``to_json()`` has everything that was found."""

    def __repr__(self) -> str:
        found = table_of(self)
        scores, costs = _parts(found)
        return "\n\n".join([text_table(*scores), text_table(*costs), *found.footnotes])

    def _repr_html_(self) -> str:
        found = table_of(self)
        scores, costs = _parts(found)
        notes = html_table(["notes"], [[note] for note in found.footnotes])
        return html_table(*scores) + html_table(*costs) + notes


def shown(compared: Comparison) -> ShownComparison:
    return ShownComparison(
        **{field.name: getattr(compared, field.name) for field in fields(compared)}
    )


_TableData = tuple[list[str], list[list[str]]]


def _parts(found: Table) -> tuple[_TableData, _TableData]:
    """The columns about scores, and those about cost."""
    scores = list(found.columns[: found.cost]), [list(row[: found.cost]) for row in found.rows]
    rows = [[row[0], *row[found.cost :]] for row in found.rows if row[0]]
    return scores, (["run", *found.columns[found.cost :]], rows)
