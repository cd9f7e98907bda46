"""``cotrunk evaluate``: scores of a trained run, or of several as one system, on labelled rows."""

import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from cotrunk.build.sources import corpora_of
from cotrunk.cli.terminal import progress, tables
from cotrunk.cli.terminal.output import Document, out, say
from cotrunk.cli.trained import chosen_tasks, load_run
from cotrunk.data.tokens.cache import Corpus, load_or_hold_corpus
from cotrunk.errors import UserError
from cotrunk.infer.ensemble import TaskOutputs, as_one_system
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import refuse_where_int8_cannot_run, to_int8
from cotrunk.infer.model import Model
from cotrunk.kinds import by_row
from cotrunk.kinds.metrics import Score, overall
from cotrunk.learn.evaluate import outputs_on, scores_of
from cotrunk.runs.folder import RunFolder


def evaluate(arguments: Namespace) -> Document:
    folders = [Path(folder) for folder in dict.fromkeys(arguments.folders)]
    if arguments.int8 and len(folders) > 1:
        raise UserError("--int8 compares one run with itself; give a single run")
    names = chosen_tasks(arguments.task, _tasks_of(folders))
    each = [_evaluated(folder, names, arguments) for folder in folders]
    system = as_one_system([part for one in each for part in one.parts])
    if not system:
        raise UserError(_no_rows(names[0], arguments.split))
    document = scores_document({name: _score(part) for name, part in system.items()})
    if len(folders) > 1:
        document = {"runs": [str(folder) for folder in folders], **document}
        for name, part in system.items():
            document["tasks"][name]["averaged"] = part.averaged
    if arguments.int8:
        document["int8"] = each[0].int8
    if arguments.worst:
        document["worst"] = {
            name: _worst(part, arguments.worst)
            for name, part in system.items()
            if part.task.labels.can_answer
        }
    if not arguments.json:
        _show(document, folders, arguments)
    return document


@dataclass(frozen=True)
class _Evaluated:
    parts: Sequence[TaskOutputs]
    int8: Document


def _evaluated(folder: Path, names: Sequence[str], arguments: Namespace) -> _Evaluated:
    """The outputs of a run for its labelled rows; the network is not kept."""
    model = load_run(folder, arguments)
    if arguments.int8:
        refuse_where_int8_cannot_run(model.network)
    corpora = _corpora(model, names, arguments)
    device = next(model.network.parameters()).device
    forward = Live(model.network, corpora, model.pair_formats, model.template, device)
    exact, int8 = _timed(forward), {}
    if arguments.int8:
        to_int8(model.network)
        int8 = _int8_document(forward, exact, _timed(forward))
    parts = [
        TaskOutputs(str(folder), model.network.tasks[name], corpora[name], model.tokenizer, output)
        for name, output in exact.outputs.items()
    ]
    return _Evaluated(parts, int8)


def _show(document: Document, folders: Sequence[Path], arguments: Namespace) -> None:
    show = tables.show_int8 if arguments.int8 else tables.show_scores
    title = f"{' + '.join(map(str, folders))}: {arguments.split}"
    show(title, document | {"scores": document["tasks"]})
    for name, score in document["tasks"].items():
        if score.get("averaged", 1) > 1:
            out().print(f"{name}: the mean of {score['averaged']} runs")
    if arguments.worst:
        tables.show_worst(document["worst"])


def _tasks_of(folders: Sequence[Path]) -> list[str]:
    """The tasks of all runs, before the first is loaded."""
    found: dict[str, None] = {}
    for folder in folders:
        match RunFolder.open(folder).read_document("run"):
            case {"settings": {"tasks": dict(tasks)}}:
                found |= dict.fromkeys(tasks)
            case _:
                raise UserError(f"{folder}/run.json: `cotrunk train` did not write it")
    return list(found)


def _corpora(model: Model, names: Sequence[str], arguments: Namespace) -> dict[str, Corpus]:
    """The labelled rows of a run's tasks."""
    tasks = [task for name, task in model.network.tasks.items() if name in names]
    with progress.counting() as counter:
        corpora = corpora_of(
            model.sources,
            arguments.split,
            tasks,
            model.tokenizer,
            load=load_or_hold_corpus,
            on_progress=counter,
        )
    for why in dict.fromkeys(corpus.not_cached for corpus in corpora.values()):
        if why:
            say(f"note: {why}; continuing without it")
    for name in (task.name for task in tasks if task.name not in corpora):
        if arguments.task:
            raise UserError(_no_rows(name, arguments.split))
        say(f"note: {name} is skipped: tasks.{name}.{arguments.split} is not set")
    return corpora


def _no_rows(task: str, split: str) -> str:
    return (
        f"tasks.{task}.{split} is not set in the run's config, so there are no "
        "rows to score; choose another --split"
    )


def _score(part: TaskOutputs) -> Score:
    target = np.asarray(part.corpus.target)
    return part.task.labels.scores(part.output, target, counts=part.corpus.site_counts())


def _worst(part: TaskOutputs, count: int) -> list[Document]:
    """The rows with the largest errors, worst first; texts as the model reads them."""
    labels, corpus, counts = part.task.labels, part.corpus, part.corpus.site_counts()
    output, target = part.output, np.asarray(corpus.target)
    error = labels.errors(output, target, counts=counts)
    predicted = by_row(labels.predict_labels(output), counts)
    gold = by_row(labels.shaped(target), counts)
    differs = [not np.array_equal(one, other) for one, other in zip(predicted, gold, strict=True)]
    wrong = np.isfinite(error) & np.array(differs, bool)
    order = np.argsort(-error, kind="stable")
    worst = order[wrong[order]][:count].tolist()
    return [
        {
            "line": int(corpus.line[row]),
            "id": corpus.id(row),
            "texts": [part.tokenizer.decode(piece.tolist()) for piece in corpus.pieces(row)],
            "label": labels.label_name(gold[row]),
            "prediction": labels.label_name(predicted[row]),
            "error": float(error[row]),
        }
        for row in worst
    ]


@dataclass(frozen=True)
class _Timed:
    outputs: dict[str, np.ndarray]
    cpu_seconds: float


def _timed(forward: Live) -> _Timed:
    with progress.counting() as counter:
        start = time.process_time()  # CPU time, because other programs may be running
        found = outputs_on(forward, forward.corpora, on_progress=counter)
    return _Timed(found, time.process_time() - start)


def _int8_document(forward: Live, exact: _Timed, rough: _Timed) -> Document:
    """The same rows with 8-bit layers, compared with float32."""
    kinds = {name: task.labels for name, task in forward.network.tasks.items()}
    before = scores_document(scores_of(kinds, exact.outputs, forward.corpora))
    document = scores_document(scores_of(kinds, rough.outputs, forward.corpora))
    for name, score in document["tasks"].items():
        score["difference"] = score["score"] - before["tasks"][name]["score"]
        score["changed"] = kinds[name].changed(exact.outputs[name], rough.outputs[name])
        score["changed_is"] = kinds[name].change_is
    spent, now = exact.cpu_seconds, rough.cpu_seconds
    return document | {"cpu_seconds": {"float32": spent, "int8": now}, "times_less": spent / now}


def scores_document(scores: dict[str, Score]) -> Document:
    both = overall(scores)
    return {
        "tasks": {task: asdict(score) for task, score in scores.items()},
        "overall": {"official": both["official"], "mean": both["mean"]},
    }
