"""Which answers were given for which labels, and whether their confidence can be trusted."""

from cotrunk.kinds.outcomes import Confusion
from cotrunk.kinds.reliability import Reliability, reliability
from cotrunk.study.records import TaskRecord
from cotrunk.study.report import formats
from cotrunk.study.report.charts.calibration import reliability as reliability_chart
from cotrunk.study.report.charts.heat import confusion as confusion_chart
from cotrunk.study.report.parts import RUN, Cell, Choice, Figure, Section, Table
from cotrunk.study.report.subject import Subject


def confusion(subject: Subject) -> Section:
    runs = [name for name, _ in subject.leading]
    figures, without, shown = [], [], set()
    for task in subject.tasks:
        found = {
            name: matrix
            for name, run in subject.leading
            if task in run.tasks and (matrix := _confusion(run.tasks[task])) is not None
        }
        shown |= set(found)
        if found:
            figures.append(_confusion_figure(found, task, runs))
        else:
            without.append(task)
    text = [
        "Answers by gold label on the dev rows, for the best run of each plan. The shade is the "
        "share of the gold label's rows; scores are in bins; with several classes per text, it "
        "shows how often each was found, missed or wrongly given."
    ]
    if without:
        text.append(f"Not shown: {formats.listed(without)}, whose answers are not labels.")
    choice = Choice("Run", RUN, [name for name in runs if name in shown]) if figures else None
    return Section("confusion", "Confusion", text, choice=choice, figures=figures)


def _confusion(task: TaskRecord) -> Confusion | None:
    return task.labels.confusion(task.output, task.target) if task.labels.can_answer else None


def _confusion_figure(found: dict[str, Confusion], task: str, runs: list[str]) -> Figure:
    records = []
    for name, matrix in found.items():
        totals = matrix.counts.sum(axis=1)
        records += [
            {
                "run": name,
                "gold": gold,
                "answer": answer,
                "count": int(matrix.counts[i, j]),
                "share": round(float(matrix.counts[i, j] / max(totals[i], 1)), 4),
            }
            for i, gold in enumerate(matrix.rows)
            for j, answer in enumerate(matrix.columns)
        ]
    first = next(iter(found.values()))
    shown = [name for name in runs if name in found]
    chart = confusion_chart(first.rows, first.columns, shown, task=task)
    return Figure(f"confusion-{task}", {"": chart}, records)


def calibration(subject: Subject) -> Section:
    figures, rows, without = [], [], []
    found = {task: _reliabilities(subject, task) for task in subject.tasks}
    shown = {name for by_run in found.values() for name in by_run}
    runs = [name for name, _ in subject.leading if name in shown]
    for task, by_run in found.items():
        if by_run:
            figures.append(_reliability_figure(by_run, task, runs))
        else:
            without.append(task)
    tasks = [task for task, by_run in found.items() if by_run]
    for name in runs if tasks else ():
        cells = [_error_cell(found[task].get(name)) for task in tasks]
        rows.append([Cell(name), *cells])
    text = [
        "A network is calibrated if answers with a confidence of, say, 0.8 are right in 80 % of "
        "the cases: then dots are on the dashed line. Lines are 95 % intervals of a bin."
    ]
    if without:
        text.append(f"Not shown: {formats.listed(without)}, whose answers have no probability.")
    if not figures:
        return Section("calibration", "Calibration", text[1:])
    table = Table(
        "Expected calibration error in 10 bins; in brackets, the error that a calibrated network "
        "exceeds by chance in only 5 % of cases",
        ["run", *tasks],
        rows,
    )
    return Section(
        "calibration",
        "Calibration",
        text,
        tables=[table],
        choice=Choice("Run", RUN, runs),
        figures=figures,
    )


def _reliabilities(subject: Subject, task: str) -> dict[str, Reliability]:
    found = {}
    for name, run in subject.leading:
        record = run.tasks.get(task)
        sure = record.labels.certainty(record.output, record.target) if record else None
        made = reliability(sure) if sure is not None else None
        if made is not None:
            found[name] = made
    return found


def _error_cell(found: Reliability | None) -> Cell:
    if found is None:
        return Cell(formats.NONE)
    mark = "worse" if found.error > found.by_chance else ""
    return Cell(formats.score(found.error), f"[{formats.score(found.by_chance)}]", mark)


def _reliability_figure(found: dict[str, Reliability], task: str, runs: list[str]) -> Figure:
    records = [
        {
            "run": name,
            "confidence": round(each.confidence, 4),
            "right": round(each.right, 4),
            "low": round(each.low, 4),
            "high": round(each.high, 4),
            "rows": each.rows,
        }
        for name, made in found.items()
        for each in made.bins
    ]
    chart = reliability_chart(
        [name for name in runs if name in found],
        task=task,
        most=max(each.rows for made in found.values() for each in made.bins),
    )
    return Figure(f"calibration-{task}", {"": chart}, records)
