"""``cotrunk evaluate``: scores of a trained run, or of several as one system, on labelled rows."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotrunk.build.labelled import LabelledFile, naming_the_option
from cotrunk.build.scored_rows import (
    FileOptions,
    ScoredRows,
    no_split,
    refuse_options,
    refuse_unused,
    rows_of_files,
    rows_of_split,
)
from cotrunk.cli.info import settings_of
from cotrunk.cli.int8 import int8_document, scores_document, timed
from cotrunk.cli.predict import as_file, name_of
from cotrunk.cli.terminal import progress, tables
from cotrunk.cli.terminal.detail import show_detail
from cotrunk.cli.terminal.output import Document, out, say
from cotrunk.cli.trained import chosen_tasks, load_run
from cotrunk.data.reading.files import KNOWN
from cotrunk.errors import UserError, plural
from cotrunk.infer.ensemble import TaskOutputs, as_one_system
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import refuse_where_int8_cannot_run
from cotrunk.infer.model import Model
from cotrunk.kinds.detail import detail_of, worst_rows
from cotrunk.kinds.metrics import Score
from cotrunk.learn.evaluate import score_of
from cotrunk.runs.evaluation import read_evaluation
from cotrunk.runs.folder import RunFolder


def evaluate(arguments: Namespace) -> Document:
    folders, named = _runs_and_files(arguments.given)
    names = chosen_tasks(arguments.task, _tasks_of(folders))
    refuse_options(_options(arguments), files=named, split=arguments.split, tasks=names)
    if arguments.int8 and len(folders) > 1:
        raise UserError("--int8 compares a run with its own 8-bit layers; give a single run")
    with ExitStack() as stack, naming_the_option():
        files = [LabelledFile(stack.enter_context(as_file(f)), name_of(f)) for f in named]
        each = [_evaluated(folder, names, files, arguments) for folder in folders]
    notes = [note for one in each for note in one.rows.notes]
    if files:
        readings = [one.rows.reading for one in each if one.rows.reading]
        notes += refuse_unused(readings, files, asked=arguments.task)
    system = as_one_system([part for one in each for part in one.parts])
    if not system:
        raise UserError(no_split(names, arguments.split or "dev"))
    for note in dict.fromkeys(notes):
        say(f"note: {note}")
    document = _document(system, each, arguments, split=None if files else arguments.split or "dev")
    if len(folders) > 1:
        document = {"runs": [str(folder) for folder in folders], **document}
    if not arguments.json:
        where = document["split"] or " + ".join(file.called for file in files)
        _show(document, f"{' + '.join(map(str, folders))}: {where}")
    return document


def _runs_and_files(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """What has a run.json is a run, everything else a data file."""
    names = list(dict.fromkeys(given))
    runs = [name for name in names if (Path(name) / "run.json").is_file()]
    files = [name for name in names if name not in runs]
    for path in map(Path, files if runs else names[:1]):
        is_no_file = path.is_dir() or (not path.exists() and path.suffix.lower() not in KNOWN)
        if not runs or (is_no_file and str(path) != "-"):
            RunFolder.open(path)  # raises: it is not a run
    return [Path(run) for run in runs], files


def _options(arguments: Namespace) -> FileOptions:
    return FileOptions(arguments.label, arguments.encoding, arguments.skip_bad_rows)


@dataclass(frozen=True)
class _Evaluated:
    network: Document
    rows: ScoredRows
    parts: Sequence[TaskOutputs]
    int8: Document | None


def _evaluated(
    folder: Path, names: Sequence[str], files: Sequence[LabelledFile], arguments: Namespace
) -> _Evaluated:
    """The outputs of a run for its labelled rows; the network is not kept."""
    model = load_run(folder, arguments)
    if arguments.int8:
        refuse_where_int8_cannot_run(model.network)
    with progress.counting() as counter:
        if files:
            rows = rows_of_files(model, names, files, _options(arguments), on_progress=counter)
        else:
            split, asked = arguments.split or "dev", bool(arguments.task)
            rows = rows_of_split(model, names, split, all_asked=asked, on_progress=counter)
    device = next(model.network.parameters()).device
    forward = Live(model.network, rows.corpora, model.pair_formats, model.template, device)
    exact = timed(forward)
    parts = [
        TaskOutputs(
            str(folder), model.network.tasks[name], rows.corpora[name], model.tokenizer, output
        )
        for name, output in exact.outputs.items()
    ]
    int8 = int8_document(forward, exact) if arguments.int8 else None
    return _Evaluated(_network(folder, arguments.which, model), rows, parts, int8)


def _network(folder: Path, which: str, model: Model) -> Document:
    """Which network it is: the plan, the seed and the step."""
    run = RunFolder.open(folder)
    settings, kept = settings_of(run), read_evaluation(run.path / which)
    steps = sum(entry.get("event") == "step" for entry in run.read_metrics())
    plan = {"encoder": f"S{model.network.shape.layers}"}
    return {
        "run": str(folder),
        "which": which,
        "plan": plan | settings.sharing.model_dump(exclude_defaults=True, exclude_none=True),
        "seed": settings.train.seed,
        "step": kept.step if kept else steps,
    }


def _document(
    system: dict[str, TaskOutputs],
    each: Sequence[_Evaluated],
    arguments: Namespace,
    *,
    split: str | None,
) -> Document:
    document = scores_document({name: _score(part) for name, part in system.items()})
    for name, part in system.items():
        found = (one.rows.files[name] for one in each if name in one.rows.files)
        document["tasks"][name]["files"] = list(next(found))
        if len(each) > 1:
            document["tasks"][name]["averaged"] = part.averaged
    document |= {"split": split, "networks": [one.network for one in each]}
    if each[0].int8:
        document["int8"] = each[0].int8
    if arguments.detail:
        document["detail"] = {name: _detail(part) for name, part in system.items()}
    if arguments.worst:
        document["worst"] = {
            name: _worst(part, arguments.worst)
            for name, part in system.items()
            if part.task.labels.can_answer
        }
    return document


def _show(document: Document, title: str) -> None:
    show = tables.show_int8 if "int8" in document else tables.show_scores
    show(title, document | {"scores": document["tasks"]})
    for network in document["networks"]:
        out().print(tables.network_line(network))
    if len(document["networks"]) > 1:
        _show_averaged({name: score["averaged"] for name, score in document["tasks"].items()})
    if "detail" in document:
        show_detail(document["detail"])
    if "worst" in document:
        tables.show_worst(document["worst"])


def _show_averaged(averaged: Mapping[str, int]) -> None:
    """Of how many runs the predictions are the mean, and the tasks that fewer runs have."""
    most = max(averaged.values())
    if most > 1:
        fewer = [f"{task} ({plural(n, 'run')})" for task, n in averaged.items() if n < most]
        but = f", except {', '.join(fewer)}" if fewer else ""
        out().print(f"predictions: the mean of {most} runs{but}")


def _tasks_of(folders: Sequence[Path]) -> list[str]:
    """The tasks of all runs, before the first is loaded."""
    found: dict[str, None] = {}
    for folder in folders:
        match RunFolder.open(folder).read_document("run"):
            case {"settings": {"tasks": dict(tasks)}}:
                found |= dict.fromkeys(tasks)
            case _:
                raise UserError(f"{folder}/run.json was not written by `cotrunk train`")
    return list(found)


def _score(part: TaskOutputs) -> Score:
    return score_of(part.task.labels, part.output, part.corpus)


def _detail(part: TaskOutputs) -> Document:
    target, counts = np.asarray(part.corpus.target), part.corpus.site_counts()
    return detail_of(part.task.labels, part.output, target, counts=counts).document()


def _worst(part: TaskOutputs, count: int) -> list[Document]:
    """The rows with the largest errors, worst first; texts as the model reads them."""
    labels, corpus, counts = part.task.labels, part.corpus, part.corpus.site_counts()
    target = np.asarray(corpus.target)
    found = worst_rows(labels, part.output, target, counts=counts, most=count)
    return [
        {
            "line": int(corpus.line[each.row]),
            "id": corpus.id(each.row),
            "texts": [part.tokenizer.decode(piece.tolist()) for piece in corpus.pieces(each.row)],
            "label": labels.label_name(each.label),
            "prediction": labels.label_name(each.prediction),
            "error": each.error,
        }
        for each in found
    ]
