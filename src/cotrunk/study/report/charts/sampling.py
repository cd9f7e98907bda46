"""The batches of each task, planned and drawn."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from cotrunk.study.report.charts.theme import ACCENT, CONTRAST, sized, table

TOLD = "isValid(datum.planned) ? format(datum.planned, '.1f') : 'epoch not finished'"


def sampling(runs: Sequence[str], *, task: str, most: float) -> Any:
    """Bars are drawn batches, ticks the planned ones; the parameter ``run`` chooses the run.

    Records: run, epoch, planned (None: not finished), drawn. ``most``: the end of the axis, equal
    for all tasks.
    """
    chosen = alt.param(name="run", value=runs[0])
    base = (
        alt.Chart(table())
        .transform_filter("datum.run == run")
        .transform_calculate(told=TOLD)
        .encode(
            x=alt.X("epoch:O", title="epoch", axis=alt.Axis(labelAngle=0, ticks=False)),
            tooltip=["epoch:O", "drawn:Q", alt.Tooltip("told:N", title="planned")],
        )
    )
    scale = alt.Scale(domain=[0, most])
    axis = alt.Axis(tickCount=4)
    bar = base.mark_bar(opacity=0.55, style=ACCENT, size=16).encode(
        y=alt.Y("drawn:Q", title="batches", scale=scale, axis=axis)
    )
    tick = base.mark_tick(thickness=2, style=CONTRAST, size=22).encode(
        y=alt.Y("planned:Q", title="batches", scale=scale, axis=axis)
    )
    alt_text = f"Batches of {task} in each epoch: bars are drawn, ticks are planned."
    return sized(alt.layer(bar, tick).add_params(chosen), title=task, alt_text=alt_text, height=130)
