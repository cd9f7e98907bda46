"""What a page is made of: sections of text, tables, charts, drawings and examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RUN = "run"
"""What a choice between runs sets, and the field of records that says which run they are of."""


@dataclass(frozen=True)
class Cell:
    """``note`` is shown smaller, after the text; ``mark`` is a class of the style sheet."""

    text: str
    note: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """The first column names the rows; ``numbers`` aligns the others to the right."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: bool = True
    foot: Sequence[Sequence[Cell]] = ()


@dataclass(frozen=True)
class Figure:
    """A chart; several variants, such as a linear and a logarithmic one, share its place."""

    name: str
    charts: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    caption: str = ""

    def shows(self, choice: "Choice | None") -> bool:
        """Whether it has anything of the first run that can be chosen; True if runs cannot be."""
        if choice is None or choice.sets != RUN:
            return True
        return any(record[RUN] == choice.options[0] for record in self.records)


@dataclass(frozen=True)
class Drawing:
    """An SVG of our own, already escaped, in which colours are CSS variables."""

    name: str
    title: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Choice:
    """Something to choose for all charts of a section.

    ``sets``: ``variant``, or the name of a parameter of the charts. With ``run``, charts that have
    no records of the chosen run are hidden.
    """

    label: str
    sets: str
    options: Sequence[str]


@dataclass(frozen=True)
class Example:
    """A row of a data file; ``texts`` as in the file."""

    place: str
    texts: Sequence[str]
    gold: str
    answer: str
    error: str


@dataclass(frozen=True)
class Examples:
    """``run`` is the option of the section's choice under which they are shown."""

    title: str
    rows: Sequence[Example]
    run: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    text: Sequence[str] = ()
    key: Sequence[str] = ()
    """The series whose colours the charts use."""
    tables: Sequence[Table] = ()
    choice: Choice | None = None
    figures: Sequence[Figure] = ()
    drawings: Sequence[Drawing] = ()
    examples: Sequence[Examples] = ()
    more: Sequence[Table] = field(default=())
    """Tables that are folded away until asked for."""


@dataclass(frozen=True)
class Report:
    """``broken``: path and reason of the runs that are left out."""

    title: str
    about: str
    verdict: Sequence[str]
    broken: Sequence[Mapping[str, str]]
    sections: Sequence[Section]
