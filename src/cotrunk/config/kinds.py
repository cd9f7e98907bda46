"""Checks the config keys that a task's kind defines: the fields of its class."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cotrunk.config.overrides import Keys
from cotrunk.errors import did_you_mean
from cotrunk.kinds import Kind

Kinds = Mapping[str, type[Kind]]
Explain = Callable[[Sequence[ErrorDetails]], str]
"""What pydantic found wrong with a value, as one sentence."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def make_kind(kind: type[Kind], options: Mapping[str, Any]) -> Kind:
    """A kind from checked options; missing ones keep their defaults."""
    return kind(
        **{
            name: _checked(kind, name, value)
            for name, value in options.items()
            if value is not None
        }
    )


def _checked(kind: type[Kind], name: str, value: Any) -> Any:
    adapter = _adapter(kind, name)  # type: ignore[arg-type]  # mypy takes the hash of instances
    return adapter.validate_python(_tuples(value))


@cache
def _adapter(kind: Any, name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_hints(kind)[name], config=STRICT)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def kind_findings(
    raw: Mapping[str, Any],
    kinds: Kinds,
    *,
    common: Collection[str],
    explain: Explain,
) -> dict[Keys, str]:
    """Errors in the kinds of raw tasks and in their keys; ``common`` keys are checked elsewhere."""
    tasks = raw.get("tasks")
    found: dict[Keys, str] = {}
    for name, entry in tasks.items() if isinstance(tasks, dict) else ():
        if not isinstance(entry, dict):
            continue
        lines = _wrong_text(entry, kinds)
        if isinstance(entry.get("kind"), str):
            lines |= _findings_of(entry, kinds, common, explain)
        for key in ("text", "label"):  # not missing if they are only misspelt
            if any(line.endswith(f"did you mean {key!r}?") for line in lines.values()):
                lines.pop(key, None)
        for key, line in lines.items():
            found["tasks", str(name), key] = f"tasks.{name}.{line}"
    return found


def _wrong_text(entry: Mapping[str, Any], kinds: Kinds) -> dict[str, str]:
    kind = kinds.get(str(entry.get("kind")))
    if entry.get("text") is not None or (kind and kind.takes_any_text):
        return {}
    fix = 'name the one or two text columns, as in text = ["sentence"]'
    return {"text": f"text is missing: {fix}"}


def wrong_keep(keep: str, tasks: Mapping[str, str], kinds: Kinds) -> list[str]:
    """Errors in ``train.keep``, given the kind of each task."""
    counted = [name for name, kind in tasks.items() if kinds[kind].in_overall]
    # If none of several tasks counts, there is no overall score: a task must be named.
    overall = ["official", "mean", "sum"] if counted or len(tasks) == 1 else []
    known = [*overall, *(counted or tasks)]
    if keep in known:
        return []
    if keep in tasks:
        why = f"kind {tasks[keep]} cannot choose the best checkpoint if there are other kinds"
        return [f"train.keep = {keep!r}: {why}; use one of {', '.join(known)}"]
    hint = did_you_mean(keep, known)
    return [f"train.keep = {keep!r}: must be one of {', '.join(known)}{hint}"]


def _findings_of(
    entry: Mapping[str, Any],
    kinds: Kinds,
    common: Collection[str],
    explain: Explain,
) -> dict[str, str]:
    """Errors by key; each line starts with its key."""
    if entry["kind"] not in kinds:
        word = entry["kind"].lower()
        meant = [name for name, kind in kinds.items() if word in kind.also_called]
        hint = f"; did you mean {meant[0]!r}?" if meant else did_you_mean(word, kinds)
        wrong = {"kind": f"kind = {entry['kind']!r}: must be one of {', '.join(kinds)}{hint}"}
        if not hint:  # perhaps a kind of an extension, with settings of its own
            return wrong
        every = {*common, *(field.name for kind in kinds.values() for field in fields(kind))}
        unknown = [key for key in entry if key not in every]
        return wrong | {key: f"{key} is not a setting{_hint(key, common)}" for key in unknown}
    kind = kinds[entry["kind"]]
    known = [field.name for field in fields(kind)]
    options = {key: value for key, value in entry.items() if key not in common}
    listed = [*common, *(field.name for field in fields(kind) if not field.metadata.get("hidden"))]
    lines = {
        key: _of_another(key, entry["kind"], kinds) or f"{key} is not a setting{_hint(key, listed)}"
        for key in options
        if key not in known
    }
    lines |= _wrong_label(entry, kind)
    wrong = _wrong_values(kind, {k: v for k, v in options.items() if k in known}, explain)
    return lines | wrong


def _of_another(key: str, kind: str, kinds: Kinds) -> str:
    """What to say of a setting that only other kinds have; "" if none has it."""
    having = [name for name, other in kinds.items() if key in [f.name for f in fields(other)]]
    if not having:
        return ""
    *others, last = having
    those = f"{', '.join(others)} and {last} have" if others else f"{last} has"
    return f"{key}: kind {kind} has no {key}; {those}"


def _hint(key: str, known: Collection[str]) -> str:
    return did_you_mean(key, known) or f"; known: {', '.join(known)}"


def _wrong_label(entry: Mapping[str, Any], kind: type[Kind]) -> dict[str, str]:
    if kind.has_labels and entry.get("label") is None:
        return {"label": 'label is missing: name the label column, as in label = "sentiment"'}
    if kind.has_labels:
        return {}
    return {
        key: f"{key}: kind {entry['kind']} has no labels; remove this key"
        for key in ("label", "sparse_labels")
        if entry.get(key) is not None
    }


def _wrong_values(
    kind: type[Kind],
    options: Mapping[str, Any],
    explain: Explain,
) -> dict[str, str]:
    lines = {}
    for key, value in options.items():
        try:
            if value is not None:
                _checked(kind, key, value)
        except ValidationError as error:
            rule = explain(error.errors(include_url=False))
            lines[key] = f"{key} = {_shown(value)}: {rule}"
    if lines:
        return lines
    try:
        make_kind(kind, options)
    except ValueError as error:  # its message starts with the key
        key = re.split(r"\W", str(error), maxsplit=1)[0]
        return {key: str(error)}
    return {}


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, dict) else "a table"
    return text if len(text) <= 60 else text[:57] + "..."


def _tuples(value: Any) -> Any:
    """Lists as tuples, because a kind is frozen."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
