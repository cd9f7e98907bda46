"""Compares what another library computes from an export with what the run computes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotrunk.data.reading.examples import Rows
from cotrunk.data.reading.splits import Text
from cotrunk.errors import UserError, plural
from cotrunk.infer.model import Model

TOLERANCE = 1e-4
"""Largest accepted difference of an output; relative for outputs above the unit of the head."""
MOST_ROWS = 2000
MADE_UP = (
    "Good.",
    "It was slow, dull and far too long; nobody laughed, and half of us left early.",
    "The 2nd act (of 3) isn't bad at all!",
    "tea",
    "An old inn by the river, naïve and bright. " * 40,
    "Nobody said why.",
)


@dataclass(frozen=True)
class CheckRows:
    """The rows of a task to compare on; ``what`` says which they are."""

    rows: Sequence[tuple[Text, ...]]
    what: str


def rows_to_check(model: Model, task: str) -> CheckRows:
    """The dev rows, at most ``MOST_ROWS`` of them; made-up texts if they cannot be read."""
    about = model.network.tasks[task]
    try:
        rows = [
            example.texts
            for source in model.sources["dev"].get(task, ())
            for example in Rows(about, source)
        ]
    except (UserError, OSError):
        rows = []
    if not rows:
        made_up = _made_up(about.texts, words=about.labels.reads_words)
        return CheckRows(made_up, plural(len(made_up), "made-up text"))
    if len(rows) <= MOST_ROWS:
        return CheckRows(rows, plural(len(rows), "dev row"))
    chosen = np.linspace(0, len(rows) - 1, MOST_ROWS).astype(int).tolist()
    return CheckRows([rows[at] for at in chosen], f"{MOST_ROWS:,} of {len(rows):,} dev rows")


def _made_up(texts: int, *, words: bool) -> list[tuple[Text, ...]]:
    if words:
        return [(tuple(text.split()),) for text in MADE_UP]
    return [tuple(MADE_UP[(at + side) % len(MADE_UP)] for side in range(texts)) for at in range(6)]


def row_to_cut(model: Model, task: str) -> tuple[str, ...]:
    """Texts with more tokens than the task reads; not for tasks that read words."""
    form = model.pair_formats[task]
    return tuple(" ".join([text] * form.max_tokens) for text in MADE_UP[1 : 1 + form.texts])


def largest_difference(ours: np.ndarray, theirs: np.ndarray, unit: float = 1.0) -> float:
    """In units of the head; infinite if one has a number where the other has none."""
    if ours.shape != theirs.shape:
        return np.inf
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    both_missing = np.isnan(ours) & np.isnan(theirs)
    apart = np.where(both_missing, 0.0, np.abs(ours - theirs) / np.maximum(unit, np.abs(ours)))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def refuse_difference(task: str, library: str, checked: CheckRows, difference: float) -> None:
    if difference > TOLERANCE:
        raise RuntimeError(
            f"task {task}: {library} computes different outputs from the run (difference "
            f"{difference:.2g} on {checked.what}), so nothing was written; please report this"
        )
