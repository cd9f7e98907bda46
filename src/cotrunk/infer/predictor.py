"""Answers of a trained network about new text, many rows at a time."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, TokenIds
from cotrunk.data.reading.examples import LISTED, Example, Rows, Source, text_fault
from cotrunk.data.reading.labels import shown
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.errors import UserError, did_you_mean
from cotrunk.files import without_nan
from cotrunk.infer.batching import outputs
from cotrunk.infer.model import Model
from cotrunk.kinds.metrics import label_name, predict_labels
from cotrunk.kinds.task import CERTAINTY, Task
from cotrunk.model.heads import probabilities

CHUNK = 512
"""Rows: some seconds of work, after which it is told how far it is."""


@dataclass(frozen=True)
class Answer:
    """One task about one row: the label's name, 0 or 1, or the score.

    ``probabilities``: of each class, or of label 1; none for a score.
    """

    prediction: str | int | float
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Answered:
    """A row's answers, by task; ``line`` is where the row starts in its file."""

    line: int
    id: str
    answers: Mapping[str, Answer]


class Predictor:
    """A trained model that reads text. Tasks that read alike share one forward pass."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tasks = model.network.tasks
        self.tokenise = Tokeniser(model.tokenizer)

    def predict(self, task: str, texts: Sequence[str | tuple[str, str]]) -> list[Answer]:
        """One task's answers about a list of texts, or of pairs ``(left, right)``.

        A text must not be empty, as in a file; all bad rows are named at once.
        """
        if task not in list(self.tasks):  # a list, for a name that cannot be hashed is wrong too
            hint = did_you_mean(str(task), self.tasks)
            known = ", ".join(self.tasks)
            raise UserError(f"{task!r} is no task of this run; there are {known}{hint}")
        if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
            raise UserError(
                f"texts: predict answers about a list; found {shown(texts)}; "
                "write predict(task, [text])"
            )
        return self.answer_rows([task], _checked(self.tasks[task], list(texts)))[task]

    def answer_rows(
        self, tasks: Sequence[str], rows: Sequence[tuple[str, ...]]
    ) -> dict[str, list[Answer]]:
        """The answers of tasks that have the same number of texts."""
        model = self.model
        pieces = self._pieces(rows)
        answers: dict[str, list[Answer]] = {}
        for pair_format, alike in _by_view(tasks, model.pair_formats).items():
            found = outputs(model.network, pieces, pair_format, model.template, alike)
            for task in alike:
                answers[task] = _answers(self.tasks[task], found[task])
        return {task: answers[task] for task in tasks}

    def source(self, task: str, path: Path) -> Source:
        """How a task reads a file: as its training files, but without labels."""
        return replace(self.model.unlabelled[task], path=path)

    def answer_file(self, tasks: Sequence[str], rows: Rows) -> Iterator[Answered]:
        """Every row of a file that all of ``tasks`` read alike."""
        for chunk in _chunks(rows):
            found = self.answer_rows(tasks, [example.texts for example in chunk])
            for number, example in enumerate(chunk):
                answers = {task: found[task][number] for task in tasks}
                yield Answered(example.line, example.id, answers)

    def _pieces(self, rows: Sequence[tuple[str, ...]]) -> list[TokenIds]:
        ids = iter(self.tokenise([text for row in rows for text in row]))
        return [tuple(np.array(next(ids), np.int64) for _ in row) for row in rows]


def _checked(task: Task, texts: Sequence[object]) -> list[tuple[str, ...]]:
    """The rows that a caller gave, as tuples of sound texts."""
    rows = [_row(text) for text in texts]
    wrong = [
        f"texts[{number}]{fault}"
        for number, row in enumerate(rows)
        for fault in _row_faults(task, row)
    ]
    if wrong:
        more = [f"texts: there are more; only the first {LISTED} are listed"] * (
            len(wrong) > LISTED
        )
        raise UserError(*wrong[:LISTED], *more)
    return rows


def _row(given: Any) -> tuple[Any, ...]:
    texts = given.tolist() if isinstance(given, np.ndarray) else given
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
        if reason := text_fault(text, "text"):
            yield f"{at}: {reason}; correct it or leave the row out"


def _by_view(
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


def _answers(task: Task, output: np.ndarray) -> list[Answer]:
    if not np.isfinite(output).all():
        raise RuntimeError(f"task {task.name}: the network answers NaN or infinity; train it again")
    labels = [label_name(task, decided) for decided in predict_labels(task, output).tolist()]
    if task.kind == "score":
        return [Answer(label, ()) for label in labels]
    chances = probabilities(task, torch.from_numpy(output)).tolist()
    return [Answer(label, tuple(c)) for label, c in zip(labels, chances, strict=True)]


def object_of(answered: Answered) -> dict[str, object]:
    """A row with all probabilities: the id, and each task's ``Answer``."""
    return {"id": answered.id} | {task: asdict(a) for task, a in answered.answers.items()}


def row_of(answered: Answered) -> dict[str, object]:
    """A flat row: the id, each task's prediction and how sure it is of it."""
    row: dict[str, object] = {"id": answered.id}
    for task, answer in answered.answers.items():
        row[task] = answer.prediction
        if answer.probabilities:
            binary = len(answer.probabilities) == 1
            against = 1 - answer.probabilities[0] if binary else 0.0
            row[f"{task}{CERTAINTY}"] = max(*answer.probabilities, against)
    return row


def columns_of(tasks: Sequence[Task]) -> list[str]:
    """The keys that ``row_of`` can have."""
    own = [[t.name] if t.kind == "score" else [t.name, f"{t.name}{CERTAINTY}"] for t in tasks]
    return ["id", *(column for columns in own for column in columns)]


def write_delimited(
    tasks: Sequence[Task], rows: Iterable[Answered], file: TextIO, *, delimiter: str
) -> None:
    writer = csv.DictWriter(file, columns_of(tasks), delimiter=delimiter, lineterminator="\n")
    written = (row_of(answered) for answered in rows)
    opening = list(islice(written, 1))  # a file that cannot be read leaves no header
    writer.writeheader()
    writer.writerows(chain(opening, written))


def write_jsonl(_tasks: Sequence[Task], rows: Iterable[Answered], file: TextIO) -> None:
    for answered in rows:
        row = without_nan(object_of(answered))
        file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


MINBERT_HEADERS = {
    "classes": "Predicted_Sentiment",
    "binary": "Predicted_Is_Paraphrase",
    "score": "Predicted_Similiary",  # as the course spells it
}


def write_minbert(task: Task, rows: Iterable[Answered], file: TextIO) -> None:
    """The course's submission file: its header, its spelling, its blanks."""
    file.write(f"id \t {MINBERT_HEADERS[task.kind]} \n")
    for answered in rows:
        if task.name not in answered.answers:
            continue
        value = answered.answers[task.name].prediction
        # A class by its number, whatever the config calls it.
        shown = task.classes.index(str(value)) if task.kind == "classes" else float(value)
        file.write(f"{answered.id} , {shown} \n")


Writer = Callable[[Sequence[Task], Iterable[Answered], TextIO], None]
WRITERS: dict[str, Writer] = {
    "csv": partial(write_delimited, delimiter=","),
    "tsv": partial(write_delimited, delimiter="\t"),
    "jsonl": write_jsonl,
}
