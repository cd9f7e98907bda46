"""The labelled rows that a run is scored on: a split of its config, or given files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotrunk.build.corpora import corpora_of, not_cached, read_corpora
from cotrunk.build.labelled import FileReading, LabelledFile, nearest_task, reading_of
from cotrunk.data.reading.encodings import wrong_encoding
from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens.cache import Corpus, load_or_hold_corpus
from cotrunk.errors import UserError, did_you_mean, option, plural, spelled
from cotrunk.infer.model import Model
from cotrunk.kinds.task import Task
from cotrunk.progress import OnProgress, ignore_progress

NAME_A_FILE = spelled(command="give the file after the run", python="name the file")


@dataclass(frozen=True)
class FileOptions:
    """How to read given files; None: like the files of the config.

    ``label`` is the label column, for a single task.
    """

    label: str | None = None
    encoding: str | None = None
    skip_bad_rows: bool = False


@dataclass(frozen=True)
class ScoredRows:
    """By task: its rows, and the files they are from. ``reading`` is None for a split."""

    corpora: Mapping[str, Corpus]
    files: Mapping[str, Sequence[str]]
    notes: Sequence[str]
    reading: FileReading | None = None


def refuse_options(
    options: FileOptions, *, files: Sequence[str], split: str | None, tasks: Sequence[str]
) -> None:
    """Options that need files, or exclude them; ``tasks`` are those to score."""
    if files and split:
        raise UserError(
            f"{option('split', split)}: names files of the config, but {files[0]} is given; "
            "remove one of them"
        )
    if options.encoding is not None:
        place = option("encoding", options.encoding)
        if why := wrong_encoding(options.encoding):
            raise UserError(f"{place}: {why}")
        if not files:
            raise UserError(f"{place}: is only for files; {NAME_A_FILE}")
    if options.label is None:
        return
    place = option("label", options.label)
    if not files:
        raise UserError(f"{place}: names a column of a file; {NAME_A_FILE}")
    if len(set(tasks)) != 1:
        one = spelled(command="--task T", python="tasks=['T']")
        raise UserError(
            f"{place}: name the one task it is for with {one}; tasks are {', '.join(tasks)}"
        )


def rows_of_split(
    model: Model,
    names: Sequence[str],
    split: str,
    *,
    all_asked: bool,
    on_progress: OnProgress = ignore_progress,
) -> ScoredRows:
    """``all_asked``: a task without such rows is an error, not skipped."""
    tasks = [task for name, task in model.network.tasks.items() if name in names]
    corpora = corpora_of(
        model.sources,
        split,
        tasks,
        model.tokenizer,
        load=load_or_hold_corpus,
        on_progress=on_progress,
    )
    notes = not_cached(corpora.values())
    for name in (task.name for task in tasks if task.name not in corpora):
        if all_asked:
            raise UserError(no_split([name], split))
        notes.append(f"{name} is skipped: tasks.{name}.{split} is not set")
    return ScoredRows(
        corpora, {name: _places(model.sources[split][name]) for name in corpora}, notes
    )


def no_split(tasks: Sequence[str], split: str) -> str:
    keys = ", ".join(f"tasks.{task}.{split}" for task in tasks)
    fix = spelled(command="choose another --split", python="choose another split, or name a file")
    return f"{keys}: not set in the run's config, so there are no rows to score; {fix}"


def rows_of_files(
    model: Model,
    names: Sequence[str],
    files: Sequence[LabelledFile],
    options: FileOptions,
    *,
    on_progress: OnProgress = ignore_progress,
) -> ScoredRows:
    """The rows of all files that have a task's columns."""
    tasks = {name: task for name, task in model.network.tasks.items() if name in names}
    reading = reading_of(
        model,
        list(tasks.values()),
        files,
        label=options.label,
        skip_bad_rows=options.skip_bad_rows,
        encoding=options.encoding,
    )
    _refuse_absent_label(options.label, reading)
    named = [(tasks[name], sources) for name, sources in reading.sources.items()]
    try:
        corpora = read_corpora(
            named, model.tokenizer, load=load_or_hold_corpus, on_progress=on_progress
        )
    except UserError as error:
        raise UserError(*error.lines, *_ambiguous(named)) from None
    notes = not_cached(corpora.values())
    for name, corpus in corpora.items():
        if corpus.dropped_count:
            dropped = plural(corpus.dropped_count, "bad row")
            notes.append(f"{name}: skipped {dropped}; first: {corpus.dropped[0]}")
        if corpus.unlabelled:
            notes.append(f"{name}: left out {plural(corpus.unlabelled, 'row')} without a label")
    places = {name: _places(sources) for name, sources in reading.sources.items()}
    return ScoredRows(corpora, places, notes, reading)


def _refuse_absent_label(label: str | None, reading: FileReading) -> None:
    wrong = [
        f"{option('label', label)}: {file} has no column {label!r}; "
        f"columns are {', '.join(columns)}{did_you_mean(label, columns)}"
        for file, columns in reading.columns.items()
        if label is not None and label not in columns
    ]
    if wrong:
        raise UserError(*wrong)


def refuse_unused(
    readings: Iterable[FileReading], files: Sequence[LabelledFile], *, asked: Sequence[str]
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
            *(f"{_asked(name)}: {why}" for name, why in zip(missing, lines, strict=True))
        )
    return [f"{name} is skipped: {why}" for name, why in zip(missing, lines, strict=True)]


def _asked(task: str) -> str:
    return spelled(command=f"--task {task}", python=f"tasks=[{task!r}]")


def _nothing_to_score(needed: Mapping[str, Sequence[str]], columns: Sequence[str]) -> str:
    wanted = "; ".join(f"{name} needs {', '.join(each)}" for name, each in needed.items())
    unlabelled = [name for name, each in needed.items() if set(each[:-1]) <= set(columns)]
    column = spelled(command=" --label COLUMN", python=", label='COLUMN'")
    fix = nearest_task(needed, columns) if needed else ""
    if unlabelled:
        fix = f"; name its label column with {_asked(unlabelled[0])}{column}"
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
        f"choose the task it is for with {spelled(command='--task', python='tasks')}"
        for (place, label), tasks in readers.items()
        if len(tasks) > 1
    ]


def _places(sources: Sequence[Source]) -> list[str]:
    return [source.place for source in sources]
