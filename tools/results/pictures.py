"""The pictures of the page as SVG, with the look of reports: light colours on white."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert

from cotrunk.study.report.charts.theme import ACCENT, MUTED, config, padded
from cotrunk.study.report.colours import LIGHT
from cotrunk.study.report.html import spec_of
from tools.results.documents import Results
from tools.results.drawn import OURS, PRINTED, Record, records_of
from tools.results.sharing import MEASURES, Point, points_of
from tools.results.texts import ABOUT, SHARING, ReportTexts

ROW, WIDTH, HEIGHT = 19, 150, 150
WIDE = 330


def pictures(results: Results, texts: Mapping[str, ReportTexts]) -> dict[str, str]:
    """SVG by name; there is none of what has not run."""
    made: dict[str, Any] = {}
    if (about := results.studies.get(ABOUT)) and (points := points_of(about)):
        made[SHARING] = sharing_chart(points)
    for name, result in results.studies.items():
        records = records_of(result, texts[name])
        if records:
            made[name] = report_chart(records, texts[name].columns)
    return {name: svg_of(chart) for name, chart in made.items()}


def svg_of(chart: Any) -> str:
    spec = spec_of(chart) | {"config": config(LIGHT, legends=True) | {"background": "#ffffff"}}
    return vl_convert.vegalite_to_svg(spec)


def sharing_chart(points: Sequence[Point]) -> Any:
    """A panel per score: the mean over seeds as a line, every seed as a small dot."""
    return alt.concat(*(_panel(points, measure) for measure in MEASURES), columns=2)


def _panel(points: Sequence[Point], measure: str) -> Any:
    means = [_mean_record(point, measure) for point in points]
    seeds = [{"shared": p.shared, "score": s} for p in points for s in p.scores[measure]]
    ends = [record[key] for record in means for key in ("low", "high")]
    scale = padded([*ends, *(seed["score"] for seed in seeds)])
    ticks = alt.Axis(values=[point.shared for point in points], format="d", grid=False)
    room = alt.Scale(domain=[points[0].shared - 0.3, points[-1].shared + 0.3], nice=False)
    x = alt.X("shared:Q", title="shared layers", axis=ticks, scale=room)
    y = alt.Y("score:Q", title=None, scale=scale, axis=alt.Axis(tickCount=5))
    line = alt.Chart(_inline(means)).encode(x=x)
    layers = [
        line.mark_rule(strokeWidth=2, strokeOpacity=0.45, style=ACCENT).encode(
            y=alt.Y("low:Q", title=None, scale=scale), y2="high:Q"
        ),
        alt.Chart(_inline(seeds)).mark_point(filled=True, size=14, style=MUTED).encode(x=x, y=y),
        line.mark_line(strokeWidth=2, style=ACCENT).encode(y=y),
        line.mark_point(filled=True, size=55, opacity=1, style=ACCENT).encode(y=y),
    ]
    return alt.layer(*layers).properties(title=measure, width=WIDE, height=HEIGHT)


def _mean_record(point: Point, measure: str) -> Record:
    mean, spread = point.mean(measure), point.spread(measure) or 0.0
    return {"shared": point.shared, "score": mean, "low": mean - spread, "high": mean + spread}


def report_chart(records: Sequence[Record], columns: Sequence[str]) -> Any:
    """A panel per column, a row per row of the tables."""
    order = list(dict.fromkeys(record["row"] for record in records))
    found = {record["whose"] for record in records}
    sides = [whose for whose in (OURS, PRINTED) if whose in found]
    by_column = [[record for record in records if record["column"] == each] for each in columns]
    shown = [mine for mine in by_column if mine]
    panels = [_column(mine, order, sides, first=mine is shown[0]) for mine in shown]
    return alt.hconcat(*panels, spacing=14)


def _column(
    records: Sequence[Record], order: Sequence[str], sides: Sequence[str], *, first: bool
) -> Any:
    labels = alt.Axis(ticks=False, domain=False, labelLimit=300, labelPadding=8) if first else None
    scale = padded([record[end] for record in records for end in ("low", "high")])
    colours = [LIGHT["accent"], LIGHT["contrast"]][: len(sides)]
    shapes = ["circle", "diamond"][: len(sides)]
    base = alt.Chart(_inline(records)).encode(
        y=alt.Y("row:N", title=None, axis=labels, scale=alt.Scale(domain=list(order))),
        color=alt.Color("whose:N", scale=alt.Scale(domain=list(sides), range=colours)),
    )
    ticks = alt.Axis(tickCount=3)
    rule = base.mark_rule(strokeWidth=2, strokeOpacity=0.5).encode(
        x=alt.X("low:Q", title=None, scale=scale, axis=ticks), x2="high:Q"
    )
    dot = base.mark_point(filled=True, size=50, opacity=1).encode(
        x=alt.X("score:Q", title=None, scale=scale, axis=ticks),
        shape=alt.Shape("whose:N", scale=alt.Scale(domain=list(sides), range=shapes)),
    )
    title = alt.TitleParams(records[0]["column"], frame="group")
    return alt.layer(rule, dot).properties(title=title, width=WIDTH, height=ROW * len(order))


def _inline(records: Sequence[Record]) -> alt.InlineData:
    return alt.InlineData(values=list(records))
