"""Turns a request into rows for the model; invalid inputs are refused by field."""

from collections.abc import Sequence

from cotrunk.data.reading.cells import as_words, text_fault, words_fault
from cotrunk.data.reading.splits import Text
from cotrunk.errors import UserError, did_you_mean
from cotrunk.infer.embedding import task_to_embed
from cotrunk.infer.model import Model
from cotrunk.kinds.task import Task
from cotrunk.serve.engine import Engine
from cotrunk.serve.jobs import InputRow
from cotrunk.serve.lanes import Lane, vector_lane
from cotrunk.serve.problems import LISTED
from cotrunk.serve.schemas import EmbedRequest, PredictInput, PredictRequest

Problem = tuple[str, str]
"""A field and what is wrong with it."""


class Refused(Exception):
    """What is wrong with a request."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in problems))
        self.problems = problems[:LISTED]


def rows_of_request(engine: Engine, request: PredictRequest) -> list[InputRow]:
    """The rows of ``/predict``: for each input, one in each lane of its tasks."""
    named = [
        (f"tasks[{n}]", _task_fault(engine, task)) for n, task in enumerate(request.tasks or ())
    ]
    _refuse([(field, why) for field, why in named if why])
    asked: list[InputRow] = []
    problems: list[Problem] = []
    for number, given in enumerate(request.inputs):
        tasks = dict.fromkeys(request.tasks or _readers(engine, given))
        try:
            asked += _rows(engine, number, given, list(tasks))
        except Refused as error:
            problems += [(f"inputs[{number}].{field}", why) for field, why in error.problems]
    _refuse(problems)
    return asked


def embedding_of(engine: Engine, request: EmbedRequest) -> list[InputRow]:
    """The rows of ``/embed``."""
    model = engine.model.model
    if request.task is not None and request.task not in engine.model.tasks:
        known = tasks_with_vectors(model) or list(engine.model.tasks)
        _refuse([("task", _not_a_task(request.task, known))])
    try:
        lane = vector_lane(model, task_to_embed(model, request.task))
    except UserError as error:
        raise Refused([("task", str(error))]) from None
    asked: list[InputRow] = []
    problems: list[Problem] = []
    for number, text in enumerate(given.text for given in request.inputs):
        if not isinstance(text, str):
            problems.append((f"inputs[{number}].text", "must be a string"))
        elif why := text_fault(text, "text"):
            problems.append((f"inputs[{number}].text", why))
        else:
            asked.append(InputRow(number, lane, lane.tasks, (text,)))
    _refuse(problems)
    return asked


def tasks_with_vectors(model: Model) -> list[str]:
    """The tasks that /embed can use."""
    return [name for name, task in model.network.tasks.items() if not task.is_about_tokens]


def _rows(engine: Engine, number: int, given: PredictInput, tasks: Sequence[str]) -> list[InputRow]:
    every = [engine.model.tasks[name] for name in engine.lanes]
    if given.pair is not None and all(task.texts == 1 for task in every):
        raise Refused([("pair", "no task of this run reads a pair of texts")])
    if given.pair is not None and isinstance(given.text, list):
        raise Refused([("pair", "a text that is a list of words has no pair")])
    # If no task was named and none can read the input, the message is about the first.
    for task in [engine.model.tasks[name] for name in tasks] or every[:1]:
        _refuse([fault] if (fault := _unreadable(task, given)) else [])
    by_lane: dict[Lane, list[str]] = {}
    for name in tasks:
        by_lane.setdefault(engine.lanes[name], []).append(name)
    return [
        InputRow(number, lane, tuple(names), _texts(engine.model.tasks[names[0]], given))
        for lane, names in by_lane.items()
    ]


def _readers(engine: Engine, given: PredictInput) -> list[str]:
    """The tasks that can read an input."""
    return [name for name in engine.lanes if not _unreadable(engine.model.tasks[name], given)]


def _unreadable(task: Task, given: PredictInput) -> Problem | None:
    if task.texts == 2 and given.pair is None:
        return "pair", f"is missing: task {task.name} reads a pair of texts"
    if isinstance(given.text, list) and not task.labels.reads_words:
        return "text", f"must be a string: task {task.name} does not read words"
    return None


def _texts(task: Task, given: PredictInput) -> tuple[Text, ...]:
    """What a task reads of an input; refuses faults that the schema does not cover."""
    texts: tuple[Text, ...]
    if task.labels.reads_words:
        texts = (as_words(given.text),)
        faults = [words_fault(texts[0])]
    else:
        assert isinstance(given.text, str)
        texts = (given.text, given.pair or "")[: task.texts]
        faults = [text_fault(text, "text") for text in texts]
    _refuse([(("text", "pair")[side], why) for side, why in enumerate(faults) if why])
    return texts


def _task_fault(engine: Engine, task: str) -> str | None:
    if task in engine.lanes:
        return None
    if task in engine.model.tasks:
        return f"task {task} is only for training and makes no predictions"
    return _not_a_task(task, list(engine.lanes))


def _not_a_task(given: str, known: Sequence[str]) -> str:
    hint = did_you_mean(given, known)
    return f"{given[:100]!r} is not a task of this run; tasks are {', '.join(known)}{hint}"


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise Refused(problems)
