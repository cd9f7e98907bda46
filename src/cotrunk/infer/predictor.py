"""Predictions of a trained network for new text."""

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, TextIO

import numpy as np

from cotrunk.data.batches.text import PairFormat
from cotrunk.data.reading.cells import as_words, text_fault, words_fault
from cotrunk.data.reading.examples import Example, Rows
from cotrunk.data.reading.refusal import LISTED
from cotrunk.data.reading.splits import Text
from cotrunk.data.tokens.encoded import BETWEEN_WORDS, encode
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.errors import UserError, did_you_mean, plural, shown
from cotrunk.files import without_nan
from cotrunk.infer.batching import outputs, row_tokens
from cotrunk.infer.embedding import embed, task_to_embed
from cotrunk.infer.model import Model
from cotrunk.kinds import Answer
from cotrunk.kinds.rows import LoadedRows
from cotrunk.kinds.task import Task

CHUNK = 512
"""Rows between two progress updates: some seconds of work."""


@dataclass(frozen=True)
class Answered:
    """A row's answers by task; ``line`` is the line in its file where the row starts."""

    line: int
    id: str
    answers: Mapping[str, Answer]


class Predictor:
    """Predicts with a trained model. Tasks with the same pair format share a forward pass."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tasks = model.network.tasks
        self.tokenise = Tokeniser(model.tokenizer)

    def predict(
        self, task: str, texts: Sequence[str | tuple[str, str] | Sequence[str]]
    ) -> list[Answer]:
        """One task's answers for a list of texts, or of pairs ``(left, right)``.

        For a task that reads words, a text is a list of words, or a string to split at spaces.
        Texts must not be empty; all bad rows are reported at once.
        """
        _refuse_unknown(task, self.tasks)
        if not self.tasks[task].labels.can_answer:
            raise UserError(f"task {task} is only for training and makes no predictions")
        rows = dict(enumerate(_listed(texts, "predict(task, [text])")))
        return self.answer_rows([task], _checked(self.tasks[task], rows))[task]

    def predict_all(
        self, texts: Sequence[str | tuple[str, str]], *, tasks: Sequence[str] | None = None
    ) -> list[dict[str, Answer]]:
        """The answers of all tasks for each text or pair, in one pass over what the tasks share.

        Texts are answered by the tasks that read one text, pairs by those that read pairs. Tasks
        that read words split a text at spaces, and need a separate pass.
        """
        for task in tasks or ():
            _refuse_unknown(task, self.tasks)
        chosen = [name for name in tasks or self.tasks if self.tasks[name].labels.can_answer]
        if not chosen:
            raise UserError(
                "none of these tasks makes predictions: " + ", ".join(tasks or self.tasks)
            )
        rows = [_row(text) for text in _listed(texts, "predict_all([text])")]
        alike: dict[tuple[int, bool], list[str]] = {}
        for name in chosen:
            read = self.tasks[name]
            alike.setdefault((read.texts, read.labels.reads_words), []).append(name)
        _refuse_unread(rows, {texts for texts, _ in alike})
        found: list[dict[str, Answer]] = [{} for _ in rows]
        for (wanted, _), names in alike.items():
            mine = {number: row for number, row in enumerate(rows) if len(row) == wanted}
            given = {number: row[0] if wanted == 1 else row for number, row in mine.items()}
            answers = self.answer_rows(names, _checked(self.tasks[names[0]], given))
            for name, of_rows in answers.items():
                for number, answer in zip(mine, of_rows, strict=True):
                    found[number][name] = answer
        return [{name: row[name] for name in chosen if name in row} for row in found]

    def embed(self, texts: Sequence[str], *, task: str | None = None) -> np.ndarray:
        """One vector for each text, as the head of ``task`` reads it: [texts, width].

        ``task`` can be left out where all tasks share the encoder.
        """
        if task is not None:
            _refuse_unknown(task, self.tasks)
        rows = [(text,) for text in _listed(texts, "embed([text])")]
        wrong = {n: fault for n, (text,) in enumerate(rows) if (fault := text_fault(text, "text"))}
        _refuse_faults([f"texts[{number}]: {fault}" for number, fault in wrong.items()])
        chosen = task_to_embed(self.model, task)
        return embed(self.model, list(self.read(rows, words=False).pieces), chosen)

    def answer_rows(
        self, tasks: Sequence[str], rows: Sequence[tuple[Text, ...]]
    ) -> dict[str, list[Answer]]:
        """The answers of several tasks, which must all read words or all whole texts."""
        found, read = self.output_rows(tasks, rows)
        return {task: answers_of(self.tasks[task], found[task], read) for task in tasks}

    def output_rows(
        self, tasks: Sequence[str], rows: Sequence[tuple[Text, ...]]
    ) -> tuple[dict[str, np.ndarray], LoadedRows]:
        """The outputs behind ``answer_rows``, and the rows as they were read."""
        network, template = self.model.network, self.model.template
        words = self.tasks[tasks[0]].labels.reads_words
        read = self.read(rows, words=words)
        found: dict[str, np.ndarray] = {}
        for pair_format, alike in _by_pair_format(tasks, self.model.pair_formats).items():
            tokens = row_tokens(read.pieces, pair_format, template)
            found |= outputs(network, read.select, tokens, pair_format, template, alike)
        return found, read

    def answer_file(self, tasks: Sequence[str], rows: Rows) -> Iterator[Answered]:
        """The answers for every row of a file that all of ``tasks`` read in the same way."""
        for chunk in _chunks(rows):
            found = self.answer_rows(tasks, [example.texts for example in chunk])
            for number, example in enumerate(chunk):
                answers = {task: found[task][number] for task in tasks}
                yield Answered(example.line, example.id, answers)

    def read(self, rows: Sequence[tuple[Text, ...]], *, words: bool) -> LoadedRows:
        """The token ids of rows; ``words``: their texts are lists of words."""
        texts = [BETWEEN_WORDS.join(t) if words else t for row in rows for t in row]
        each = len(rows[0]) if rows else 1
        read = encode(self.tokenise, texts, each, words=words)  # type: ignore[arg-type]
        ids = iter(_parts(read.token.astype(np.int64), read.length))
        pieces = [tuple(next(ids) for _ in row) for row in rows]
        sites = _parts(read.site.astype(np.int64), read.words) if words else None
        return LoadedRows.without_labels(pieces, sites)


def _parts(values: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _refuse_unknown(task: str, tasks: Mapping[str, Task]) -> None:
    if task not in list(tasks):  # a list, because the name may be unhashable
        hint = did_you_mean(str(task), tasks)
        known = ", ".join(tasks)
        raise UserError(f"{task!r} is not a task of this run; tasks are {known}{hint}")


def _listed(texts: object, example: str) -> list[Any]:
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise UserError(f"texts must be a list; found {shown(texts)}; write {example}")
    return list(texts)


def _refuse_unread(rows: Sequence[tuple[Any, ...]], read: Collection[int]) -> None:
    """Rows that no task could answer."""
    wanted = " or ".join("one text" if count == 1 else "a pair" for count in sorted(read))
    _refuse_faults(
        [
            f"texts[{number}]: the tasks read {wanted} per row; found {plural(len(row), 'value')}"
            for number, row in enumerate(rows)
            if len(row) not in read
        ]
    )


def _checked(task: Task, texts: Mapping[int, object]) -> list[tuple[Text, ...]]:
    """The caller's rows, by number, as tuples of valid texts."""
    rows: dict[int, tuple[Any, ...]]
    if task.labels.reads_words:
        rows = {number: (as_words(_plain(text)),) for number, text in texts.items()}
    else:
        rows = {number: _row(text) for number, text in texts.items()}
    _refuse_faults(
        [
            f"texts[{number}]{fault}"
            for number, row in rows.items()
            for fault in _row_faults(task, row)
        ]
    )
    return list(rows.values())


def _refuse_faults(wrong: Sequence[str]) -> None:
    if wrong:
        more = [f"texts: there are more; only the first {LISTED} are listed"] * (
            len(wrong) > LISTED
        )
        raise UserError(*wrong[:LISTED], *more)


def _plain(given: Any) -> Any:
    return given.tolist() if isinstance(given, np.ndarray) else given


def _row(given: Any) -> tuple[Any, ...]:
    texts = _plain(given)
    several = isinstance(texts, Sequence) and not isinstance(texts, str | bytes)
    return tuple(texts) if several else (texts,)


def _row_faults(task: Task, row: tuple[object, ...]) -> Iterator[str]:
    if len(row) != task.texts:
        wanted = "one text" if task.texts == 1 else "a pair (left, right)"
        found = shown(row[0]) if len(row) == 1 else f"{len(row)} values"
        yield f": task {task.name} reads {wanted} per row; found {found}"
        return
    for number, text in enumerate(row):
        at = f"[{number}]" if task.texts > 1 else ""
        fault = words_fault(text) if task.labels.reads_words else text_fault(text, "text")
        if reason := fault:
            yield f"{at}: {reason}; fix it or remove the row"


def _by_pair_format(
    tasks: Sequence[str], pair_formats: Mapping[str, PairFormat]
) -> dict[PairFormat, list[str]]:
    alike: dict[PairFormat, list[str]] = {}
    for task in tasks:
        alike.setdefault(pair_formats[task], []).append(task)
    return alike


def _chunks(rows: Rows) -> Iterator[list[Example]]:
    examples = iter(rows)
    while chunk := list(islice(examples, CHUNK)):
        yield chunk


def answers_of(task: Task, output: np.ndarray, rows: LoadedRows) -> list[Answer]:
    """The answers from the outputs for some rows; ``RuntimeError`` if the network gave NaN.

    A word may lack outputs because it was truncated or has no token, but not if it has the first
    token of its row.
    """
    may_lack = np.zeros(len(output), bool)
    if rows.sites is not None:
        may_lack = np.concatenate([np.zeros(0, np.int64), *rows.sites]) != 0
    lacks = np.isnan(output).all(axis=1) & may_lack
    if not (np.isfinite(output).all(axis=1) | lacks).all():
        raise RuntimeError(f"task {task.name}: the network outputs NaN or infinity; train it again")
    return task.labels.answers(output, counts=None if rows.sites is None else rows.units_R)


def object_of(tasks: Sequence[Task], answered: Answered) -> dict[str, object]:
    """A row as JSON: the id and each task's answer."""
    found = answered.answers
    shown = {t.name: t.labels.to_json(found[t.name]) for t in tasks if t.name in found}
    return {"id": answered.id, **shown}


def row_of(tasks: Sequence[Task], answered: Answered) -> dict[str, object]:
    """A flat row: the id, and each task's prediction with its probability."""
    row: dict[str, object] = {"id": answered.id}
    for task in tasks:
        if task.name in answered.answers:
            row |= task.labels.to_columns(task.name, answered.answers[task.name])
    return row


def columns_of(tasks: Sequence[Task]) -> list[str]:
    """The columns of ``row_of``."""
    return ["id", *(column for task in tasks for column in task.labels.columns(task.name))]


def write_delimited(
    tasks: Sequence[Task], rows: Iterable[Answered], file: TextIO, *, delimiter: str
) -> None:
    writer = csv.DictWriter(file, columns_of(tasks), delimiter=delimiter, lineterminator="\n")
    written = (row_of(tasks, answered) for answered in rows)
    opening = list(islice(written, 1))  # read first: an unreadable file must not leave a header
    writer.writeheader()
    writer.writerows(chain(opening, written))


def write_jsonl(tasks: Sequence[Task], rows: Iterable[Answered], file: TextIO) -> None:
    for answered in rows:
        row = without_nan(object_of(tasks, answered))
        file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


Writer = Callable[[Sequence[Task], Iterable[Answered], TextIO], None]
WRITERS: dict[str, Writer] = {
    "csv": partial(write_delimited, delimiter=","),
    "tsv": partial(write_delimited, delimiter="\t"),
    "jsonl": write_jsonl,
}
