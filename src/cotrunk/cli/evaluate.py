"""``cotrunk evaluate``: scores of a trained run on labelled rows."""

import time
from argparse import Namespace
from dataclasses import asdict, dataclass

import numpy as np

from cotrunk.build.sources import corpora_of
from cotrunk.cli.terminal import progress, tables
from cotrunk.cli.terminal.output import Document, say
from cotrunk.cli.trained import chosen_tasks, load_run
from cotrunk.data.tokens.cache import Corpus
from cotrunk.errors import UserError
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import refuse_where_int8_cannot_run, to_int8
from cotrunk.infer.model import Model
from cotrunk.kinds import by_row
from cotrunk.kinds.metrics import Score, overall
from cotrunk.kinds.task import Task
from cotrunk.learn.evaluate import outputs_on, scores_of
from cotrunk.progress import OnProgress


def evaluate(arguments: Namespace) -> Document:
    model = load_run(arguments)
    if arguments.int8:
        refuse_where_int8_cannot_run(model.network)
    tasks = [model.network.tasks[name] for name in chosen_tasks(arguments.task, model)]
    with progress.counting() as counter:
        corpora = corpora_of(
            model.sources, arguments.split, tasks, model.tokenizer, on_progress=counter
        )
    missing = [task.name for task in tasks if task.name not in corpora]
    if missing and (arguments.task or not corpora):
        raise UserError(
            f"tasks.{missing[0]}.{arguments.split} is not set in the run's config, so there are no "
            "rows to score; choose another --split"
        )
    for name in missing:
        say(f"note: {name} is skipped: tasks.{name}.{arguments.split} is not set")
    device = next(model.network.parameters()).device
    forward = Live(model.network, corpora, model.pair_formats, model.template, device)
    with progress.counting() as counter:
        exact = _timed(forward, counter)
    document = scores_document(scores_of(model.network, exact.outputs, corpora))
    if arguments.int8:
        to_int8(model.network)
        with progress.counting() as counter:
            rough = _timed(forward, counter)
        document["int8"] = _int8_document(forward, exact, rough, document)
    if arguments.worst:
        document["worst"] = {
            task.name: _worst(model, task, corpora[task.name], exact, arguments.worst)
            for task in tasks
            if task.name in corpora and task.labels.can_answer
        }
    if not arguments.json:
        show = tables.show_int8 if arguments.int8 else tables.show_scores
        show(f"{arguments.folder}: {arguments.split}", document | {"scores": document["tasks"]})
        if arguments.worst:
            tables.show_worst(document["worst"])
    return document


def _worst(model: Model, task: Task, corpus: Corpus, found: "_Timed", count: int) -> list[Document]:
    """The rows with the largest errors, worst first; texts as the model reads them."""
    labels, counts = task.labels, corpus.site_counts()
    output, target = found.outputs[task.name], np.asarray(corpus.target)
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
            "texts": [model.tokenizer.decode(piece.tolist()) for piece in corpus.pieces(row)],
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


def _timed(forward: Live, on_progress: OnProgress) -> _Timed:
    start = time.process_time()  # CPU time, because other programs may be running
    found = outputs_on(forward, forward.corpora, on_progress=on_progress)
    return _Timed(found, time.process_time() - start)


def _int8_document(forward: Live, exact: _Timed, rough: _Timed, before: Document) -> Document:
    """The same rows with 8-bit layers, compared with float32."""
    document = scores_document(scores_of(forward.network, rough.outputs, forward.corpora))
    for name, score in document["tasks"].items():
        score["difference"] = score["score"] - before["tasks"][name]["score"]
        labels = forward.network.tasks[name].labels
        score["changed"] = labels.changed(exact.outputs[name], rough.outputs[name])
        score["changed_is"] = labels.change_is
    spent, now = exact.cpu_seconds, rough.cpu_seconds
    return document | {"cpu_seconds": {"float32": spent, "int8": now}, "times_less": spent / now}


def scores_document(scores: dict[str, Score]) -> Document:
    both = overall(scores)
    return {
        "tasks": {task: asdict(score) for task, score in scores.items()},
        "overall": {"official": both["official"], "mean": both["mean"]},
    }
