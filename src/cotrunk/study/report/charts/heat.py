"""Tables of numbers as shades: confusion matrices, and gradients that agree or conflict."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from cotrunk.study.report.charts.theme import (
    ACCENT,
    CONTRAST,
    LONGEST_LABEL,
    NARROWEST,
    sized,
    step_axis,
    table,
)

CELL = 26
LETTER, AXES = 6, 40
"""Pixels: the width of a letter, and of the titles and ticks beside a matrix."""
FULL = 0.5
"""A cosine that is shown in full colour."""


def confusion(
    rows: Sequence[str],
    columns: Sequence[str],
    runs: Sequence[str],
    *,
    task: str,
) -> Any:
    """Shares of each gold label's rows; the parameter ``run`` chooses the run.

    Records: run, gold, answer, count, share.
    """
    chosen = alt.param(name="run", value=runs[0])
    base = (
        alt.Chart(table())
        .transform_filter("datum.run == run")
        .encode(
            x=alt.X(
                "answer:N",
                sort=list(columns),
                title="answer",
                axis=alt.Axis(labelAngle=0 if _fit(columns, beside=rows) else -40, domain=False),
            ),
            y=alt.Y("gold:N", sort=list(rows), title="gold", axis=alt.Axis(domain=False)),
        )
    )
    cells = base.mark_rect(cornerRadius=2, style=ACCENT).encode(
        opacity=alt.Opacity(
            "share:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.62]), legend=None
        ),
        tooltip=[
            "gold:N",
            "answer:N",
            alt.Tooltip("count:Q", title="rows"),
            alt.Tooltip("share:Q", format=".1%", title="share of gold"),
        ],
    )
    layers = [cells]
    if len(columns) <= 10:
        counts = base.transform_filter("datum.count > 0").mark_text()
        layers.append(counts.encode(text=alt.Text("count:Q", format=",")))
    alt_text = f"Confusion matrix of {task}: gold labels by row, answers by column."
    return sized(
        alt.layer(*layers).add_params(chosen),
        title=task,
        alt_text=alt_text,
        height=max(3, len(rows)) * CELL,
    )


def _fit(names: Sequence[str], *, beside: Sequence[str]) -> bool:
    """Whether all names have room below their columns, in the narrowest chart of a page."""
    beside_width = min(LETTER * max(map(len, beside), default=0), LONGEST_LABEL)
    column = (NARROWEST - AXES - beside_width) / max(len(names), 1)
    return LETTER * (max(map(len, names), default=0) + 1) <= column


def conflicts(places: Sequence[str], runs: Sequence[str], *, pair: str, last: int) -> Any:
    """Mean cosines over time: one shade where gradients agree, another where they conflict.

    The parameter ``run`` chooses the run. Records: run, place, start, end, cosine.
    ``last``: the end of the axis.
    """
    chosen = alt.param(name="run", value=runs[0])
    base = (
        alt.Chart(table())
        .transform_filter("datum.run == run")
        .transform_calculate(strength="abs(datum.cosine)")
        .encode(
            x=alt.X(
                "start:Q",
                title="step",
                scale=alt.Scale(domain=[0, last], nice=False),
                axis=step_axis(),
            ),
            x2="end:Q",
            y=alt.Y("place:N", sort=list(places), title=None, axis=alt.Axis(domain=False)),
            opacity=alt.Opacity(
                "strength:Q",
                scale=alt.Scale(domain=[0, FULL], range=[0.05, 1], clamp=True),
                legend=None,
            ),
            tooltip=[
                "place:N",
                alt.Tooltip("start:Q", title="from step"),
                alt.Tooltip("cosine:Q", format="+.3f"),
            ],
        )
    )
    agree = base.transform_filter("datum.cosine >= 0").mark_rect(style=ACCENT)
    against = base.transform_filter("datum.cosine < 0").mark_rect(style=CONTRAST)
    alt_text = (
        f"Cosine of the gradients of {pair} at each shared place over the steps: "
        "blue where they agree, orange where they conflict."
    )
    return sized(
        alt.layer(agree, against).add_params(chosen),
        title=pair,
        alt_text=alt_text,
        height=max(3, len(places)) * 15,
    )
