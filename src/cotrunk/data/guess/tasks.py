"""From what the columns of files hold to tasks: one per label column."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotrunk.data.guess.columns import Column, FileSummary, summarize
from cotrunk.data.reading.encodings import UTF8
from cotrunk.errors import Errors, UserError, plural
from cotrunk.kinds.binary import PAIRS
from cotrunk.kinds.task import TAKEN

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development"),
    "test": ("test", "testing"),
}
HELD_OUT = 0.1
FEW_ROWS = 50
"""Below this, a dev set of a tenth says nothing; a fifth says little."""


@dataclass(frozen=True)
class GuessedTask:
    """A task as its config says it; ``options`` are the keys of its kind, ``why`` what was seen.

    ``dev`` and ``test`` are files, or shares of ``train``.
    """

    name: str
    kind: str
    texts: tuple[str, ...]
    label: str
    train: Path
    dev: Path | float
    test: Path | None
    why: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    has_gaps: bool = False
    has_bad_rows: bool = False
    id: str | None = None
    encoding: str = UTF8


def guess_tasks(files: Sequence[Path]) -> list[GuessedTask]:
    """All tasks of some files; reports all files that cannot be used at once."""
    errors, tasks = Errors(), list[GuessedTask]()
    for splits in _by_splits(files):
        with errors.gathered():
            tasks += _tasks_of(splits)
    errors.refuse()
    return _with_own_names(tasks)


def _by_splits(files: Sequence[Path]) -> list[dict[str, Path]]:
    """Files whose names differ only in train, dev or test are the splits of one table."""
    groups: dict[tuple[Path, str, str], dict[str, Path]] = {}
    for file in dict.fromkeys(files):
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
    found = list(_tagging(seen, splits)) or list(_about_texts(seen, splits))
    if not found:
        held = ", ".join(f"{column.name} ({_says(column)})" for column in seen.columns[:20])
        raise UserError(
            f"{seen.path}: no column looks like a label of a text; found {held}; "
            "write the task by hand: cotrunk init -o run.toml shows how"
        )
    return found


def _tagging(seen: FileSummary, splits: Mapping[str, Path]) -> Iterator[GuessedTask]:
    """Two lists per row: the one with few distinct entries tags the words of the other."""
    lists = sorted(
        (column for column in seen.columns if column.role == "words"), key=lambda c: c.distinct
    )
    if len(lists) < 2 or not lists[0].values or lists[-1].distinct <= lists[0].distinct:
        return
    tags, words = lists[0], lists[-1]
    prefixed = [value for value in tags.values if value != "O"]
    entities = bool(prefixed) and all(re.match(r"[BI]-.", value) for value in prefixed)
    scheme = {} if entities else {"scheme": "plain"}
    yield _task(
        seen,
        splits,
        tags,
        (words.name,),
        "tags",
        f"a tag for each word: {_listed(tags.values)}",
        {"classes": "from-train", **scheme},
    )


def _about_texts(seen: FileSummary, splits: Mapping[str, Path]) -> Iterator[GuessedTask]:
    texts = tuple(column.name for column in seen.columns if column.role == "text")
    if not texts:
        return
    for column in seen.columns:
        kind, why, options = _kind_of(column)
        if kind:
            yield _task(seen, splits, column, texts, kind, why, options)


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
    options: dict[str, object],
) -> GuessedTask:
    notes = [f"{label.name}: {why} in {plural(label.filled, 'row')}"]
    if len(texts) > 2:
        notes.append(f"more texts in the file: {', '.join(texts[2:])}")
    has_gaps = label.filled < seen.rows
    if has_gaps:
        notes.append(f"{plural(seen.rows - label.filled, 'row')} without a label are left out")
    if seen.bad:
        notes.append(f"{plural(seen.bad, 'row')} that cannot be read: skipped, and counted")
    if seen.encoding != UTF8:
        notes.append(f"the file is not UTF-8; it looks like {seen.encoding}")
    share = HELD_OUT if label.filled >= FEW_ROWS else 2 * HELD_OUT
    return GuessedTask(
        name=_name(label.name),
        kind=kind,
        texts=texts[:2],
        label=label.name,
        train=splits["train"],
        dev=splits.get("dev", share),
        test=splits.get("test"),
        why=tuple(notes),
        options=options,
        has_gaps=has_gaps,
        has_bad_rows=seen.bad > 0,
        id=_id_of(seen),
        encoding=seen.encoding,
    )


def _id_of(seen: FileSummary) -> str | None:
    """The column that tells rows apart; None if there is none, or if it is called id anyway."""
    names = [c.name for c in seen.columns if c.role == "id" and c.distinct == seen.rows and c.name]
    return None if "id" in (column.name for column in seen.columns) else next(iter(names), None)


def _name(column: str) -> str:
    """A column's name as that of a task, which has letters, digits, _ and - only."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", column).strip("_-") or "task"
    return plain[:64] if plain[0].isalpha() and plain not in TAKEN else f"task_{plain}"[:64]


def _with_own_names(tasks: Sequence[GuessedTask]) -> list[GuessedTask]:
    """Labels of the same name in several files are told apart by the files' names."""
    names = [task.name for task in tasks]
    longer = [
        replace(task, name=_name(f"{_without_split(task.train.stem)}_{task.name}"))
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


def _says(column: Column) -> str:
    return {
        "text": "text",
        "id": "a different short value in nearly every row",
        "empty": "empty",
        "number": "always the same number",
        "category": "always the same value",
    }.get(column.role, "neither text nor label")
