"""The part of a report page that only a study has: the report's tables and the verdicts."""

from cotrunk.study.claims import evidence
from cotrunk.study.layout import Filled, both
from cotrunk.study.report.parts import Cell, Section, Table
from cotrunk.study.study import Outcome

MARKS = {"confirmed": "better", "refuted": "worse"}


def sections_of(outcome: Outcome) -> list[Section]:
    printed = "In parentheses: as printed in the report. Ours are means over seeds."
    return [
        Section(
            id="claims",
            title="Claims",
            text=[f"The claims of {outcome.study.report}, written down before anything ran."],
            tables=[_claims(outcome)],
        ),
        Section(
            id="printed",
            title="Tables of the report",
            text=[printed, *outcome.study.notes, *_skipped(outcome)],
            tables=[_table(made) for made in outcome.tables],
        ),
    ]


def _skipped(outcome: Outcome) -> list[str]:
    return [f"Skipped: {name}: {why}" for name, why in outcome.skipped.items()]


def _claims(outcome: Outcome) -> Table:
    rows = [
        [
            Cell(judged.claim.id),
            Cell(judged.verdict, mark=MARKS.get(judged.verdict, "undecided")),
            Cell(judged.claim.claim),
            Cell("\n".join(evidence(judged))),
        ]
        for judged in outcome.judged
    ]
    return Table("", ["claim", "verdict", "what it says", "evidence"], rows, numbers=False)


def _table(made: Filled) -> Table:
    rows = [
        [
            Cell(line.name, note=f"{line.seeds} seeds" if line.seeds > 1 else ""),
            *(
                Cell(*both(cell, column))
                for cell, column in zip(line.cells, made.columns, strict=True)
            ),
        ]
        for line in made.lines
    ]
    return Table(made.title, ["", *made.columns], rows)
