"""Commands that use a trained run."""

import io
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cotrunk import screen, tables
from cotrunk.data.files import open_table
from cotrunk.errors import UserError
from cotrunk.experiment import Model, corpora_of, load_model
from cotrunk.learn.forward import Live
from cotrunk.learn.metrics import Score, overall
from cotrunk.learn.train import outputs_on, scores_of
from cotrunk.predictor import WRITERS, Answered, Predictor, row_of, write_minbert

Document = dict[str, Any]
MINBERT_NAME = "{task}-output.csv"


def evaluate(arguments: Namespace) -> Document:
    model = load_model(Path(arguments.folder), which=arguments.which)
    tasks = [model.network.tasks[name] for name in _chosen(arguments.task, model)]
    with screen.counting("tokenising") as counter:
        corpora = corpora_of(
            model.settings, tasks, arguments.split, model.base, model.tokenizer, progress=counter
        )
    missing = [task.name for task in tasks if task.name not in corpora]
    if missing and (arguments.task or not corpora):
        raise UserError(f"tasks.{missing[0]}.{arguments.split}: the run names no such file")
    device = next(model.network.parameters()).device
    forward = Live(model.network, corpora, model.views, model.template, device)
    scores = scores_of(model.network, outputs_on(forward, corpora), corpora)
    document = scores_document(scores)
    if not arguments.json:
        tables.show_scores(
            f"{arguments.folder}: {arguments.split}",
            document | {"scores": document["tasks"], **document["overall"]},
        )
    return document


def scores_document(scores: dict[str, Score]) -> Document:
    both = overall(scores)
    return {
        "tasks": {task: asdict(score) for task, score in scores.items()},
        "overall": {"official": both["official"], "mean": both["mean"]},
    }


def _chosen(names: Sequence[str], model: Model) -> list[str]:
    known = list(model.network.tasks)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"--task {unknown[0]}: the run's tasks are {', '.join(known)}")
    return list(dict.fromkeys(names)) or known


def predict(arguments: Namespace) -> Document:
    model = load_model(Path(arguments.folder), which=arguments.which)
    predictor = Predictor(model)
    with _as_file(arguments.file) as path:
        groups = _readable(arguments, model, path)
        if arguments.format == "minbert":
            return _predict_minbert(arguments, predictor, groups, path)
        answered = _merged([predictor.answer_file(tasks, path) for tasks in groups])
        if arguments.json:
            return {"rows": [row_of(row) for row in answered]}
        return _write_predictions(arguments, answered)


@contextmanager
def _as_file(name: str) -> Iterator[Path]:
    """Standard input as a file, so that tasks with other columns can read it again."""
    if name != "-":
        yield Path(name)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        head = path.open("rb").read(1024).lstrip()
        spooled = path.with_suffix(".jsonl" if head.startswith(b"{") else ".csv")
        path.rename(spooled)
        yield spooled


def _readable(arguments: Namespace, model: Model, path: Path) -> list[list[str]]:
    """The tasks to answer for, in groups that read the same columns."""
    parts = model.settings.tasks
    chosen = _chosen(arguments.task, model)
    if not arguments.task:
        with open_table(path, needed=[], quoting="csv") as table:
            columns = set(table.columns)
        able = [name for name in chosen if set(parts[name].text) <= columns]
        if not able:
            wanted = "; ".join(f"{name} reads {', '.join(parts[name].text)}" for name in chosen)
            raise UserError(
                f"{arguments.file}: it has the columns {', '.join(sorted(columns))}, but {wanted}"
            )
        chosen = able
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in chosen:
        groups.setdefault((*parts[name].text, parts[name].id or ""), []).append(name)
    return list(groups.values())


def _merged(groups: list[Iterator[Answered]]) -> Iterator[Answered]:
    if len(groups) == 1:
        yield from groups[0]
        return
    for rows in zip(*groups, strict=True):
        answers = {task: answer for row in rows for task, answer in row.answers.items()}
        yield Answered(rows[0].id, answers)


def _predict_minbert(
    arguments: Namespace, predictor: Predictor, groups: list[list[str]], path: Path
) -> Document:
    tasks = [task for group in groups for task in group]
    out = Path(arguments.output or ".")
    one_file = len(tasks) == 1 and arguments.output and not out.is_dir()
    written = {}
    for group in groups:
        rows = list(predictor.answer_file(group, path))
        for task in group:
            target = out if one_file else out / MINBERT_NAME.format(task=task)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("w", encoding="utf-8", newline="") as file:
                write_minbert(predictor.tasks[task], rows, file)
            written[task] = str(target)
            screen.say(f"wrote {len(rows):,} rows to {target}")
    return {"files": written}


def _write_predictions(arguments: Namespace, rows: Iterator[Answered]) -> Document:
    suffix = Path(arguments.output or "").suffix.lstrip(".")
    kind = arguments.format or (suffix if suffix in WRITERS else "csv")
    if arguments.output is None:
        WRITERS[kind](rows, sys.stdout)
        return {}
    text = io.StringIO()
    WRITERS[kind](rows, text)  # all rows are good before anything is written
    path = Path(arguments.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8")
    screen.say(f"wrote {path}")
    return {"file": str(path)}
