"""Axes of charts, as they are drawn."""

import re

import pytest
import vl_convert

from cotrunk.study.report.charts.curves import dev_scores, losses
from cotrunk.study.report.charts.heat import conflicts, confusion
from cotrunk.study.report.html import spec_of

LONG = ["a very long name of a class", "another long name", "short"]


def drawn(chart, records) -> str:
    spec = spec_of(chart) | {"width": 300, "datasets": {"records": records}}
    return vl_convert.vegalite_to_svg(spec)


def step_labels(svg: str) -> list[str]:
    (axis,) = re.findall(r"aria-label=\"X-axis titled 'step'.*?role-axis-title", svg, re.DOTALL)
    return re.findall(r"<text[^>]*>([^<]+)</text>", axis)


@pytest.mark.parametrize("last", [1, 2, 3, 7, 40, 5000])
def test_steps_of_a_heat_map_are_whole_numbers(last):
    chart = conflicts(["layers 1"], ["run"], pair="a and b", last=last)
    record = {"run": "run", "place": "layers 1", "start": 0, "end": last, "cosine": 0.3}
    labels = step_labels(drawn(chart, [record]))
    assert len(labels) >= 2
    assert all("." not in label for label in labels)


@pytest.mark.parametrize("steps", [[10], [8, 10], [1, 2], [1, 10], [500, 1000]])
def test_steps_of_curves_are_whole_numbers(steps):
    line = {"series": "plan", "shade": "plan", "run": "run"}
    numbers = dict.fromkeys(["loss", "score", "low", "high"], 0.5)
    records = [{**line, **numbers, "step": step} for step in steps]
    score = dev_scores(records, ["plan"], task="mood", metric="accuracy", log=False)
    for chart in (score, losses(["plan"], task="mood", log=False)):
        labels = step_labels(drawn(chart, records))
        assert labels
        assert all("." not in label for label in labels)


@pytest.mark.parametrize(("names", "slanted"), [(LONG, True), (["yes", "no"], False)])
def test_labels_below_a_matrix_are_slanted_where_those_beside_it_leave_no_room(names, slanted):
    columns = ["found", "missed", "wrongly given"]
    records = [
        {"run": "run", "gold": gold, "answer": answer, "count": 1, "share": 0.3}
        for gold in names
        for answer in columns
    ]
    svg = drawn(confusion(names, columns, ["run"], task="mood"), records)
    assert bool(re.search(r"rotate\((-40|320)\)", svg)) == slanted
