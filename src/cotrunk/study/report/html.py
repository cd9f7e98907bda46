"""Puts the sections of a report into one file that needs nothing else."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cotrunk import __version__
from cotrunk.files import without_nan, write_whole
from cotrunk.study.report.charts import theme
from cotrunk.study.report.parts import Figure, Section

Charts = dict[str, dict[str, theme.Spec]]


@cache
def templates() -> Environment:
    return Environment(
        loader=PackageLoader("cotrunk.study.report"),
        autoescape=True,
        undefined=StrictUndefined,
    )


def write_page(
    out: Path,
    sections: Sequence[Section],
    *,
    title: str,
    about: str,
    verdict: Sequence[str],
    broken: Sequence[Mapping[str, str]],
) -> None:
    figures = [figure for section in sections for figure in section.figures]
    script = _script()
    page = templates().get_template("page.html")
    written = page.render(
        title=title,
        about=about,
        verdict=verdict,
        broken=broken,
        sections=sections,
        version=__version__,
        shades=theme.SERIES,
        style=Markup(_style()),
        charts=_json(_charts(figures)),
        script=script,
        script_hash=_hash(script),
    )
    write_whole(out, written.encode())


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
        "config": theme.config(theme.ON_PAGE, legends=False),
    }


def spec_of(chart: Any) -> theme.Spec:
    """The Vega-Lite of a chart, without its data and without colours."""
    spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    made = without_nan(spec)
    assert isinstance(made, dict)
    return made


@cache
def _script() -> str:
    """Vega, Vega-Lite and vega-embed from the vl-convert wheel, bundled with our own lines."""
    own, _, _ = templates().loader.get_source(templates(), "page.js")  # type: ignore[union-attr]
    return vl_convert.javascript_bundle(own).replace("</script", "<\\/script")


def _style() -> str:
    source, _, _ = templates().loader.get_source(templates(), "page.css")  # type: ignore[union-attr]
    for name, colours in (("@LIGHT@", theme.LIGHT), ("@DARK@", theme.DARK)):
        source = source.replace(name, " ".join(f"--{key}: {c};" for key, c in colours.items()))
    return source


def _json(value: object) -> str:
    """JSON in which nothing can end a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
