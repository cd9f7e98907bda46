"""``cotrunk predict``: predictions for every row of a file."""

import heapq
import shutil
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from cotrunk.build.labelled import naming_the_option, nearest_task
from cotrunk.cli.minbert import course_targets, write_course_files
from cotrunk.cli.outputs import refuse_bad_target
from cotrunk.cli.terminal import progress
from cotrunk.cli.terminal.output import Document, say
from cotrunk.cli.terminal.signals import terminable
from cotrunk.cli.trained import answering_tasks, load_run, refuse_encoding
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.data.reading.files import BOM
from cotrunk.data.reading.mixed import columns_in, is_mixed, rows_without_texts
from cotrunk.errors import UserError, did_you_mean, plural, shown
from cotrunk.files import whole_file
from cotrunk.infer.int8 import to_int8
from cotrunk.infer.model import Model
from cotrunk.infer.predictor import WRITERS, Answered, Predictor, object_of
from cotrunk.kinds.task import Task
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

Readers = list[tuple[list[str], Rows]]
"""Tasks that read a file in the same way, with its rows."""

BEGINNINGS = {b"{": ".jsonl", b"PAR1": ".parquet"}


def _take_file_from_tasks(arguments: Namespace) -> None:
    """``--task sst FILE``: --task takes several names, so it takes the file, too."""
    if arguments.file is None and len(arguments.task) > 1:
        arguments.file = arguments.task.pop()
    if arguments.file is None:
        raise UserError(
            "cotrunk predict: give a FILE with texts, or - for standard input; "
            "see cotrunk predict --help"
        )


def predict(arguments: Namespace) -> Document:
    if arguments.encoding is not None:
        refuse_encoding(arguments.encoding)
    _take_file_from_tasks(arguments)
    model = load_run(Path(arguments.folder), arguments)
    if arguments.int8:
        to_int8(model.network)
    predictor = Predictor(model)
    with as_file(arguments.file) as path, naming_the_option():
        sources = _sources(arguments, model, path)
        names = _usable_tasks(arguments, answering_tasks(arguments, model), sources)
        sources = _with_ids_of_file(sources, names)
        unanswered = _unanswered(sources)
        tasks = [model.network.tasks[name] for name in names]
        targets = _targets(arguments, tasks, model)
        readers = _readers(predictor, names, sources)
        rows = _merged([predictor.answer_file(alike, rows) for alike, rows in readers], names)
        with _listing_all_bad_rows(readers), progress.counting() as counter:
            # A progress bar would mix with rows printed to the terminal.
            on_progress = (
                counter if targets or arguments.json or not sys.stdout.isatty() else ignore_progress
            )
            what = f"answering {name_of(arguments.file)}"
            cut = Counter[str]()
            answered = _counting_cut_words(_reporting(rows, readers, what, on_progress), cut)
            default = "jsonl" if is_mixed(sources[names[0]]) else "csv"
            document = _write_answers(arguments, tasks, answered, targets, default)
    if unanswered:
        say(f"note: skipped rows that no task can answer; first: {unanswered[0]}")
    for alike, read in readers:
        if read.dropped_count:
            count, first = plural(read.dropped_count, "bad row"), f"first: {read.dropped[0]}"
            say(f"note: {', '.join(alike)}: skipped {count}; {first}")
    for name, words in cut.items():
        verb = "has" if words == 1 else "have"
        say(f"note: {name}: {plural(words, 'word')} beyond encoder.max_tokens {verb} no tag")
    return document


def _unanswered(sources: Mapping[str, Source]) -> list[str]:
    """Refuses rows that no task of the run can answer; returns those that are skipped."""
    first = next(iter(sources.values()))
    if not is_mixed(first):
        return []
    return rows_without_texts(first, list(dict.fromkeys(s.texts for s in sources.values())))


def name_of(file: str) -> str:
    return "standard input" if file == "-" else str(Path(file))


@contextmanager
def as_file(name: str) -> Iterator[Path]:
    """Standard input is copied to a file, because tasks with different columns read it again."""
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
def _listing_all_bad_rows(readers: Readers) -> Iterator[None]:
    """The first bad row stops the prediction; then the rest is read to list all bad rows."""
    try:
        yield
    except UserError as error:
        wrong = [line for _, rows in readers for line in _refused(rows)]
        raise UserError(*(dict.fromkeys(wrong) or error.lines)) from None


def _reporting(
    rows: Iterable[Answered], readers: Readers, what: str, on_progress: OnProgress
) -> Iterator[Answered]:
    """Passes rows on, and reports progress whenever more of the file has been read."""
    count, share = 0, 0.0
    for row in rows:
        read = min(rows.share for _, rows in readers)
        if read > share > 0:
            on_progress(ProgressUpdate(what, count, share))
            count = 0
        count, share = count + 1, read
        yield row


def _counting_cut_words(rows: Iterable[Answered], cut: Counter[str]) -> Iterator[Answered]:
    """Passes rows on, and counts by task the words without a tag: their text was cut."""
    for row in rows:
        for name, answer in row.answers.items():
            if isinstance(answer.prediction, list) and None in answer.prediction:
                cut[name] += answer.prediction.count(None)
        yield row


def _refused(rows: Rows) -> Sequence[str]:
    try:
        for _ in rows:
            pass
    except UserError as error:
        return error.lines
    return []


def _sources(arguments: Namespace, model: Model, path: Path) -> dict[str, Source]:
    """How each task that can answer reads the file."""
    tasks = model.network.tasks
    found = {}
    for name, part in model.unlabelled.items():
        if tasks[name].labels.can_answer:
            source = replace(part, path=path, called=name_of(arguments.file))
            found[name] = replace(
                source,
                skip_bad_rows=arguments.skip_bad_rows or part.skip_bad_rows,
                encoding=arguments.encoding or part.encoding,
                sparse_texts=is_mixed(source),
            )
    return found


def _usable_tasks(
    arguments: Namespace, chosen: list[str], sources: Mapping[str, Source]
) -> list[str]:
    """The chosen tasks whose columns the file has; with --task it must have all of them."""
    if arguments.task and arguments.file != "-" and not any(map(is_mixed, sources.values())):
        return chosen  # reading the file reports a missing column
    place = name_of(arguments.file)
    columns = {name: columns_in(sources[name]) for name in chosen}
    usable = [name for name in chosen if set(sources[name].texts) <= set(columns[name])]
    if not usable:
        wanted = {name: sources[name].texts for name in chosen}
        is_csv = arguments.file == "-" and sources[chosen[0]].path.suffix == ".csv"
        why = _no_task_fits(wanted, columns[chosen[0]], note=READ_AS_CSV if is_csv else "")
        raise UserError(f"{place}: {why}")
    skipped = {
        name: [text for text in sources[name].texts if text not in columns[name]]
        for name in chosen
        if name not in usable
    }
    for name, missing in skipped.items() if arguments.task else ():
        raise UserError(f"{place}: has {_no_columns(missing)}, which {name} reads")
    if len(skipped) == 1:
        ((name, missing),) = skipped.items()
        say(f"note: {name} is skipped: {place} has {_no_columns(missing)}")
    elif skipped:
        each = ", ".join(f"{name} ({_quoted(missing)})" for name, missing in skipped.items())
        say(f"note: tasks are skipped, because {place} lacks their columns: {each}")
    return usable


def _with_ids_of_file(sources: dict[str, Source], names: Sequence[str]) -> dict[str, Source]:
    """The file's rows get the ids that a task knows; a file without them, the usual ones."""
    known = list(dict.fromkeys(sources[name].id for name in names))
    found = {name: columns_in(sources[name]) for name in names if sources[name].id}
    absent = {name: str(sources[name].id) for name in found if sources[name].id not in found[name]}
    instead = {name: next((i for i in known if i in found[name]), None) for name in absent}
    for name in [name for name in absent if instead[name] is None][:1]:
        usual = "their column id" if "id" in found[name] else "their numbers"
        place = sources[name].place
        say(f"note: {place} has {_no_columns([absent[name]])}; its rows are named by {usual}")
    return sources | {name: replace(sources[name], id=instead[name]) for name in absent}


READ_AS_CSV = (
    "; standard input was read as CSV, whose first line names the columns; "
    "give such a line, or JSON lines"
)


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(map(shown, names))


def _no_columns(names: Sequence[str]) -> str:
    return f"no {'column' if len(names) == 1 else 'columns'} {_quoted(names)}"


def _no_task_fits(wanted: Mapping[str, Sequence[str]], columns: Sequence[str], *, note: str) -> str:
    """What the file lacks, and how to mend it; ``note`` is for a file without similar columns."""
    found = ", ".join(shown(column, 40) for column in columns[:20]) or "none"
    if len(set(map(tuple, wanted.values()))) > 1:
        reads = "; ".join(f"{name} reads {', '.join(texts)}" for name, texts in wanted.items())
        nearest = nearest_task(wanted, columns)
        nearest = nearest or f"; rename the columns to those of a task{note}"
        return f"the columns are {found}, but {reads}{nearest}"
    missing = [text for text in next(iter(wanted.values())) if text not in columns]
    hint = did_you_mean(missing[0], columns) if len(missing) == 1 else ""
    them = "it" if len(missing) == len(columns) == 1 else "the columns"
    return f"{_no_columns(missing)}; columns found: {found}{hint or f'; rename {them}{note}'}"


def _readers(predictor: Predictor, names: Sequence[str], sources: Mapping[str, Source]) -> Readers:
    alike: dict[tuple[Source, bool], list[str]] = {}
    for name in names:
        words = predictor.tasks[name].labels.reads_words
        alike.setdefault((sources[name], words), []).append(name)
    return [(some, Rows(predictor.tasks[some[0]], source)) for (source, _), some in alike.items()]


def _merged(groups: list[Iterator[Answered]], names: Sequence[str]) -> Iterator[Answered]:
    """One row per line, with the answers of all tasks that did not skip it."""
    lines = heapq.merge(*groups, key=lambda row: row.line)
    for line, same in groupby(lines, key=lambda row: row.line):
        rows = list(same)
        found = {task: answer for row in rows for task, answer in row.answers.items()}
        yield Answered(line, rows[0].id, {name: found[name] for name in names if name in found})


def _targets(arguments: Namespace, tasks: Sequence[Task], model: Model) -> dict[str, Path]:
    """The output file of each task: the same for all, but one each in minbert's format."""
    if arguments.format == "minbert":
        targets = course_targets(arguments, tasks, model.sources)
    elif arguments.output is None:
        return {}
    else:
        path = Path(arguments.output)
        refuse_bad_target(path, [Path(arguments.folder)])
        targets = dict.fromkeys((task.name for task in tasks), path)
        if arguments.format is None and path.suffix.lstrip(".") not in WRITERS:
            endings = ", ".join(f".{kind}" for kind in WRITERS)
            raise UserError(f"-o {path}: the name must end in one of {endings}; or give --format")
    for target in dict.fromkeys(targets.values()):
        _refuse_data(target, arguments.file, model)
    return targets


def _refuse_data(target: Path, file: str, model: Model) -> None:
    """Predictions never replace the rows that they are for, or those the run learned from."""
    if not target.exists():
        return
    if file != "-" and target.samefile(file):
        raise UserError(f"-o {target}: is the input file; choose another")
    for split, of_task in model.sources.items():
        for task, sources in of_task.items():
            if any(each.path.exists() and target.samefile(each.path) for each in sources):
                raise UserError(f"-o {target}: is the {split} file of {task}; choose another")


def _write_answers(
    arguments: Namespace,
    tasks: Sequence[Task],
    rows: Iterable[Answered],
    targets: dict[str, Path],
    default: str,
) -> Document:
    if not targets and arguments.json:
        return {"rows": [object_of(tasks, row) for row in rows]}
    if not targets:
        WRITERS[arguments.format or default](tasks, rows, sys.stdout)
        return {}
    if arguments.format == "minbert":  # all before writing: a row may be bad
        write_course_files(tasks, list(rows), targets)
    else:
        path = targets[tasks[0].name]
        with terminable(), whole_file(path) as file:
            WRITERS[arguments.format or path.suffix.lstrip(".")](tasks, rows, file)
    for path in dict.fromkeys(targets.values()):
        say(f"wrote {path}")
    return {"files": {name: str(path) for name, path in targets.items()}}
