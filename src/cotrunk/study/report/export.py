"""Charts and drawings as files of their own, for papers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import vl_convert

from cotrunk.files import without_nan, write_whole
from cotrunk.study.report import colours
from cotrunk.study.report.charts import theme
from cotrunk.study.report.html import spec_of
from cotrunk.study.report.parts import Section

Format = Literal["svg", "png"]
WIDTH = 380
SCALE = 2.5
"""Pixels of a PNG per pixel of the page."""


def write_charts(sections: Sequence[Section], folder: Path, form: Format) -> list[Path]:
    """One file per chart, variant and drawing, in the colours of the light page."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for section in sections:
        for figure in section.figures:
            for variant, chart in figure.charts.items():
                name = f"{figure.name}-{variant}" if len(figure.charts) > 1 else figure.name
                spec = spec_of(chart) | {"config": _config(), "width": WIDTH}
                records = {theme.RECORDS: without_nan(list(figure.records))}
                spec["datasets"] = spec.get("datasets", {}) | records
                written.append(_write(folder, name, vl_convert.vegalite_to_svg(spec), form))
        written += [
            _write(folder, drawing.name, _on_paper(drawing.svg), form)
            for drawing in section.drawings
        ]
    return written


def _config() -> theme.Spec:
    return theme.config(colours.LIGHT, legends=True) | {"background": "#ffffff"}


def _on_paper(svg: str) -> str:
    """With the light colours instead of CSS variables, which exist only on the page."""
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: colours.LIGHT[found[1]], svg)


def _write(folder: Path, name: str, svg: str, form: Format) -> Path:
    safe = re.sub(r"[^\w.+-]+", "-", name)
    path = folder / f"{safe}.{form}"
    write_whole(path, vl_convert.svg_to_png(svg, scale=SCALE) if form == "png" else svg.encode())
    return path
