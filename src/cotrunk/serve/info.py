"""The response of ``/tasks``: the tasks of the run, and the limits of the service."""

from cotrunk.kinds.task import Task
from cotrunk.serve.engine import Engine
from cotrunk.serve.schemas import (
    MAX_BODY_BYTES,
    MAX_CHARACTERS,
    MAX_INPUTS,
    MAX_WORDS,
    TaskInfo,
    TasksResponse,
)


def tasks_of(engine: Engine) -> TasksResponse:
    model = engine.model
    return TasksResponse(
        run=model.folder.name,
        which=model.which,
        plan=model.plan,
        tasks=[
            TaskInfo(
                name=name,
                kind=model.kinds[name],
                reads=_input_of(model.tasks[name]),
                outputs=list(model.tasks[name].labels.output_names),
            )
            for name in engine.lanes
        ],
        limits={
            "inputs": MAX_INPUTS,
            "characters": MAX_CHARACTERS,
            "words": MAX_WORDS,
            "body_bytes": MAX_BODY_BYTES,
        },
    )


def _input_of(task: Task) -> str:
    if task.labels.reads_words:
        return "words"
    return "text" if task.texts == 1 else "pair"
