"""Losses and dev scores over the steps of training."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from cotrunk.study.report.charts.theme import (
    Record,
    padded,
    series_colour,
    sized,
    step_axis,
    table,
)

HEIGHT = 190
MOST_BANDS = 4
"""Intervals of more lines than these would hide each other."""


def losses(order: Sequence[str], *, task: str, log: bool) -> Any:
    """One line per run. Records: series, shade, run, step, loss."""
    scale = alt.Scale(type="log", nice=False, padding=10) if log else alt.Scale(zero=False)
    chart = (
        alt.Chart(table())
        .mark_line(strokeWidth=1.5, strokeOpacity=0.85, clip=True)
        .encode(
            x=alt.X("step:Q", title="step", axis=step_axis()),
            y=alt.Y("loss:Q", title=None, scale=scale, axis=alt.Axis(tickCount=5)),
            color=series_colour(order),
            detail="run:N",
            tooltip=["series:N", "run:N"],
        )
    )
    if log:
        chart = chart.transform_filter("datum.loss > 0")
    how = "on a logarithmic axis, " if log else ""
    alt_text = f"Training loss of {task} over the steps, {how}one line per run."
    return sized(chart, title=f"{task}: training loss", alt_text=alt_text, height=HEIGHT)


def dev_scores(
    records: Sequence[Record], order: Sequence[str], *, task: str, metric: str, log: bool
) -> Any:
    """One line per run; the logarithmic axis shows how far the score is from 1.

    Records: series, shade, run, step, score, low, high, error, error_low, error_high.
    """
    names = ("error", "error_low", "error_high") if log else ("score", "low", "high")
    bands = len({record["run"] for record in records}) <= MOST_BANDS
    title = f"1 - {metric}" if log else None
    found = [record.get(name) for record in records for name in (names if bands else names[:1])]
    scale = alt.Scale(type="log", nice=False, padding=10) if log else padded(found)
    base = alt.Chart(table()).encode(
        x=alt.X("step:Q", title="step", axis=step_axis()),
        color=series_colour(order),
        detail="run:N",
    )
    if log:  # a perfect score has no place there
        base = base.transform_filter(f"datum.{names[0]} > 0")
    line = base.mark_line(strokeWidth=1.5, strokeOpacity=0.85, point={"size": 22, "filled": True})
    line = line.encode(
        y=alt.Y(f"{names[0]}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5)),
        tooltip=[
            "series:N",
            "run:N",
            "step:Q",
            alt.Tooltip("score:Q", format=".3f", title=metric),
            alt.Tooltip("low:Q", format=".3f"),
            alt.Tooltip("high:Q", format=".3f"),
        ],
    )
    layers = [line]
    if bands:
        band = base.mark_area(opacity=0.13).encode(y=f"{names[1]}:Q", y2=names[2])
        layers.insert(0, band)
    how = "shown as the distance to 1 on a logarithmic axis, " if log else ""
    alt_text = f"{metric} of {task} on the dev rows over the steps, {how}one line per run."
    return sized(alt.layer(*layers), title=f"{task}: {metric}", alt_text=alt_text, height=HEIGHT)
