"""Commands that use a trained run."""

import heapq
import io
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from cotrunk.build.experiment import Model, corpora_of, load_model
from cotrunk.cli.commands.outputs import refuse_bad_target, write_whole
from cotrunk.cli.terminal import screen, tables
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.data.reading.files import BOM, open_table, place_of
from cotrunk.data.tokens.cache import Corpus
from cotrunk.errors import UserError, did_you_mean, plural
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import refuse_where_int8_cannot_run, to_int8
from cotrunk.infer.predictor import WRITERS, Answered, Predictor, object_of, write_minbert
from cotrunk.kinds import by_row
from cotrunk.kinds.metrics import Score, overall
from cotrunk.kinds.task import Task
from cotrunk.learn.loop import outputs_on, scores_of
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress
from cotrunk.runs.checkpoint import CheckpointError

Document = dict[str, Any]
Readers = list[tuple[list[str], Rows]]
"""Tasks that read a file alike, with its rows."""

MINBERT_NAME = "{task}-output.csv"
BEGINNINGS = {b"{": ".jsonl", b"PAR1": ".parquet"}


def evaluate(arguments: Namespace) -> Document:
    model = _load(arguments)
    if arguments.int8:
        refuse_where_int8_cannot_run(model.network)
    tasks = [model.network.tasks[name] for name in _chosen(arguments.task, model)]
    with screen.counting() as counter:
        corpora = corpora_of(
            model.settings, tasks, arguments.split, model.base, model.tokenizer, on_progress=counter
        )
    missing = [task.name for task in tasks if task.name not in corpora]
    if missing and (arguments.task or not corpora):
        raise UserError(
            f"tasks.{missing[0]}.{arguments.split} is not set in the run's config, so there are no "
            "rows to score; choose another --split"
        )
    for name in missing:
        screen.say(f"note: tasks.{name}.{arguments.split} names no file, so it is left out")
    device = next(model.network.parameters()).device
    forward = Live(model.network, corpora, model.pair_formats, model.template, device)
    with screen.counting() as counter:
        exact = _timed(forward, counter)
    document = scores_document(scores_of(model.network, exact.outputs, corpora))
    if arguments.int8:
        to_int8(model.network)
        with screen.counting() as counter:
            rough = _timed(forward, counter)
        document["int8"] = _int8_document(forward, exact, rough, document)
    if arguments.worst:
        document["worst"] = {
            task.name: _worst(model, task, corpora[task.name], exact, arguments.worst)
            for task in tasks
            if task.name in corpora
        }
    if not arguments.json:
        show = tables.show_int8 if arguments.int8 else tables.show_scores
        show(f"{arguments.folder}: {arguments.split}", document | {"scores": document["tasks"]})
        if arguments.worst:
            tables.show_worst(document["worst"])
    return document


def _worst(model: Model, task: Task, corpus: Corpus, found: "_Timed", count: int) -> list[Document]:
    """The rows of a task that are most wrong, the worst first; texts as the model reads them."""
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
    begun = time.process_time()  # not by the clock: others may compute on this machine
    found = outputs_on(forward, forward.corpora, on_progress=on_progress)
    return _Timed(found, time.process_time() - begun)


def _int8_document(forward: Live, exact: _Timed, rough: _Timed, before: Document) -> Document:
    """The same rows with 8-bit layers, beside what float32 said about them."""
    document = scores_document(scores_of(forward.network, rough.outputs, forward.corpora))
    for name, score in document["tasks"].items():
        score["difference"] = score["score"] - before["tasks"][name]["score"]
        labels = forward.network.tasks[name].labels
        score["changed"] = labels.changed(exact.outputs[name], rough.outputs[name])
        score["changed_is"] = labels.change_is
    spent, now = exact.cpu_seconds, rough.cpu_seconds
    return document | {"cpu_seconds": {"float32": spent, "int8": now}, "times_less": spent / now}


def _load(arguments: Namespace) -> Model:
    screen.note_unfinished(Path(arguments.folder), arguments.which)
    device = "cpu" if arguments.int8 else "auto"
    try:
        return load_model(Path(arguments.folder), which=arguments.which, device=device)
    except CheckpointError as error:
        other = "final" if arguments.which == "best" else "best"
        raise UserError(f"{error}; try --which {other}, or train again") from None


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
        hint = did_you_mean(unknown[0], known)
        raise UserError(f"--task {unknown[0]}: the run's tasks are {', '.join(known)}{hint}")
    return list(dict.fromkeys(names)) or known


def predict(arguments: Namespace) -> Document:
    model = _load(arguments)
    if arguments.int8:
        to_int8(model.network)
    predictor = Predictor(model)
    with _as_file(arguments.file) as path, _saying_which_option():
        names = _able(arguments, model, path)
        tasks = [model.network.tasks[name] for name in names]
        targets = _targets(arguments, names)
        readers = _readers(arguments, predictor, names, path)
        rows = _merged([predictor.answer_file(alike, rows) for alike, rows in readers], names)
        with _telling_all_bad_rows(readers), screen.counting() as counter:
            # A bar would be drawn among rows that go to the terminal themselves.
            on_progress = (
                counter if targets or arguments.json or not sys.stdout.isatty() else ignore_progress
            )
            answered = _told(
                rows, readers, f"answering {place_of(Path(arguments.file))}", on_progress
            )
            document = _write_answers(arguments, tasks, answered, targets)
    for alike, read in readers:
        if read.dropped_count:
            count, first = plural(read.dropped_count, "bad row"), f"the first: {read.dropped[0]}"
            screen.say(f"note: {', '.join(alike)}: no answer for {count}, {first}")
    return document


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
        with path.open("rb") as file:
            head = file.read(1024).removeprefix(BOM).lstrip()
        endings = (end for begin, end in BEGINNINGS.items() if head.startswith(begin))
        yield path.rename(path.with_suffix(next(endings, ".csv")))


@contextmanager
def _saying_which_option() -> Iterator[None]:
    """What a config says for training, an option says here."""
    try:
        yield
    except UserError as error:
        setting, option = "set skip_bad_rows = true", "give --skip-bad-rows"
        raise UserError(*(line.replace(setting, option) for line in error.lines)) from None


@contextmanager
def _telling_all_bad_rows(readers: Readers) -> Iterator[None]:
    """The first reader that is refused ends the work: only then are all rows read for theirs."""
    try:
        yield
    except UserError as error:
        wrong = [line for _, rows in readers for line in _refused(rows)]
        raise UserError(*(dict.fromkeys(wrong) or error.lines)) from None


def _told(
    rows: Iterable[Answered], readers: Readers, what: str, on_progress: OnProgress
) -> Iterator[Answered]:
    """Tells of the rows before whenever more of the file has been read."""
    count, share = 0, 0.0
    for row in rows:
        read = min(rows.share for _, rows in readers)
        if read > share > 0:
            on_progress(ProgressUpdate(what, count, share))
            count = 0
        count, share = count + 1, read
        yield row


def _refused(rows: Rows) -> Sequence[str]:
    try:
        for _ in rows:
            pass
    except UserError as error:
        return error.lines
    return []


def _able(arguments: Namespace, model: Model, path: Path) -> list[str]:
    """The tasks to answer for: those asked for, else all whose columns the file has."""
    chosen, parts = _chosen(arguments.task, model), model.settings.tasks
    silent = [name for name in chosen if not model.network.tasks[name].labels.can_answer]
    if arguments.task:
        if silent:
            raise UserError(f"--task {silent[0]}: it is there to be trained on, and has no answers")
        return chosen
    for name in silent:
        screen.say(f"note: {name} is left out: it is there to be trained on, and has no answers")
    chosen = [name for name in chosen if name not in silent]
    able, columns = [], []
    place = place_of(Path(arguments.file))
    for name in chosen:
        part = parts[name]
        with open_table(path, needed=part.text, quoting=part.quoting, place=place) as table:
            columns = list(table.columns)
        if set(part.text) <= set(columns):
            able.append(name)
    if not able:
        wanted = "; ".join(f"{name} reads {', '.join(parts[name].text)}" for name in chosen)
        raise UserError(f"{place}: it has the columns {', '.join(columns)}, but {wanted}")
    for name in (name for name in chosen if name not in able):
        missing = [text for text in parts[name].text if text not in columns]
        screen.say(f"note: {name} is left out, for {place} has no column {', '.join(missing)}")
    return able


def _readers(
    arguments: Namespace, predictor: Predictor, names: Sequence[str], path: Path
) -> Readers:
    alike: dict[tuple[Source, bool], list[str]] = {}
    for name in names:
        source = predictor.source(name, path)
        skip = arguments.skip_bad_rows or source.skip_bad_rows
        source = replace(source, skip_bad_rows=skip, called=place_of(Path(arguments.file)))
        words = predictor.tasks[name].labels.reads_words
        alike.setdefault((source, words), []).append(name)
    return [(some, Rows(predictor.tasks[some[0]], source)) for (source, _), some in alike.items()]


def _merged(groups: list[Iterator[Answered]], names: Sequence[str]) -> Iterator[Answered]:
    """Answers about the same line as one row; a task that had to drop the line has none."""
    lines = heapq.merge(*groups, key=lambda row: row.line)
    for line, same in groupby(lines, key=lambda row: row.line):
        rows = list(same)
        found = {task: answer for row in rows for task, answer in row.answers.items()}
        yield Answered(line, rows[0].id, {name: found[name] for name in names if name in found})


def _targets(arguments: Namespace, names: Sequence[str]) -> dict[str, Path]:
    """The file for each task's answers; one for all of them unless each has a format of its own."""
    minbert, output = arguments.format == "minbert", arguments.output
    if minbert and not (len(names) == 1 and output and Path(output).suffix):
        folder = Path(output or ".")
        if folder.exists() and not folder.is_dir():
            raise UserError(f"-o {folder}: that is a file; minbert writes one for each task")
        if not folder.exists():
            refuse_bad_target(folder)
        return {name: folder / MINBERT_NAME.format(task=name) for name in names}
    if output is None:
        return {}
    path = Path(output)
    refuse_bad_target(path)
    if arguments.file != "-" and path.exists() and path.samefile(arguments.file):
        raise UserError(f"-o {path}: that is the file to read; name another")
    if arguments.format is None and path.suffix.lstrip(".") not in WRITERS:
        endings = ", ".join(f".{kind}" for kind in WRITERS)
        raise UserError(f"-o {path}: give the name one of {endings}, or say --format")
    return dict.fromkeys(names, path)


def _write_answers(
    arguments: Namespace,
    tasks: Sequence[Task],
    rows: Iterable[Answered],
    targets: dict[str, Path],
) -> Document:
    if not targets and arguments.json:
        return {"rows": [object_of(tasks, row) for row in rows]}
    if not targets:
        WRITERS[arguments.format or "csv"](tasks, rows, sys.stdout)
        return {}
    answered = list(rows)  # all rows are good before anything is written
    if arguments.format == "minbert":
        for task in tasks:
            text = io.StringIO()
            write_minbert(task, answered, text)
            targets[task.name].parent.mkdir(exist_ok=True)
            write_whole(targets[task.name], text.getvalue())
    else:
        path = targets[tasks[0].name]
        text = io.StringIO()
        WRITERS[arguments.format or path.suffix.lstrip(".")](tasks, answered, text)
        write_whole(path, text.getvalue())
    for path in dict.fromkeys(targets.values()):
        screen.say(f"wrote {path}")
    return {"files": {name: str(path) for name, path in targets.items()}}
