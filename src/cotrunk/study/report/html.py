"""Puts the sections of a report into one self-contained HTML file."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cotrunk import __version__
from cotrunk.files import without_nan, write_whole
from cotrunk.study.report import colours
from cotrunk.study.report.charts import theme
from cotrunk.study.report.parts import Figure, Report
from cotrunk.study.report.style import style

Charts = dict[str, dict[str, theme.Spec]]


@cache
def templates() -> Environment:
    made = Environment(
        loader=PackageLoader("cotrunk.study.report"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    made.filters["breakable"] = breakable
    return made


def breakable(text: str) -> Markup:
    """Names may break after dots, underscores and slashes rather than inside words.

    Numbers may not.
    """
    return Markup("<wbr>").join(re.split(r"(?<=[._/])(?=[^\W\d])", text))


def write_page(out: Path, report: Report) -> None:
    script = _script()
    page = templates().get_template("page.html")
    written = page.render(
        _values(report),
        version=__version__,
        style=Markup(style()),
        script=script,
        script_hash=_hash(script),
    )
    write_whole(out, written.encode(errors="backslashreplace"))


def fragment(report: Report) -> str:
    """A report to be put into a page of the service, which has scripts and style of its own."""
    return templates().get_template("fragment.html").render(_values(report))


def _values(report: Report) -> dict[str, object]:
    figures = [figure for section in report.sections for figure in section.figures]
    return {"report": report, "shades": theme.SERIES, "charts": _json(_charts(figures))}


def _charts(figures: Sequence[Figure]) -> dict[str, Any]:
    """Specifications by figure and variant, and the records of each figure."""
    datasets: dict[str, Any] = {}
    charts: Charts = {}
    for figure in figures:
        charts[figure.name], datasets[figure.name] = {}, without_nan(list(figure.records))
        for variant, chart in figure.charts.items():
            charts[figure.name][variant] = spec_of(chart)
    return {
        "charts": charts,
        "datasets": datasets,
        "config": theme.config(colours.ON_PAGE, legends=False),
    }


def spec_of(chart: Any) -> theme.Spec:
    """The Vega-Lite of a chart, without its data and without colours."""
    spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    made = without_nan(spec)
    assert isinstance(made, dict)
    return made


def bundle(own: str) -> str:
    """Vega, Vega-Lite and vega-embed from the vl-convert wheel, bundled with lines of our own."""
    return vl_convert.javascript_bundle(own)


def drawing_script() -> str:
    """Our own lines, which draw the charts of a page with ``vegaEmbed``."""
    source, _, _ = templates().loader.get_source(templates(), "page.js")  # type: ignore[union-attr]
    return source


@cache
def _script() -> str:
    return bundle(drawing_script()).replace("</script", "<\\/script")


def _json(value: object) -> str:
    """JSON in which nothing can end a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
