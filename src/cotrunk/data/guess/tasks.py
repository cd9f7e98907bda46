"""Guesses tasks from what the columns of files hold: one per label column."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotrunk.data.guess.columns import Column
from cotrunk.data.guess.names import task_name
from cotrunk.data.guess.schemes import AS_BIO, other_scheme
from cotrunk.data.guess.summary import FileSummary, summarize
from cotrunk.data.guess.tags import conll_names, unequal_rows, words_and_tags
from cotrunk.data.reading.encodings import UTF8
from cotrunk.data.reading.files import CONLL
from cotrunk.data.reading.formats import LINE
from cotrunk.errors import Errors, UserError, plural, shown
from cotrunk.kinds import KINDS
from cotrunk.kinds.binary import PAIRS

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development"),
    "test": ("test", "testing"),
}
IDS = ("id", "counter")
HELD_OUT = 0.1
FEW_ROWS = 50
"""With fewer rows, a fifth of them are held out as dev rows instead of a tenth."""
TOO_FEW_ROWS = 10
"""With fewer rows, labels may look like ids, because they hardly repeat."""


@dataclass(frozen=True)
class GuessedTask:
    """A task for a config; ``options`` are the keys of its kind, ``why`` says what was seen.

    ``skipped`` says which rows are bad and how many, as in "2 rows that cannot be read".

    ``dev`` and ``test`` are files, or shares of ``train``. ``columns`` names the columns of a
    CoNLL file, if the default names do not fit.
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


def _tasks_of(splits: Mapping[str, Path]) -> list[GuessedTask]:
    seen = summarize(splits["train"])
    if seen.is_plain_text:
        return [_masked_words(seen, splits)]
    found = list(_tagging(seen, splits)) or list(_about_texts(seen, splits))
    commas, objects = _decimal_commas(seen), _objects(seen)
    has_text = any(column.role in ("text", "words") for column in seen.columns)
    if objects and not (found and has_text):
        raise UserError(f"{seen.path}: {objects}")
    if not found and commas:
        raise UserError(f"{seen.path}: no column can be read as a label; found {commas}")
    if not found and _may_have_too_few_rows(seen):
        raise UserError(
            f"{seen.path}: has only {plural(seen.rows, 'row')}, too few to tell labels from names "
            f"or ids; give {TOO_FEW_ROWS} or more, or write the task by hand: "
            "cotrunk init -o run.toml shows how"
        )
    if not found:
        held = ", ".join(f"{column.name} ({_described(column)})" for column in seen.columns[:20])
        raise UserError(
            f"{seen.path}: no column looks like labels; found {held}; "
            "write the task by hand: cotrunk init -o run.toml shows how"
        )
    left_out = [f"left out: {what}" for what in (commas, objects) if what]
    return [replace(task, why=(*task.why, *left_out)) for task in found]


def _may_have_too_few_rows(seen: FileSummary) -> bool:
    """Whether a column beside the text, or beside what may be one, could be a label."""
    roles = [column.role for column in seen.columns]
    names = sum(role in IDS for role in roles)
    return seen.rows < TOO_FEW_ROWS and names > ("text" not in roles)


def _objects(seen: FileSummary) -> str:
    """Which columns are objects, and the fix; "" if there are none."""
    names = [shown(column.name) for column in seen.columns if column.role == "object"]
    if not names:
        return ""
    are = "is an object; its" if len(names) == 1 else "are objects; their"
    return f"{_listed(names)} {are} fields should be at the top level of each row"


def _decimal_commas(seen: FileSummary) -> str:
    """Where they are, and the fix; "" if there are none."""
    names = [shown(column.name) for column in seen.columns if column.role == "decimal commas"]
    if not names:
        return ""
    return (
        f"decimal commas in column {_listed(names)}; write numbers with a decimal point; "
        'if the cells list labels, add the task by hand: kind = "multilabel", separator = ","'
    )


def _tagging(seen: FileSummary, splits: Mapping[str, Path]) -> Iterator[GuessedTask]:
    """A task for each list of tags; the columns of a CoNLL file with several get names."""
    words, tags = words_and_tags(seen.columns)
    if words is None:
        return
    renamed = len(tags) > 1 and seen.path.suffix.lower() in CONLL
    usual = [column.name for column in seen.columns]
    names = conll_names(seen.columns, words, tags) if renamed else usual
    name_of = dict(zip(usual, names, strict=True))
    for column in tags:
        label = replace(column, name=name_of[column.name])
        why = f"a tag for each word: {_listed(column.values)}"
        options = {"classes": "from-train"}
        if column.scheme != "bio":
            options["scheme"] = column.scheme
        task = _task(seen, splits, label, (name_of[words.name],), "tags", why, options)
        task = _with_unequal_rows(_with_misfits(task, column), column, words)
        task = _with_other_scheme(task, column)
        yield replace(task, columns=tuple(names) if renamed else ())


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


def _masked_words(seen: FileSummary, splits: Mapping[str, Path]) -> GuessedTask:
    why = f"plain text without labels, a text in each of {plural(seen.rows, 'line')}"
    name = _without_split(seen.path.stem)
    lines = Column(name, "text", seen.rows, seen.rows)
    task = _task(seen, splits, lines, (LINE,), "mlm", "", {})
    return replace(task, label=None, why=(why, *task.why[1:]))


def _about_texts(seen: FileSummary, splits: Mapping[str, Path]) -> Iterator[GuessedTask]:
    texts = tuple(column.name for column in seen.columns if column.role == "text")
    notes = [f"more texts in the file: {', '.join(texts[2:])}"] if len(texts) > 2 else []
    if not texts and (varied := _most_varied(seen.columns)):
        texts = (varied.name,)
        notes = [
            f"no column looks like text; {varied.name!r} varies most, so it is read as the text"
        ]
    for column in seen.columns if texts else ():
        kind, why, options = _kind_of(column)
        if kind and column.name not in texts:
            task = _task(seen, splits, column, texts, kind, why, options)
            rare = _rare(column) if options.get("classes") else []
            yield replace(task, why=(*task.why, *rare, *notes))


def _rare(column: Column) -> list[str]:
    """A remark on classes of one row: they cannot be both learned and scored."""
    each = " each" if len(column.rare) > 1 else ""
    return [f"rare: {_listed(column.rare)} (1 row{each})"] if column.rare else []


def _most_varied(columns: Sequence[Column]) -> Column | None:
    """Of the columns with the most distinct values, or half as many, the one with most words.

    Keys of one word each may be more distinct than two-word texts.
    """
    others = [c for c in columns if c.role in ("id", "category", "set") and c.distinct > 1]
    most = max((column.distinct for column in others), default=0)
    varied = [column for column in others if 2 * column.distinct >= most]
    return max(varied, key=lambda column: (column.words, column.distinct), default=None)


def _kind_of(column: Column) -> tuple[str, str, dict[str, object]]:
    """Kind, what was seen and the keys of the kind; no kind if it is not a label."""
    if column.role == "set":
        why = f"names joined by {column.separator!r}: {_listed(column.values)}"
        return "multilabel", why, {"classes": list(column.values), "separator": column.separator}
    if column.role == "words" and column.values:
        why = f"lists of names: {_listed(column.values)}"
        return "multilabel", why, {"classes": list(column.values)}
    if column.role == "category" and _means_yes_or_no(column.values):
        return "binary", f"{' or '.join(column.values)}", {}
    if column.role == "category" and column.distinct > 1:
        why = f"{len(column.values)} different values"
        return "classes", why, {"classes": list(column.values)}
    if column.role == "number" and column.distinct > 1:
        return _kind_of_numbers(column)
    return "", "", {}


def _means_yes_or_no(values: Sequence[str]) -> bool:
    """Whether a column has both words of a pair that every binary task understands."""
    return {value.strip().lower() for value in values} in map(set, PAIRS)


def _kind_of_numbers(column: Column) -> tuple[str, str, dict[str, object]]:
    if column.values == ("0", "1"):
        return "binary", "0 or 1", {}
    if column.values and column.values == tuple(map(str, range(len(column.values)))):
        return "classes", f"whole numbers 0..{column.high:g}", {"classes": len(column.values)}
    if column.values and column.is_spelled_whole:
        why = f"{len(column.values)} different whole numbers"
        return "classes", why, {"classes": list(column.values)}
    why = f"numbers from {column.low:g} to {column.high:g}"
    return "score", why, {"range": [math.floor(column.low), math.ceil(column.high)]}


def _task(
    seen: FileSummary,
    splits: Mapping[str, Path],
    label: Column,
    texts: tuple[str, ...],
    kind: str,
    why: str,
    options: Mapping[str, object],
) -> GuessedTask:
    notes = [f"{label.name}: {why} in {plural(label.filled, 'row')}"]
    may_be_empty = KINDS[kind].missing_is_unlabelled
    no_class = label.blank if may_be_empty else 0
    if no_class:
        notes.append(f"{plural(no_class, 'row')} with an empty cell: no class")
    labelled = label.filled + no_class
    if gaps := seen.rows - labelled - label.marked:
        notes.append(f"{plural(gaps, 'row')} without a label: left out")
    skipped = list(_bad_rows(seen, label))
    notes += [f"{rows}: skipped, and counted" for rows in skipped]
    if seen.encoding != UTF8:
        notes.append(f"the file is not UTF-8; it looks like {seen.encoding}")
    share = HELD_OUT if labelled >= FEW_ROWS else 2 * HELD_OUT
    return GuessedTask(
        name=task_name(label.name),
        kind=kind,
        texts=texts[:2],
        label=label.name,
        train=splits["train"],
        dev=splits.get("dev", share),
        test=splits.get("test"),
        why=tuple(notes),
        options=options,
        has_gaps=gaps > 0 and not may_be_empty,
        skipped=tuple(skipped),
        id=_id_of(seen, texts),
        encoding=seen.encoding,
    )


def _bad_rows(seen: FileSummary, label: Column) -> Iterator[str]:
    if label.marked:
        markers = " or ".join(map(shown, label.markers))
        yield f"{plural(label.marked, 'row')} with {markers} instead of a label"
    if seen.bad:
        yield f"{plural(seen.bad, 'row')} that cannot be read"


def _id_of(seen: FileSummary, texts: Sequence[str]) -> str | None:
    """The column with ids of rows; None if there is none, or if it is called id, the default."""
    ids = [c.name for c in seen.columns if c.role in IDS and c.distinct == seen.rows]
    names = [name for name in ids if name and name not in texts]
    return None if "id" in (column.name for column in seen.columns) else next(iter(names), None)


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


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")


def _described(column: Column) -> str:
    if column.role in ("number", "category") and column.distinct == 1:
        return f"always the same {'number' if column.role == 'number' else 'value'}"
    return {
        "text": "text",
        "id": f"{column.distinct:,} different short values in {column.filled:,} rows",
        "date": "dates",
        "counter": "a different number in every row",
        "empty": "empty",
        "number": f"{column.distinct:,} different numbers",
        "decimal commas": "numbers with decimal commas",
        "category": f"{column.distinct:,} different values",
        "object": "objects",
        "set": f"names joined by {column.separator!r}",
        "words": "lists of words",
    }.get(column.role, "neither text nor label")
