"""Scores with their intervals, side by side."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from cotrunk.study.report.charts.theme import ACCENT, CONTRAST, Record, padded, sized, table

ROW = 22
"""Pixels per row of the chart."""


def intervals(
    records: Sequence[Record],
    order: Sequence[str],
    *,
    task: str,
    metric: str,
    baseline: float | None,
) -> Any:
    """A dot and its 95 % interval per row; a dashed line is the constant answer.

    Records: series, score, low, high.
    """
    base = alt.Chart(table()).encode(
        y=alt.Y(
            "series:N",
            sort=list(order),
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelPadding=8),
        ),
        tooltip=[
            alt.Tooltip("series:N"),
            alt.Tooltip("score:Q", format=".3f", title=metric),
            alt.Tooltip("low:Q", format=".3f"),
            alt.Tooltip("high:Q", format=".3f"),
        ],
    )
    axis = alt.Axis(tickCount=5)
    found = [record[name] for record in records for name in ("score", "low", "high")]
    scale = padded([*found, baseline])
    x = alt.X("score:Q", title=metric, scale=scale, axis=axis)
    layers = [
        base.mark_rule(strokeWidth=2, strokeOpacity=0.5, style=ACCENT).encode(
            x=alt.X("low:Q", title=metric, scale=scale, axis=axis), x2="high:Q"
        ),
        base.mark_point(filled=True, size=55, opacity=1, style=ACCENT).encode(x=x),
    ]
    if baseline is not None:
        constant = alt.Chart(alt.InlineData(values=[{"constant": baseline}]))
        rule = constant.mark_rule(strokeDash=[4, 3], style=CONTRAST)
        layers.append(rule.encode(x="constant:Q", tooltip=alt.Tooltip("constant:Q", format=".3f")))
    alt_text = f"{metric} of {task} on the dev rows with 95 % intervals, one row per plan."
    return sized(alt.layer(*layers), title=task, alt_text=alt_text, height=max(2, len(order)) * ROW)
