"""Score against cost, and the plans that no other one beats in both."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from cotrunk.study.report.charts.theme import MUTED, series_colour, sized, table

HEIGHT = 230


def pareto(
    order: Sequence[str],
    *,
    scores: Sequence[str],
    cost: str,
    title: str,
    form: str,
) -> Any:
    """Points with intervals; the line joins the front. The parameter ``score`` chooses the score.

    Records: series, shade, of (which score), score, low, high, cost, front.
    """
    chosen = alt.param(name="score", value=scores[0])
    base = alt.Chart(table()).transform_filter("datum.of == score")
    x = alt.X(
        "cost:Q",
        title=cost,
        scale=alt.Scale(zero=False, padding=16),
        axis=alt.Axis(format=form, tickCount=4, grid=False),
    )
    y = alt.Y("score:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    tooltip = [
        alt.Tooltip("series:N"),
        alt.Tooltip("score:Q", format=".3f"),
        alt.Tooltip("low:Q", format=".3f"),
        alt.Tooltip("high:Q", format=".3f"),
        alt.Tooltip("cost:Q", format=form, title=cost),
    ]
    front = (
        base.transform_filter("datum.front")
        .mark_line(strokeWidth=1.2, strokeDash=[5, 3], interpolate="step-after", style=MUTED)
        .encode(x=x, y=y, order="cost:Q")
    )
    rule = base.mark_rule(strokeWidth=1.5, opacity=0.45).encode(
        x=x,
        y=alt.Y("low:Q", title=None, scale=alt.Scale(zero=False)),
        y2="high:Q",
        color=series_colour(order),
    )
    dot = base.mark_point(filled=True, size=75, opacity=1).encode(
        x=x, y=y, color=series_colour(order), tooltip=tooltip
    )
    alt_text = f"Score against {cost}, with 95 % intervals; a dashed line joins the Pareto front."
    chart = alt.layer(front, rule, dot).add_params(chosen)
    return sized(chart, title=title, alt_text=alt_text, height=HEIGHT)
