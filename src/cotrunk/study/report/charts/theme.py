"""One look for all charts: sizes, fonts, colours.

A chart itself names no colour. On a page, colours are CSS variables, so that a chart follows the
page from light to dark and to paper; in a file of its own they are those of the light page.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

RECORDS = "records"
Spec = dict[str, Any]
Record = Mapping[str, Any]

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif'
LONGEST_LABEL, NARROWEST = 170, 320
"""Pixels: where labels of an axis are cut off, and the width of a chart on a telephone."""
SERIES = 7
"""The number of distinct colours; further series are grey."""
OTHERS = "others"

# Marks carry these styles; a theme gives them colours.
ACCENT, CONTRAST, MUTED, REST = "accent", "contrast", "muted", "rest"


def config(colours: Mapping[str, str], *, legends: bool) -> Spec:
    """The Vega-Lite config of all charts; a page that names the colours itself needs no legends."""
    series = [colours[f"series-{number}"] for number in range(1, SERIES + 1)]
    text = {"labelColor": colours["muted"], "titleColor": colours["muted"]}
    plain = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            **plain,
            "gridColor": colours["line"],
            "domainColor": colours["line"],
            "tickColor": colours["line"],
            "titlePadding": 8,
            "labelLimit": LONGEST_LABEL,
        },
        "legend": {
            **text,
            **plain,
            "orient": "bottom",
            "title": None,
            "labelLimit": 220,
            "columns": 2,
            "symbolOpacity": 1,
            "disable": not legends,
        },
        "title": {
            "color": colours["ink"],
            "fontSize": 13,
            "fontWeight": 600,
            "anchor": "start",
            "offset": 10,
        },
        "text": {"color": colours["ink"], "fontSize": 11},
        "range": {"category": [*series, colours["rest"]]},
        "style": {name: {"color": colours[name]} for name in (ACCENT, CONTRAST, MUTED, REST)},
    }


def table() -> alt.NamedData:
    """The records of a chart, by name: a page adds them once for all variants of the chart."""
    return alt.NamedData(name=RECORDS)


def padded(values: Iterable[float | None], *, least: float = 0.04) -> alt.Scale:
    """A scale with some room around the values, also if they are all alike."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = max((high - low) * 0.06, (least - (high - low)) / 2)
    return alt.Scale(domain=[low - room, high + room], nice=False, zero=False)


def step_axis() -> alt.Axis:
    """Whole numbers only; with ``tickMinStep``, Vega would still divide an axis of a few steps."""
    return alt.Axis(grid=False, tickCount=alt.ExprRef("clamp(span(domain('x')), 1, 5)"))


def sized(chart: Any, *, title: str, alt_text: str, height: int | None = None) -> Any:
    """A chart as wide as its place on the page; ``alt_text`` is what a screen reader says."""
    made = chart.properties(title=title, description=alt_text, width="container")
    return made if height is None else made.properties(height=height)


def series_colour(order: Sequence[str]) -> alt.Color:
    """A colour for each of the first series; those after them share the last."""
    shown = list(order[:SERIES])
    domain = [*shown, OTHERS] if len(order) > SERIES else shown
    return alt.Color(
        "shade:N",
        scale=alt.Scale(domain=domain),
    )


def shade(series: str, order: Sequence[str]) -> str:
    """The name under which a series is coloured."""
    return series if series in order[:SERIES] else OTHERS
