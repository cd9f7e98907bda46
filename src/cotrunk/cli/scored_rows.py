"""The labelled rows that ``evaluate`` scores a run on: a split of its config, or given files."""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotrunk.build.corpora import corpora_of, read_corpora
from cotrunk.build.labelled import LabelledFile, Reading, reading_of
from cotrunk.cli.terminal import progress
from cotrunk.cli.trained import refuse_encoding
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.files import KNOWN
from cotrunk.data.tokens.cache import Corpus, load_or_hold_corpus
from cotrunk.errors import UserError, plural
from cotrunk.infer.model import Model
from cotrunk.kinds.task import Task
from cotrunk.runs.folder import RunFolder


@dataclass(frozen=True)
class ScoredRows:
    """By task: its rows, and the files they are from. ``reading`` is None for a split."""

    corpora: Mapping[str, Corpus]
    files: Mapping[str, Sequence[str]]
    notes: Sequence[str]
    reading: Reading | None = None


def runs_and_files(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """What has a run.json is a run, everything else a data file."""
    names = list(dict.fromkeys(given))
    runs = [name for name in names if (Path(name) / "run.json").is_file()]
    files = [name for name in names if name not in runs]
    for path in map(Path, files if runs else names[:1]):
        is_no_file = path.is_dir() or (not path.exists() and path.suffix.lower() not in KNOWN)
        if not runs or (is_no_file and str(path) != "-"):
            RunFolder.open(path)  # raises: it is not a run
    return [Path(run) for run in runs], files


def refuse_options(arguments: Namespace, files: Sequence[str]) -> None:
    """Options that need files, or exclude them."""
    if files and arguments.split:
        raise UserError(
            f"--split {arguments.split}: names files of the config, but {files[0]} is given; "
            "remove one of them"
        )
    if arguments.encoding is not None:
        refuse_encoding(arguments.encoding)
        if not files:
            raise UserError("--encoding: is that of a file; give the file after the run")
    if arguments.label is None:
        return
    if not files:
        raise UserError("--label: names a column of a file; give the file after the run")
    if len(set(arguments.task)) != 1:
        raise UserError(f"--label {arguments.label}: name the one task it is for with --task T")


def rows_of_split(model: Model, names: Sequence[str], split: str, *, all_asked: bool) -> ScoredRows:
    """``all_asked``: a task without such rows is an error, not skipped."""
    tasks = [task for name, task in model.network.tasks.items() if name in names]
    with progress.counting() as counter:
        corpora = corpora_of(
            model.sources,
            split,
            tasks,
            model.tokenizer,
            load=load_or_hold_corpus,
            on_progress=counter,
        )
    notes = _not_cached(corpora)
    for name in (task.name for task in tasks if task.name not in corpora):
        if all_asked:
            raise UserError(no_split(name, split))
        notes.append(f"{name} is skipped: tasks.{name}.{split} is not set")
    return ScoredRows(
        corpora, {name: _places(model.sources[split][name]) for name in corpora}, notes
    )


def no_split(task: str, split: str) -> str:
    return (
        f"tasks.{task}.{split} is not set in the run's config, so there are no "
        "rows to score; choose another --split"
    )


def rows_of_files(
    model: Model, names: Sequence[str], files: Sequence[LabelledFile], arguments: Namespace
) -> ScoredRows:
    """The rows of all files that have a task's columns."""
    tasks = {name: task for name, task in model.network.tasks.items() if name in names}
    reading = reading_of(
        model,
        list(tasks.values()),
        files,
        label=arguments.label,
        skip_bad_rows=arguments.skip_bad_rows,
        encoding=arguments.encoding,
    )
    named = [(tasks[name], sources) for name, sources in reading.sources.items()]
    with progress.counting() as counter:
        try:
            corpora = read_corpora(
                named, model.tokenizer, load=load_or_hold_corpus, on_progress=counter
            )
        except UserError as error:
            raise UserError(*error.lines, *_ambiguous(named)) from None
    notes = _not_cached(corpora)
    for name, corpus in corpora.items():
        if corpus.dropped_count:
            dropped = plural(corpus.dropped_count, "bad row")
            notes.append(f"{name}: skipped {dropped}; first: {corpus.dropped[0]}")
        if corpus.unlabelled:
            notes.append(f"{name}: left out {plural(corpus.unlabelled, 'row')} without a label")
    places = {name: _places(sources) for name, sources in reading.sources.items()}
    return ScoredRows(corpora, places, notes, reading)


def refuse_unused(
    readings: Iterable[Reading], files: Sequence[LabelledFile], *, asked: Sequence[str]
) -> list[str]:
    """Notes on the tasks that no file is for; an error if one was ``asked`` for.

    A file that no task of any run can be scored on is an error.
    """
    readings = list(readings)
    needed = {name: columns for one in readings for name, columns in one.needed.items()}
    used = {place for one in readings for place in one.used}
    wrong = []
    for file in (file for file in files if file.called not in used):
        columns = next((one.columns[file.called] for one in readings if one.columns), ())
        wrong.append(f"{file.called}: {_nothing_to_score(needed, columns)}")
    if wrong:
        raise UserError(*wrong)
    scored = {name for one in readings for name in one.sources}
    missing = {name: ", ".join(columns) for name, columns in needed.items() if name not in scored}
    lines = [f"no file has its columns ({columns})" for columns in missing.values()]
    if any(name in asked for name in missing):
        raise UserError(
            *(f"--task {name}: {why}" for name, why in zip(missing, lines, strict=True))
        )
    return [f"{name} is skipped: {why}" for name, why in zip(missing, lines, strict=True)]


def _nothing_to_score(needed: Mapping[str, Sequence[str]], columns: Sequence[str]) -> str:
    wanted = "; ".join(f"{name} needs {', '.join(each)}" for name, each in needed.items())
    unlabelled = [name for name, each in needed.items() if set(each[:-1]) <= set(columns)]
    fix = (
        f"; name its label column with --task {unlabelled[0]} --label COLUMN" if unlabelled else ""
    )
    return f"the columns are {', '.join(columns)}, but {wanted or 'no task reads a file'}{fix}"


def _ambiguous(named: Sequence[tuple[Task, tuple[Source, ...]]]) -> list[str]:
    """A hint if a bad label may be that of another task."""
    readers: dict[tuple[str, str], list[str]] = {}
    for task, sources in named:
        for source in sources:
            if source.label is not None:
                readers.setdefault((source.place, source.label), []).append(task.name)
    return [
        f"{place}: {' and '.join(tasks)} read their labels from the same column, {label}; "
        "choose the task it is for with --task"
        for (place, label), tasks in readers.items()
        if len(tasks) > 1
    ]


def _not_cached(corpora: Mapping[str, Corpus]) -> list[str]:
    why = dict.fromkeys(corpus.not_cached for corpus in corpora.values() if corpus.not_cached)
    return [f"{each}; continuing without it" for each in why]


def _places(sources: Sequence[Source]) -> list[str]:
    return [source.place for source in sources]
