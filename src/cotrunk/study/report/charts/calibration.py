"""How often answers of some confidence are right."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from cotrunk.study.report.charts.theme import ACCENT, MUTED, sized, table

CONFIDENCE, RIGHT = "confidence of the answer", "share that is right"
AXIS = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2f")


def reliability(runs: Sequence[str], *, task: str, most: int) -> Any:
    """Dots on the dashed line are calibrated; the parameter ``run`` chooses the run.

    Records: run, confidence, right, low, high, rows, of one bin each. ``most``: the most rows of
    a bin.
    """
    chosen = alt.param(name="run", value=runs[0])
    scale = alt.Scale(domain=[0, 1])
    diagonal = (
        alt.Chart(alt.InlineData(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
        .mark_line(strokeDash=[4, 3], strokeWidth=1, style=MUTED)
        .encode(
            x=alt.X("x:Q", scale=scale, title=CONFIDENCE, axis=AXIS),
            y=alt.Y("y:Q", scale=scale, title=RIGHT, axis=AXIS),
        )
    )
    base = (
        alt.Chart(table())
        .transform_filter("datum.run == run")
        .encode(x=alt.X("confidence:Q", scale=scale, title=CONFIDENCE, axis=AXIS))
    )
    rule = base.mark_rule(strokeWidth=2, opacity=0.5, style=ACCENT).encode(
        y=alt.Y("low:Q", scale=scale, title=RIGHT, axis=AXIS), y2="high:Q"
    )
    dot = base.mark_point(filled=True, opacity=1, style=ACCENT).encode(
        y=alt.Y("right:Q", scale=scale, title=RIGHT, axis=AXIS),
        size=alt.Size("rows:Q", scale=alt.Scale(domain=[0, most], range=[10, 160]), legend=None),
        tooltip=[
            alt.Tooltip("confidence:Q", format=".3f"),
            alt.Tooltip("right:Q", format=".3f", title="right"),
            alt.Tooltip("rows:Q", title="answers"),
        ],
    )
    alt_text = f"Reliability of {task}: the share of right answers against their confidence."
    return sized(
        alt.layer(diagonal, rule, dot).add_params(chosen),
        title=task,
        alt_text=alt_text,
        height=210,
    )
