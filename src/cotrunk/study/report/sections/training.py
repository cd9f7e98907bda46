"""Gradients that agree or conflict, and the batches that were planned and drawn."""

from collections.abc import Sequence

from cotrunk.study.records import RunRecord
from cotrunk.study.report import formats, history
from cotrunk.study.report.charts.heat import conflicts as conflict_chart
from cotrunk.study.report.charts.sampling import sampling as sampling_chart
from cotrunk.study.report.charts.theme import Record
from cotrunk.study.report.networks import Networks
from cotrunk.study.report.parts import RUN, Choice, Figure, Section
from cotrunk.study.report.subject import Subject


def conflicts(subject: Subject, networks: Networks) -> Section:
    found = [(name, run, list(history.conflicts(run))) for name, run in subject.leading]
    shown = [(name, run, cosines) for name, run, cosines in found if cosines]
    if not shown:
        text = [
            "Not recorded: gradients are compared only where tasks share parameters and "
            "train.gradients is neither sum nor mean."
        ]
        return Section("conflicts", "Gradient conflicts", text)
    runs = [name for name, _, _ in shown]
    labels = _labels([run for _, run, _ in shown], networks)
    pairs = dict.fromkeys(pair for _, _, cosines in shown for _, pair, *_ in cosines)
    last = max(end for _, _, cosines in shown for _, _, _, end, _ in cosines)
    figures = []
    for pair in pairs:
        records = [
            {
                "run": name,
                "place": labels.get(place, place),
                "start": start,
                "end": end,
                "cosine": cosine,
            }
            for name, _, cosines in shown
            for place, of, start, end, cosine in cosines
            if of == pair
        ]
        used = {record["place"] for record in records}
        places = [label for label in reversed(labels.values()) if label in used]
        title = " and ".join(pair.split("|"))
        chart = conflict_chart(places, _runs_in(records), pair=title, last=last)
        figures.append(Figure(f"conflicts-{pair.replace('|', '-')}", {"": chart}, records))
    text = [
        "Cosine of the gradients of two tasks at each place that both train, before they are "
        "combined: blue where they agree, orange where they conflict, in full colour from "
        "0.5. Shown for the best run of each plan that recorded it.",
        _shares([(name, cosines) for name, _, cosines in shown]),
    ]
    return Section(
        "conflicts",
        "Gradient conflicts",
        text,
        choice=Choice("Run", RUN, runs),
        figures=figures,
    )


def _runs_in(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record[RUN] for record in records))


def _labels(runs: list[RunRecord], networks: Networks) -> dict[str, str]:
    """Places as they are called in drawings, from the embeddings up."""
    labels: dict[str, str] = {}
    for run in runs:
        network = networks.of(run)
        for place in network.plan.places if network else ():
            depth = "" if place.depth is None else f" {place.depth + 1}"
            labels[place.name] = f"{place.series}{depth}"
    return labels


def _shares(found: list[tuple[str, list[tuple[str, str, int, int, float]]]]) -> str:
    parts = []
    for name, cosines in found:
        against = sum(cosine < 0 for *_, cosine in cosines) / len(cosines)
        parts.append(f"{name} {formats.percent(against)}")
    return f"Share of the cells in which they conflict: {', '.join(parts)}."


def sampling(subject: Subject) -> Section:
    found = {name: history.batches(run) for name, run in subject.leading}
    shown = {name: epochs for name, epochs in found.items() if epochs}
    tasks_of = {name: run.tasks for name, run in subject.leading}
    if not shown:
        text = ["No batches were counted: no run has come far enough."]
        return Section("sampling", "Sampling", text)
    runs = list(shown)
    most = max(
        float(count)
        for epochs in shown.values()
        for epoch in epochs
        for counts in epoch.values()
        for count in counts.values()
    )
    figures = []
    for task in subject.tasks:
        records = [
            {
                "run": name,
                "epoch": number,
                "planned": epoch["planned"].get(task, 0) if "planned" in epoch else None,
                "drawn": epoch["drawn"].get(task, 0),
            }
            for name, epochs in shown.items()
            if task in tasks_of[name]
            for number, epoch in enumerate(epochs, start=1)
        ]
        if records:
            chart = sampling_chart(_runs_in(records), task=task, most=most)
            figures.append(Figure(f"sampling-{task}", {"": chart}, records))
    samplers = {name: run.settings["train"]["sampling"] for name, run in subject.leading}
    named = formats.listed(sorted({sampler for name, sampler in samplers.items() if name in shown}))
    text = [
        f"Batches of each task by epoch, through all stages (train.sampling: {named}). Bars are "
        "the batches drawn, ticks the number that the sampler expects; an epoch without ticks was "
        "not finished."
    ]
    return Section("sampling", "Sampling", text, choice=Choice("Run", RUN, runs), figures=figures)
