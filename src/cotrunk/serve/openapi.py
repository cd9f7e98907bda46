"""The OpenAPI document of a service: its requests name the tasks of the run and what each reads."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from cotrunk.errors import UserError
from cotrunk.infer.embedding import task_to_embed
from cotrunk.serve.engine import Engine
from cotrunk.serve.input_rows import tasks_with_vectors

Schema = dict[str, Any]
PREDICT, EMBED = "PredictRequest", "EmbedRequest"


def naming_tasks(document: Schema, engine: Engine) -> Schema:
    """The same document, with requests as this run accepts them."""
    made = deepcopy(document)
    schemas = made["components"]["schemas"]
    schemas[PREDICT] = _predict(schemas[PREDICT], schemas["PredictInput"], engine)
    schemas[EMBED] = _embed(schemas[EMBED], engine)
    return made


def _predict(request: Schema, given: Schema, engine: Engine) -> Schema:
    """Any of: no tasks named; tasks of one text; any tasks with pairs; tasks that read words."""
    tasks = [engine.model.tasks[name] for name in engine.lanes]
    words = [task.name for task in tasks if task.labels.reads_words]
    single = [task.name for task in tasks if task.texts == 1]
    every = [task.name for task in tasks]
    has_pairs = len(single) < len(every)
    string, listed = _forms(given)
    one, two = _input(given, string), _input(given, string, pair=True)
    several = _input(given, listed)
    readable = [one] * bool(single) + [two] * has_pairs + [several] * bool(words)
    choices = [_request(request, None, readable)]
    if single:
        choices.append(_request(request, single, [one, two] if has_pairs else [one]))
    if has_pairs:
        choices.append(_request(request, every, [two]))
    if words:
        choices.append(_request(request, words, [one, several]))
    return {"title": request["title"], "anyOf": choices}


def _forms(given: Schema) -> tuple[Schema, Schema]:
    """A text as a string, and as a list of words."""
    text = given["properties"]["text"]
    forms = {form["type"]: form for form in text.get("oneOf") or text["anyOf"]}
    return forms["string"], forms["array"]


def _input(given: Schema, text: Schema, *, pair: bool = False) -> Schema:
    of_text, of_pair = given["properties"]["text"], given["properties"]["pair"]
    wanted = "string" if pair else "null"
    form = next(form for form in of_pair["anyOf"] if form["type"] == wanted)
    properties = {
        "text": {**text, "description": of_text["description"]},
        "pair": {**form, "description": of_pair["description"]},
    }
    return _object(properties, ["text", "pair"] if pair else ["text"])


def _request(request: Schema, tasks: Sequence[str] | None, inputs: Sequence[Schema]) -> Schema:
    limits = {key: request["properties"]["inputs"][key] for key in ("type", "minItems", "maxItems")}
    properties = {"inputs": {**limits, "items": {"anyOf": list(inputs)}}}
    of_tasks = request["properties"]["tasks"]
    if tasks is None:
        return _object({**properties, "tasks": {"type": "null"}}, ["inputs"])
    listed = next(form for form in of_tasks["anyOf"] if form["type"] == "array")
    named = {**listed, "items": {"type": "string", "enum": list(tasks)}}
    return _object(
        {**properties, "tasks": {**named, "description": of_tasks["description"]}},
        ["inputs", "tasks"],
    )


def _embed(request: Schema, engine: Engine) -> Schema:
    model = engine.model.model
    names = tasks_with_vectors(model)
    description = request["properties"]["task"]["description"]
    task = {"type": "string", "enum": names or [""], "description": description}
    try:
        task_to_embed(model, None)
    except UserError:
        return _object({**request["properties"], "task": task}, ["inputs", "task"])
    either = {"anyOf": [task, {"type": "null"}]}
    return _object({**request["properties"], "task": either}, ["inputs"])


def _object(properties: Schema, required: Sequence[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
