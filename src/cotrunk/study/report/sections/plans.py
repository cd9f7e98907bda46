"""Who shares what: the plans, drawn from the heads down to the embeddings."""

from jinja2 import Environment

from cotrunk.build.saved_network import SavedNetwork
from cotrunk.study.report import formats
from cotrunk.study.report.drawing import PlanDrawing, draw
from cotrunk.study.report.networks import Networks
from cotrunk.study.report.parts import Drawing, Section
from cotrunk.study.report.subject import Series, Subject


def plans(subject: Subject, networks: Networks, templates: Environment) -> Section:
    """Series with the same plan share a drawing."""
    alike: dict[tuple[object, ...], list[Series]] = {}
    drawings: dict[tuple[object, ...], tuple[PlanDrawing, SavedNetwork]] = {}
    for series in subject.series:
        network = networks.of(series.runs[0])
        if network is not None:
            drawn = draw(network.plan, network.reads)
            alike.setdefault((drawn.says,), []).append(series)
            drawings[(drawn.says,)] = drawn, network
    template = templates.get_template("plan.svg")
    made = []
    for number, (key, series_alike) in enumerate(alike.items(), start=1):
        drawn, network = drawings[key]
        title = formats.listed([series.name for series in series_alike])
        made.append(
            Drawing(
                f"plan-{number}",
                title,
                template.render(drawing=drawn, title=title),
                _caption(series_alike, network),
            )
        )
    text = [
        "Tasks in one box share one copy of its parameters. Ticks at its sides separate layers."
    ]
    text += [
        f"Not drawn: {series.name}: {why}"
        for series in subject.series
        if (why := networks.why_not(series.runs[0]))
    ]
    return Section("plans", "Plans", text, drawings=made)


def _caption(series: list[Series], network: SavedNetwork) -> str:
    counts = sorted({run.parameters for each in series for run in each.runs})
    words = [f"{formats.listed([formats.count(count) for count in counts])} parameters"]
    words += [f"{task} reads {formats.listed(list(r))}" for task, r in network.reads.items()]
    return "; ".join(words)
