"""Guesses tasks from what the columns of files hold: one per label column."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from cotrunk.data.guess.columns import Column
from cotrunk.data.guess.connected import note_on_shared_texts
from cotrunk.data.guess.ids import id_of, identifies_all_rows
from cotrunk.data.guess.label_kinds import LabelKind, kind_of, listed
from cotrunk.data.guess.names import task_name
from cotrunk.data.guess.other_splits import OtherSplits, common_encoding, with_other_splits
from cotrunk.data.guess.refusals import (
    left_out,
    refuse_objects_without_text,
    refuse_without_task,
)
from cotrunk.data.guess.schemes import AS_BIO, other_scheme
from cotrunk.data.guess.summary import FileSummary, summarize
from cotrunk.data.guess.tags import all_tags, conll_names, unequal_rows, words_and_tags
from cotrunk.data.guess.texts import texts_of
from cotrunk.data.reading.encodings import UTF8
from cotrunk.data.reading.files import CONLL
from cotrunk.data.reading.formats import LINE
from cotrunk.errors import Errors, UserError, plural, shown
from cotrunk.kinds import KINDS

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development"),
    "test": ("test", "testing"),
}
PAIR = 2
HELD_OUT = 0.1
FEW_ROWS = 50
"""With fewer rows, a fifth of them are held out as dev rows instead of a tenth."""


@dataclass(frozen=True)
class GuessedTask:
    """A task for a config; ``options`` are the keys of its kind, ``why`` says what was seen.

    ``skipped`` says which rows are bad and how many, as in "2 rows that cannot be read".

    ``dev`` and ``test`` are files, or shares of ``train``. ``columns`` names the columns of a
    CoNLL file, if the default names do not fit. ``id_is_certain``: the ``id`` names every row.
    """

    name: str
    kind: str
    texts: tuple[str, ...]
    label: str | None
    train: Path
    dev: Path | float
    test: Path | None
    why: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    has_gaps: bool = False
    skipped: tuple[str, ...] = ()
    id: str | None = None
    id_is_certain: bool = False
    encoding: str = UTF8
    columns: tuple[str, ...] = ()

    @property
    def has_bad_rows(self) -> bool:
        return bool(self.skipped)


def guess_tasks(files: Sequence[Path]) -> list[GuessedTask]:
    """All tasks of some files; reports all files that cannot be used at once."""
    errors, tasks = Errors(), list[GuessedTask]()
    _refuse_twice(files)
    for splits in _by_splits(files):
        with errors.gathered():
            tasks += _tasks_of(splits)
    errors.refuse()
    return _with_own_names(tasks)


def _refuse_twice(files: Sequence[Path]) -> None:
    places = [file.resolve() for file in files]
    twice = [file for at, file in enumerate(files) if places[at] in places[:at]]
    if twice:
        raise UserError(f"{twice[0]} is given twice; name each file once")


def _by_splits(files: Sequence[Path]) -> list[dict[str, Path]]:
    """Files whose names differ only in train, dev or test are the splits of one table."""
    groups: dict[tuple[Path, str, str], dict[str, Path]] = {}
    for file in files:
        words = re.split(r"([\W_]+)", file.stem)
        found = [
            (at, split)
            for at, word in enumerate(words)
            for split, known in SPLIT_WORDS.items()
            if word.lower() in known
        ]
        at, split = found[0] if found else (None, "train")
        rest = "".join(word for number, word in enumerate(words) if number != at)
        key = (file.parent, rest, file.suffix.lower()) if found else (file, "", "")
        groups.setdefault(key, {})[split] = file
    return [
        part
        for group in groups.values()
        for part in ([group] if "train" in group else [{"train": file} for file in group.values()])
    ]


@dataclass(frozen=True)
class _Table:
    """A table in one file or in one for each split.

    ``seen`` is what all splits hold, ``train`` what the training file holds.
    """

    seen: FileSummary
    train: FileSummary
    files: Mapping[str, Path]
    others: OtherSplits

    def files_with(self, label: Column) -> dict[str, Path]:
        """The files of the splits that have these labels."""
        without = self.others.unlabelled.get(label.name, ())
        return {split: file for split, file in self.files.items() if split not in without}

    def refuse_without(self, texts: Sequence[str]) -> None:
        for split, names in self.others.names.items():
            if lacking := [name for name in texts if name not in names]:
                raise UserError(
                    f"{self.files[split]}: no column {lacking[0]!r}, which {self.seen.path} has; "
                    "give the splits of a table the same columns"
                )


def _tasks_of(splits: Mapping[str, Path]) -> list[GuessedTask]:
    train = summarize(splits["train"], common_encoding(splits.values()))
    if train.is_plain_text:
        return [_masked_words(_Table(train, train, splits, OtherSplits()))]
    held = {split: path for split, path in splits.items() if split != "train"}
    seen, others = with_other_splits(train, held)
    table = _Table(seen, train, splits, others)
    found = list(_tagging(table)) or list(_about_texts(table))
    if not found:
        refuse_without_task(seen)
    refuse_objects_without_text(seen)
    notes = [f"left out: {what}" for what in left_out(seen)]
    certain = {
        name: identifies_all_rows(name, splits.values(), seen.encoding)
        for name in {task.id for task in found}
        if name is not None
    }
    return [
        replace(task, why=(*task.why, *notes), id_is_certain=certain.get(task.id or "", False))
        for task in found
    ]


def _tagging(table: _Table) -> Iterator[GuessedTask]:
    """A task for each list of tags; the columns of a CoNLL file with several get names."""
    seen = table.seen
    words, tags = words_and_tags(seen.columns)
    if words is None:
        return
    renamed = len(tags) > 1 and seen.path.suffix.lower() in CONLL
    usual = [column.name for column in seen.columns]
    names = conll_names(seen.columns, words, tags) if renamed else usual
    called = dict(zip(usual, names, strict=True))
    for column in tags:
        why = f"a tag for each word: {listed(column.values)}"
        kind = LabelKind("tags", why, _tag_options(column, table.others))
        task = _task(table, column, (words,), kind, called=called)
        task = _with_unequal_rows(_with_misfits(task, column), column, words)
        task = _with_other_scheme(task, column)
        yield replace(task, columns=tuple(names) if renamed else ())


def _tag_options(column: Column, others: OtherSplits) -> dict[str, object]:
    options: dict[str, object] = {"classes": "from-train"}
    if column.scheme != "bio":
        options["scheme"] = column.scheme
    if others.new_values.get(column.name):
        options["classes"] = all_tags(column)
    return options


def _with_misfits(task: GuessedTask, tags: Column) -> GuessedTask:
    if not tags.misfits:
        return task
    rows = f"{plural(tags.misfits, 'row')} with an I- tag that continues nothing"
    note = f'{rows}: skipped; scheme = "iob1" allows it'
    return replace(task, why=(*task.why, note), skipped=(*task.skipped, rows))


def _with_unequal_rows(task: GuessedTask, tags: Column, words: Column) -> GuessedTask:
    if not (unequal := unequal_rows(tags, words)):
        return task
    rows = f"{plural(unequal, 'row')} with unequal numbers of words and tags"
    return replace(task, why=(*task.why, f"{rows}: skipped"), skipped=(*task.skipped, rows))


def _with_other_scheme(task: GuessedTask, tags: Column) -> GuessedTask:
    found = other_scheme(tags.values) if tags.scheme == "plain" else None
    if found is None:
        return task
    changes = " and ".join(f"{old}- by {new}-" for old, new in AS_BIO[found].items())
    note = (
        f"entities in {found}, which is not supported: scored by the accuracy of single tags; "
        f'for entity F1, replace {changes} in the files, and set scheme = "bio"'
    )
    return replace(task, why=(*task.why, note))


def _masked_words(table: _Table) -> GuessedTask:
    seen = table.seen
    why = f"plain text without labels, a text in each of {plural(seen.rows, 'line')}"
    name = _without_split(seen.path.stem)
    lines = Column(name, "text", seen.rows, seen.rows)
    task = _task(table, lines, (Column(LINE, "text", 0, 0),), LabelKind("mlm", "", {}))
    return replace(task, label=None, why=(why, *task.why[1:]))


def _about_texts(table: _Table) -> Iterator[GuessedTask]:
    texts, notes = texts_of(table.seen)
    shared: dict[float, list[str]] = {}  # by share of dev rows, because it takes long
    for column in table.seen.columns if texts else ():
        kind = kind_of(column)
        if kind.name and column not in texts:
            task = _task(table, column, texts, kind)
            rare = _rare(column) if kind.options.get("classes") else []
            share = task.dev if len(texts) == PAIR and isinstance(task.dev, float) else 0.0
            if share not in shared:
                shared[share] = _shared_texts(task, share) if share else []
            yield replace(task, why=(*task.why, *rare, *notes, *shared[share]))


def _shared_texts(task: GuessedTask, share: float) -> list[str]:
    return note_on_shared_texts(task.train, task.encoding, task.texts, share)


def _rare(column: Column) -> list[str]:
    """A remark on classes of one row: they cannot be both learned and scored."""
    each = " each" if len(column.rare) > 1 else ""
    return [f"rare: {listed(column.rare)} (1 row{each})"] if column.rare else []


def _task(
    table: _Table,
    label: Column,
    texts: Sequence[Column],
    kind: LabelKind,
    *,
    called: Mapping[str, str] = MappingProxyType({}),
) -> GuessedTask:
    """``called`` has better names for the columns of a file without a header."""
    names = tuple(text.name for text in texts)
    table.refuse_without(names)
    files, no_class = table.files_with(label), _no_class(label, kind)
    share = HELD_OUT if label.filled + no_class >= FEW_ROWS else 2 * HELD_OUT
    skipped = tuple(_bad_rows(table.seen, label, texts))
    name = called.get(label.name, label.name)
    notes = [f"{name}: {kind.why} in {plural(label.filled, 'row')}"]
    notes += _notes(table, label, kind, skipped)
    return GuessedTask(
        name=task_name(name),
        kind=kind.name,
        texts=tuple(called.get(text, text) for text in names),
        label=name,
        train=files["train"],
        dev=files.get("dev", share),
        test=files.get("test"),
        why=tuple(notes),
        options=kind.options,
        has_gaps=label.empty > 0 and not KINDS[kind.name].missing_is_unlabelled,
        skipped=skipped,
        id=id_of(table.train, names),
        encoding=table.seen.encoding,
    )


def _no_class(label: Column, kind: LabelKind) -> int:
    """The rows whose empty label means that no class fits."""
    return label.blank if KINDS[kind.name].missing_is_unlabelled else 0


def _notes(table: _Table, label: Column, kind: LabelKind, skipped: Sequence[str]) -> Iterator[str]:
    """What was seen besides the labels themselves."""
    yield from table.others.notes(label.name, table.files)
    if kind.remark:
        yield kind.remark
    no_class = _no_class(label, kind)
    if no_class:
        yield f"{plural(no_class, 'row')} with an empty cell: no class"
    if gaps := label.empty - no_class:
        yield f"{plural(gaps, 'row')} without a label: left out"
    yield from (f"{rows}: skipped, and counted" for rows in skipped)
    if table.seen.encoding != UTF8:
        yield f"the file is not UTF-8; it looks like {table.seen.encoding}"
    for split, why in table.others.unlabelled.get(label.name, {}).items():
        yield f"{table.files[split].name} has {why}: left out"


def _bad_rows(seen: FileSummary, label: Column, texts: Sequence[Column]) -> Iterator[str]:
    if label.marked:
        markers = " or ".join(map(shown, label.markers))
        yield f"{plural(label.marked, 'row')} with {markers} instead of a label"
    for text in texts:
        if text.empty:
            yield f"{plural(text.empty, 'row')} with nothing in {shown(text.name)}"
    if seen.bad:
        yield f"{plural(seen.bad, 'row')} that cannot be read"


def _with_own_names(tasks: Sequence[GuessedTask]) -> list[GuessedTask]:
    """Tasks of the same name get the name of their file as a prefix."""
    names = [task.name for task in tasks]
    longer = [
        replace(task, name=task_name(f"{_without_split(task.train.stem)}_{task.name}"))
        if names.count(task.name) > 1
        else task
        for task in tasks
    ]
    seen: dict[str, int] = {}
    unique = []
    for task in longer:
        seen[task.name] = seen.get(task.name, 0) + 1
        again = f"{task.name}_{seen[task.name]}" if seen[task.name] > 1 else task.name
        unique.append(replace(task, name=again))
    return unique


def _without_split(stem: str) -> str:
    """``ids-sst`` for ``ids-sst-train``."""
    return re.sub(rf"[\W_]+({'|'.join(SPLIT_WORDS['train'])})$", "", stem, flags=re.IGNORECASE)
