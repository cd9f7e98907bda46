"""The prediction files of the course (CS224N), including their spaces and spelling."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from cotrunk.data.reading.examples import Source
from cotrunk.errors import UserError
from cotrunk.infer.predictor import Answered
from cotrunk.kinds.task import Task

FOLDER = "predictions"
"""The folder of the files inside a submission."""
Sources = Mapping[str, Mapping[str, Sequence[Source]]]
"""The files of a run by split and task."""
HEADER = re.compile(r"id \t (\w+) ")


def refuse_without_role(tasks: Iterable[Task]) -> None:
    """The course has only sentiment of a text, and paraphrase and similarity of a pair."""
    for task in tasks:
        if task.texts not in task.labels.minbert_headers:
            raise UserError(f"--format minbert has no task like {task.name}; use csv or jsonl")


def course_file(task: Task, rows: Iterable[Answered]) -> str:
    lines = [f"id \t {task.labels.minbert_headers[task.texts]} "]
    for answered in rows:
        if task.name in answered.answers:
            value = task.labels.minbert_value(answered.answers[task.name], task.texts)
            lines.append(f"{answered.id} , {value} ")
    return "\n".join(lines) + "\n"


def course_name(task: str, file: str, sources: Sources) -> str:
    """``sst-dev-output.csv``: the split of the file that was predicted.

    The split is that of the config, or a word in the file's name; without either, the whole name
    takes its place.
    """
    stem = "stdin" if file == "-" else re.sub(r"\..*", "", Path(file).name)
    words = re.split(r"[^a-z0-9]+", stem.lower())
    named = (split for split in sources if split in words)
    read = (split for split in sources if _is_read(Path(file), sources[split].get(task, ())))
    return f"{task}-{next(chain(read, named), stem)}-output.csv"


def _is_read(file: Path, sources: Sequence[Source]) -> bool:
    return file.is_file() and any(
        source.path.is_file() and source.path.samefile(file) for source in sources
    )


def refuse_to_replace(old: str, new: str, *, place: str) -> None:
    """A course file is only replaced by answers to the same rows of the same task."""
    match = HEADER.match(old)
    if match is None:  # not a course file
        return
    if old.partition("\n")[0] != new.partition("\n")[0]:
        raise UserError(
            f"{place}: has the predictions of another task ({match[1]}); choose another"
        )
    if _ids(old) != _ids(new):
        raise UserError(f"{place}: has predictions for other rows; choose another, or delete it")


def _ids(text: str) -> set[str]:
    return {line.rpartition(" , ")[0] for line in text.splitlines()[1:]}
