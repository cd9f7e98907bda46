"""The part of a report page that only a study has: the report's tables and the verdicts."""

from cotrunk.study.claims import evidence
from cotrunk.study.layout import Filled, both, footnotes
from cotrunk.study.report.parts import Cell, Section, Table
from cotrunk.study.study import Outcome

MARKS = {"confirmed": "better", "refuted": "worse"}


def sections_of(outcome: Outcome) -> list[Section]:
    """Titles and words differ where there is no report whose values could stand beside ours."""
    has_printed = any(made.has_printed for made in outcome.tables)
    means = "Scores are means over seeds."
    printed = "In parentheses: as printed in the report. Ours are means over seeds."
    claims = Section(
        id="claims",
        title="Claims" if has_printed else "Questions",
        text=[f"{_origin(outcome, has_printed)}, written down before anything ran."],
        tables=[_claims(outcome)],
    )
    tables = Section(
        id="printed",
        title="Tables of the report" if has_printed else "All plans",
        text=[
            printed if has_printed else means,
            *footnotes(outcome.tables),
            *outcome.study.notes,
            *_skipped(outcome),
        ],
        tables=[_table(made) for made in outcome.tables],
    )
    return [claims, tables] if outcome.judged else [tables]


def _origin(outcome: Outcome, has_printed: bool) -> str:
    return (
        f"The claims of {outcome.study.report}"
        if has_printed
        else "Questions about all runs together"
    )


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
