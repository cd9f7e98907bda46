"""The tables and drawings that commands print."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cotrunk.cli.terminal.output import megabytes, number, out, table, with_interval
from cotrunk.errors import plural
from cotrunk.kinds.task import Task
from cotrunk.model.sharing.parameter_table import ParameterTable
from cotrunk.model.sharing.partition import Partition
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import Plan

Document = Mapping[str, Any]
BAR = 24

LEAST_SECONDS = 1.0
"""CPU time below which a ratio is meaningless."""


def show_scores(title: str, document: Document) -> None:
    """One row per task, then both overall scores."""
    rows = []
    for task, s in document["scores"].items():
        rows.append([task, with_interval(s["score"], s["low"], s["high"])])
        # A task outside the overall score shows all its metrics.
        if s["unit"] is None and s["score"] is not None:
            others = (name for name in s["more"] if name != s["metric"])
            rows += [[f"{task}, {name}", number(s["more"][name])] for name in others]
    rows += [[f"overall, {key}", number(score)] for key, score in document["overall"].items()]
    out().print(table(title, ["task", "score [95 % interval]"], rows))


def show_int8(title: str, document: Document) -> None:
    """float32 and int8 side by side, with their CPU times."""
    exact, int8 = document["scores"], document["int8"]
    rows = []
    for task, rough in int8["tasks"].items():
        changed = rough["changed"]
        rows.append(
            [
                task,
                *(with_interval(s["score"], s["low"], s["high"]) for s in (exact[task], rough)),
                signed(rough["difference"]),
                number(changed) if rough["changed_is"] == "distance" else f"{changed:.1%}",
            ]
        )
    for key, score in document["overall"].items():
        other = int8["overall"][key]
        rows.append([f"overall, {key}", number(score), number(other), signed(other - score), ""])
    columns = ["task", "float32 [95 % interval]", "int8 [95 % interval]", "difference", "changed"]
    out().print(table(title, columns, rows))
    spent, now = (int8["cpu_seconds"][kind] for kind in ("float32", "int8"))
    enough = now >= LEAST_SECONDS
    ratio = f"{int8['times_less']:.2f} times faster" if enough else "too few rows for a ratio"
    out().print(f"CPU seconds: int8 {now:.1f}, float32 {spent:.1f} ({ratio})")
    out().print("changed: share of answers that differ (scores: mean absolute difference)")


def show_worst(worst: Mapping[str, Sequence[Document]]) -> None:
    """The rows of each task with the largest errors."""
    for task, rows in worst.items():
        out().print(f"\n{task}: {'largest errors' if rows else 'no errors'}")
        for row in rows:
            label, predicted = (_short(row[key]) for key in ("label", "prediction"))
            out().print(
                f"line {row['line']}, id {row['id']}: predicted {predicted}, gold {label}, "
                f"error {row['error']:.3f}"
            )
            for text in row["texts"]:
                out().print(f"    {text}")
    out().print("\nerror: 1 - probability of the gold label (scores: absolute difference)")
    out().print("texts are shown as the model reads them")


def _short(label: str | float | list[str]) -> str:
    if isinstance(label, list):
        return ", ".join(label) or "nothing"
    return label if isinstance(label, str) else f"{label:.4g}"


def show_plan(parameter_table: ParameterTable, reads: Mapping[str, Sequence[str]]) -> None:
    counts, bytes_ = parameter_table.parameters, parameter_table.bytes
    rows = [[part, f"{count:,}"] for part, count in counts.items() if count]
    rows += [["weights", megabytes(bytes_["weights"])]]
    rows += [["checkpoint with optimizer", megabytes(bytes_["checkpoint"])]]
    out().print(draw_owners(parameter_table.plan, reads), markup=False)
    out().print()
    out().print(table("", ["part", "parameters"], rows))


def show_dry_run(document: Document) -> None:
    """One row per epoch and task."""
    rows = []
    for epoch in document["sampling"]:
        name = str(epoch["epoch"] + 1)
        for task, share in epoch["probabilities"].items():
            batches, size = epoch["batches"][task], epoch["rows"][task]
            factor = f"{epoch['factors'][task]:.4g}"
            rows.append([name, task, f"{share:.4f}", f"{batches:,}", f"{size:,}", factor])
            name = ""
    columns = ["epoch", "task", "share of batches", "batches", "rows per batch", "loss factor"]
    made = table("", columns, rows)
    made.columns[1].justify = "left"
    out().print(made)
    steps, parameters = document["steps"], document["parameters"]
    out().print(f"{plural(steps, 'step')}, {plural(parameters, 'parameter')}")


def show_info(document: Document) -> None:
    sharing = "  ".join(f"{key} {value}" for key, value in document["sharing"].items())
    tasks = "  ".join(f"{name} ({kind})" for name, kind in document["tasks"].items())
    state = "finished" if document["finished"] else "not finished"
    lines = [
        ["run", str(document["run"])],
        ["weights", document["weights"]],
        ["sharing", sharing or "all shared"],
        ["tasks", tasks],
        ["steps", f"{document['steps']:,}, {state}"],
        ["checkpoints", "  ".join(document["checkpoints"]) or "none"],
    ]
    made = table("", ["", ""], lines)
    made.show_header = False
    made.columns[1].justify = "left"
    out().print(made)
    if document["scores"]:
        show_scores(f"best on dev, after step {document['best_step']}", document)


def show_demo(runs: Sequence[Document], baselines: Mapping[str, float]) -> None:
    tasks = list(baselines)
    rows = []
    for run in runs:
        none = dict.fromkeys(("score", "low", "high"))  # the run was not evaluated
        scores = [run["scores"].get(task, none) for task in tasks]
        rows.append(
            [
                run["plan"],
                run["sharing"],
                *(with_interval(s["score"], s["low"], s["high"]) for s in scores),
                number(run["overall"]["official"]),
                f"{run['parameters']:,}",
                f"{run['seconds']:.0f}",
                megabytes(run["bytes"]),
            ]
        )
    rows.append(["constant answer", "", *(number(baselines[t]) for t in tasks)])
    columns = ["plan", "layers", *tasks, "overall", "parameters", "seconds", "size"]
    out().print(table("", columns, [row + [""] * (len(columns) - len(row)) for row in rows]))


def show_check(task: Task, splits: Document) -> None:
    for split, report in splits.items():
        lengths = "  ".join(f"{name} {value}" for name, value in report["lengths"].items())
        rows = [
            ["rows", f"{report['rows']:,}"],
            ["bad rows skipped", f"{report['dropped']:,}"],
            ["rows without a label", f"{report['unlabelled']:,}"],
            ["tokens", lengths],
            ["duplicate rows", f"{report['duplicate_rows']:,}"],
            ["texts with conflicting labels", f"{report['conflicting_texts']:,}"],
            ["duplicate ids", f"{report['duplicate_ids']:,}"],
        ]
        if report["rows_in_train"] is not None:
            rows.append(["rows also in train", f"{report['rows_in_train']:,}"])
        made = table(f"{task.name}, {split}", ["", ""], rows)
        made.show_header = False
        out().print(made)
        for line in (*report["dropped_messages"], *report["seen_in_train"]):
            out().print(f"    {line}", markup=False)
        out().print(_histogram(report["labels"]), markup=False)


def signed(difference: float) -> str:
    return number(difference) if math.isnan(difference) else f"{difference:+.3f}"


def _histogram(labels: Mapping[str, int]) -> str:
    most = max(labels.values(), default=0) or 1
    wide = max((len(name) for name in labels), default=0)
    bars = [
        f"  {name:>{wide}} {count:>9,} {'█' * round(BAR * count / most)}"
        for name, count in labels.items()
    ]
    return "\n".join(bars) + "\n"


def draw_owners(plan: Plan, reads: Mapping[str, Sequence[str]]) -> str:
    """The network from top to bottom; tasks that share a copy are in one box."""
    width = max(7, *(len(task) + 2 for task in plan.tasks))
    heads = tuple(frozenset([task]) for task in plan.tasks)
    runs = [*_runs(plan), ("heads", heads)]
    lines = [f"{name:>16} {_boxes(groups, plan.tasks, width)}" for name, groups in reversed(runs)]
    for task, sources in reads.items():
        lines += [f"{'':>16} {source} ──reads──> {task}" for source in sources]
    return "\n".join(lines)


def _runs(plan: Plan) -> list[tuple[str, Partition]]:
    """All places below the heads; depths of one series with the same owners are one line."""
    runs: list[list[Place]] = []
    for place in plan.places:
        last = next((run for run in reversed(runs) if run[0].series == place.series), None)
        if last and set(last[0].partition) == set(place.partition):
            last.append(place)
        elif place.acts != "head":
            runs.append([place])
    return [(f"{run[0].series} {_span(run)}".strip(), run[0].partition) for run in runs]


def _span(run: Sequence[Place]) -> str:
    first, last = run[0].depth, run[-1].depth
    if first is None or last is None:
        return ""
    return str(first + 1) if first == last else f"{first + 1}-{last + 1}"


def _boxes(partition: Partition, tasks: Sequence[str], width: int) -> str:
    """Boxes side by side; a group whose tasks are not adjacent is marked by a letter.

    A task without a copy, for example of a pooler that it does not use, has a gap.
    """
    owner = {task: index for index, group in enumerate(partition) for task in group}
    cells: list[list[str]] = []
    for task in tasks:
        if cells and task in owner and owner.get(cells[-1][-1]) == owner[task]:
            cells[-1].append(task)
        else:
            cells.append([task])
    owned = [cell for cell in cells if cell[0] in owner]
    split = {owner[cell[0]] for cell in owned if len(cell) < len(partition[owner[cell[0]]])}
    boxes = []
    for cell in cells:
        if cell[0] not in owner:
            boxes.append(" " * (width + 2))
            continue
        mark = f" {chr(ord('a') + owner[cell[0]] % 26)}" if owner[cell[0]] in split else ""
        room = (width + 2) * len(cell) - 2
        boxes.append("[" + f"{'+'.join(cell)}{mark}"[:room].center(room) + "]")
    return "".join(boxes)
