"""Losses and dev scores over the steps."""

from collections.abc import Iterable

from cotrunk.study.report import history
from cotrunk.study.report.charts import curves
from cotrunk.study.report.parts import Choice, Figure, Section
from cotrunk.study.report.subject import Subject

SCALES = ("linear", "log")


def learning(subject: Subject) -> Section:
    losses = [figure for task in subject.tasks if (figure := _losses(subject, task))]
    scores = [figure for task in subject.tasks if (figure := _scores(subject, task))]
    text = [
        "One line per run: the training loss, then the score on the dev rows. Losses of long runs "
        "are means over segments of steps. The logarithmic axis of a score shows its distance "
        "to 1."
    ]
    if not scores:
        text = ["No run was evaluated while it trained, so there are no scores over time."]
    return Section(
        "learning",
        "Learning curves",
        text,
        key=subject.order,
        choice=Choice("Axis", "variant", SCALES),
        figures=[*losses, *scores],
    )


def _losses(subject: Subject, task: str) -> Figure | None:
    records = history.losses(subject, task)
    if not records:
        return None
    charts = {
        scale: curves.losses(subject.order, task=task, log=scale == "log")
        for scale in _scales(record["loss"] for record in records)
    }
    return Figure(f"loss-{task}", charts, records)


def _scores(subject: Subject, task: str) -> Figure | None:
    records = history.dev_scores(subject, task)
    if not records:
        return None
    metric = subject.metric(task)
    charts = {
        scale: curves.dev_scores(
            records, subject.order, task=task, metric=metric, log=scale == "log"
        )
        for scale in _scales(record["error"] for record in records)
    }
    return Figure(f"dev-{task}", charts, records)


def _scales(values: Iterable[float | None]) -> tuple[str, ...]:
    """A logarithmic axis needs something above 0."""
    return SCALES if any(value is not None and value > 0 for value in values) else SCALES[:1]
