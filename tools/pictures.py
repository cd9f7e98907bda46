"""Draws the plans of docs/concepts.md as a report does: ``python -m tools.pictures``."""

import re
import sys
from pathlib import Path

from cotrunk.cli.parser import parser
from cotrunk.cli.plan import planned
from cotrunk.study.report.colours import LIGHT
from cotrunk.study.report.drawing import draw
from cotrunk.study.report.html import templates

FOLDER = Path(__file__).parents[1] / "docs/pictures"
USUAL = ["--shape", "minilm", "--tasks", "topic,alike,names", "--heads", "3,1,5"]
PLANS = {
    "plan-shared": ["--encoder", "S6"],
    "plan-half": ["--encoder", "S3 I3"],
    "plan-apart": ["--encoder", "I6"],
    "plan-pair": ["--encoder", "S2 (topic+alike)2 I2"],
    "plan-neck": ["--encoder", "S6", "--neck", "S-I-S"],
    "plan-pal": ["--encoder", "S6", "--pal", "204"],
}


def picture(name: str) -> str:
    """A plan as SVG, in the colours of a light page and on white, to be read on a dark one too."""
    table, reads = planned(parser().parse_args(["plan", *USUAL, *PLANS[name]]))
    drawing = draw(table.plan, reads)
    title = " ".join(PLANS[name][1::2])
    svg = templates().get_template("plan.svg").render(drawing=drawing, title=title)
    svg = re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: LIGHT[found[1]], svg)
    return svg.replace("\n", '\n<rect x="-1" y="-1" width="100%" height="100%" fill="#fff"/>\n', 1)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name in PLANS:
        (FOLDER / f"{name}.svg").write_text(picture(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
