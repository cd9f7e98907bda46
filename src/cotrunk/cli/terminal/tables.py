"""The tables and drawings that commands print."""

from collections.abc import Mapping, Sequence
from typing import Any

from cotrunk.cli.terminal.output import megabytes, out, table
from cotrunk.errors import plural
from cotrunk.formats import score_text, score_with_interval, signed_text
from cotrunk.kinds.metrics import OFFICIAL, scored_on
from cotrunk.kinds.task import Task
from cotrunk.kinds.threshold import threshold_line
from cotrunk.model.sharing.drawn import draw_owners
from cotrunk.model.sharing.parameter_table import ParameterTable

Document = Mapping[str, Any]
BAR = 24

LEAST_SECONDS = 1.0
"""CPU time below which a ratio is meaningless."""


SCORE_COLUMNS = ["task", "metric", "score [95 % interval]", "constant answer", "rows"]


def show_scores(title: str, document: Document) -> None:
    """One row per task, then both overall scores."""
    rows = []
    for task, s in document["scores"].items():
        rows.append(
            [task, s["metric"], _with_interval(s), score_text(s.get("baseline")), f"{s['rows']:,}"]
        )
        # A task outside the overall score shows all its metrics.
        if s["unit"] is None and s["score"] is not None:
            others = (name for name in s["more"] if name != s["metric"])
            rows += [[task, name, score_text(s["more"][name]), "", ""] for name in others]
    for key, score in document["overall"].items():
        rows.append([f"overall, {key}", "", score_text(score), "", ""])
    made = table(title, SCORE_COLUMNS, rows)
    made.columns[1].justify = "left"
    out().print(made)
    _explain_official(document["overall"])
    for task, s in document["scores"].items():
        if found := threshold_line(s.get("thresholds", {})):
            out().print(f"{task}: {found}")
        if (masked := s.get("masked_tokens")) is not None:  # runs of older versions have none
            out().print(f"{task}: scored on {scored_on(s['rows'], masked)}")


def _explain_official(overall: Mapping[str, float | None]) -> None:
    """Say why the overall scores differ, if they do."""
    if len(set(map(score_text, overall.values()))) > 1:
        out().print(f"official: {OFFICIAL}")


def network_line(network: Document) -> str:
    """Which network was scored, as ``evaluate`` names it."""
    plan = "  ".join(
        f"{key} {'yes' if isinstance(value, dict) else value}"
        for key, value in network["plan"].items()
    )
    at = f"{network['which']}, step {network['step']:,}, seed {network['seed']}"
    return f"{network['run']}: {at}; {plan}"


def _with_interval(score: Mapping[str, Any]) -> str:
    return score_with_interval(score["score"], score["low"], score["high"])


def show_int8(title: str, document: Document) -> None:
    """float32 and int8 side by side, with their CPU times."""
    exact, int8 = document["scores"], document["int8"]
    rows = []
    for task, rough in int8["tasks"].items():
        changed = rough["changed"]
        rows.append(
            [
                task,
                *(_with_interval(s) for s in (exact[task], rough)),
                signed_text(rough["difference"]),
                score_text(changed) if rough["changed_is"] == "distance" else f"{changed:.1%}",
            ]
        )
    for key, score in document["overall"].items():
        other = int8["overall"][key]
        rows.append(
            [
                f"overall, {key}",
                score_text(score),
                score_text(other),
                signed_text(other - score),
                "",
            ]
        )
    columns = ["task", "float32 [95 % interval]", "int8 [95 % interval]", "difference", "changed"]
    out().print(table(title, columns, rows))
    spent, now = (int8["cpu_seconds"][kind] for kind in ("float32", "int8"))
    enough = now >= LEAST_SECONDS
    ratio = f"{int8['times_less']:.2f} times faster" if enough else "too few rows for a ratio"
    out().print(f"CPU seconds: int8 {now:.1f}, float32 {spent:.1f} ({ratio})")
    out().print("changed: share of answers that differ (scores: mean absolute difference)")
    _explain_official(document["overall"])


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
    if any(worst.values()):
        meaning = "1 - probability of the gold label (scores: absolute difference)"
        out().print(f'\n"error" is {meaning}')
        out().print("texts are shown as the model reads them")


def _short(label: str | float | list[str]) -> str:
    if isinstance(label, list):
        return ", ".join(label) or "nothing"
    return label if isinstance(label, str) else f"{label:.4g}"


def show_plan(parameter_table: ParameterTable, reads: Mapping[str, Sequence[str]]) -> None:
    counts, bytes_ = parameter_table.parameters, parameter_table.bytes
    rows = [[part, f"{count:,}"] for part, count in counts.items() if count]
    if (trained := parameter_table.trained) < counts["total"]:
        rows += [["trained", f"{trained:,} ({trained / counts['total']:.2%})"]]
    rows += [["weights", megabytes(bytes_["weights"])]]
    rows += [["checkpoint with optimizer", megabytes(bytes_["checkpoint"])]]
    out().print(draw_owners(parameter_table.plan, reads), markup=False)
    out().print()
    out().print(table("", ["part", "parameters"], rows))


def show_dry_run(document: Document) -> None:
    """One row per epoch and task."""
    rows = []
    has_stages = any("stage" in epoch for epoch in document["sampling"])
    for epoch in document["sampling"]:
        name = str(epoch["epoch"] + 1)
        stage = [str(epoch["stage"])] if has_stages else []
        for task, share in epoch["probabilities"].items():
            batches, size = epoch["batches"][task], epoch["rows"][task]
            factor = f"{epoch['factors'][task]:.4g}"
            passes = f"{epoch['passes'][task]:.2f}"
            counts = [f"{share:.4f}", f"{batches:,}", passes, f"{size:,}", factor]
            rows.append([*stage, name, task, *counts])
            name, stage = "", [""] * has_stages
    sizes = ["batches", "passes over its rows", "rows per batch", "loss factor"]
    first = [*["stage"] * has_stages, "epoch"]
    made = table("", [*first, "task", "share of batches", *sizes], rows)
    made.columns[len(first)].justify = "left"
    out().print(made)
    steps, parameters = document["steps"], document["parameters"]
    out().print(f"{plural(steps, 'step')}, {plural(parameters, 'parameter')}")


def show_info(document: Document, whole_epochs: Sequence[float]) -> None:
    """``whole_epochs``: seconds of those that were trained to their end."""
    sharing = "  ".join(f"{key} {value}" for key, value in document["sharing"].items())
    tasks = "  ".join(f"{name} ({kind})" for name, kind in document["tasks"].items())
    state = "finished" if document["finished"] else "not finished"
    lines = [
        ["run", str(document["run"])],
        ["weights", document["weights"]],
        ["sharing", sharing],
        ["tasks", tasks],
        ["steps", f"{document['steps']:,}, {state}"],
        ["checkpoints", "  ".join(document["checkpoints"]) or "none"],
        *_cost_lines(document, whole_epochs),
    ]
    wide = max(len(name) for name, _ in lines)
    for name, value in lines:  # a table would pad each line to the longest
        out().print(f"{name:<{wide}}  {value}")
    if document["scores"]:
        show_scores(f"best on dev, after step {document['best_step']}", document)


def _cost_lines(document: Document, whole_epochs: Sequence[float]) -> list[list[str]]:
    """Sizes and seconds; those of a run that did not record them are left out."""
    lines = []
    if document["parameters"] is not None:
        total, trained = document["parameters"], document["trained_parameters"]
        share = "all" if trained == total else f"{trained:,}"
        lines.append(["parameters", f"{total:,}, {share} trained"])
    sizes = [f"{name} {megabytes(size)}" for name, size in document["bytes"].items() if size]
    lines.append(["size", "  ".join(sizes) or "none"])
    if document["peak_memory"] is None:
        return lines
    for key in ("seconds", "cpu_seconds"):
        spent = [f"{name} {value:,.1f}" for name, value in document[key].items() if value]
        lines.append([key.replace("cpu_", "CPU "), "  ".join(spent)])
    if whole_epochs:
        mean = sum(whole_epochs) / len(whole_epochs)
        lines.append(["seconds per epoch", f"{mean:,.1f} to train"])
    return [*lines, ["peak memory", megabytes(document["peak_memory"])]]


def show_demo(runs: Sequence[Document]) -> None:
    """One row per run, and the constant answer; every score with its metric and rows."""
    scored = {task: score for run in runs for task, score in run["scores"].items()}
    tasks = [task for task, score in scored.items() if score["unit"] is not None]
    rows = []
    for run in runs:
        none = dict.fromkeys(("score", "low", "high"))  # the run was not evaluated
        scores = [run["scores"].get(task, none) for task in tasks]
        rows.append(
            [
                run["plan"],
                run["sharing"],
                *(_with_interval(s) for s in scores),
                score_text(run["overall"]["official"]),
                f"{run['parameters']:,}",
                f"{run['seconds']:.0f}",
                megabytes(run["bytes"]),
            ]
        )
    rows.append(["constant answer", "", *(score_text(scored[t]["baseline"]) for t in tasks)])
    columns = ["plan", "layers", *tasks, "overall", "parameters", "seconds", "size"]
    out().print(table("", columns, [row + [""] * (len(columns) - len(row)) for row in rows]))
    measured = (f"{t}: {scored[t]['metric']} on {scored[t]['rows']:,} dev rows" for t in tasks)
    out().print("; ".join(measured))


def show_check(task: Task, splits: Document) -> None:
    for split, report in splits.items():
        lengths = "  ".join(f"{name} {value}" for name, value in report["lengths"].items())
        held = report["held_out_by_others"]
        rows = [
            ["rows", f"{report['rows']:,}"],
            ["bad rows skipped", f"{report['dropped']:,}"],
            ["rows without a label", f"{report['unlabelled']:,}"],
            *([["held out by other tasks", f"{held:,}"]] if held else []),
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


def _histogram(labels: Mapping[str, int]) -> str:
    most = max(labels.values(), default=0) or 1
    wide = max((len(name) for name in labels), default=0)
    bars = [
        f"  {name:>{wide}} {count:>9,} {'█' * round(BAR * count / most)}"
        for name, count in labels.items()
    ]
    return "\n".join(bars) + "\n"
