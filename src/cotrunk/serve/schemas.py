"""The JSON of requests and responses; the OpenAPI document is generated from these models."""

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
)

MAX_INPUTS, MAX_CHARACTERS, MAX_WORDS, MAX_TASKS = 256, 20_000, 1_000, 256
MAX_BODY_BYTES = 1 << 20
SOME_TEXT = r"^[^\x00]*[^\s\x00\x1c-\x1f\x85][^\x00]*$"
"""Not only blanks, and no NUL."""

String = Annotated[
    str, StringConstraints(strict=True, max_length=MAX_CHARACTERS, pattern=SOME_TEXT)
]
Words = Annotated[list[String], Field(strict=True, min_length=1, max_length=MAX_WORDS)]
NAMES_OF_FORMS = ("string", "words")


def _form(given: Any) -> str | None:
    if isinstance(given, str):
        return "string"
    return "words" if isinstance(given, list) else None


OneText = Annotated[
    Annotated[String, Tag("string")] | Annotated[Words, Tag("words")],
    Discriminator(
        _form,
        custom_error_type="text_type",
        custom_error_message="must be a string or a list of words",
    ),
]


class Closed(BaseModel):
    """Unknown fields are refused: they are probably misspelt."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PredictInput(Closed):
    text: OneText = Field(
        description="A text; for tasks that read words, a list of words or a string to split."
    )
    pair: String | None = Field(
        default=None, description="The second text, for tasks that read a pair of texts."
    )


class PredictRequest(Closed):
    inputs: list[PredictInput] = Field(min_length=1, max_length=MAX_INPUTS)
    tasks: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_TASKS,
        description="Default: all tasks that can answer an input.",
    )


class TaskAnswer(BaseModel):
    """As in a line of `cotrunk predict`; the fields depend on the kind of the task."""

    model_config = ConfigDict(extra="allow")

    prediction: Any
    probabilities: list[float | None] | None = None


class PredictResponse(BaseModel):
    outputs: list[dict[str, TaskAnswer]]


OnlyString = Annotated[
    OneText,
    WithJsonSchema({"type": "string", "maxLength": MAX_CHARACTERS, "pattern": SOME_TEXT}),
]
"""A list of words is refused after the task is checked: the task may be the fault."""


class EmbedInput(Closed):
    text: OnlyString


class EmbedRequest(Closed):
    inputs: list[EmbedInput] = Field(min_length=1, max_length=MAX_INPUTS)
    task: str | None = Field(
        default=None,
        description="The task whose encoder to use; optional if all tasks share one.",
    )


class EmbedResponse(BaseModel):
    outputs: list[list[float]]


class TaskInfo(BaseModel):
    name: str
    kind: str
    reads: str
    """``text``, ``pair`` or ``words``."""
    outputs: list[str]
    """What the probabilities stand for."""


class TasksResponse(BaseModel):
    run: str
    which: str
    plan: str
    tasks: list[TaskInfo]
    limits: dict[str, int]


class Problem(BaseModel):
    field: str | None = Field(description="As in `inputs[3].text`.")
    message: str


class ErrorResponse(BaseModel):
    detail: list[Problem]


class State(BaseModel):
    status: str
