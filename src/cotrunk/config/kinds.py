"""Checks the config keys that a task's kind defines: the fields of its class."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cotrunk.config.overrides import Keys
from cotrunk.errors import did_you_mean
from cotrunk.kinds import Kind

Kinds = Mapping[str, type[Kind]]
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def make_kind(kind: type[Kind], options: Mapping[str, Any]) -> Kind:
    """A kind from checked options; missing ones keep their defaults."""
    hints = get_type_hints(kind)
    return kind(
        **{
            name: TypeAdapter(hints[name], config=STRICT).validate_python(_tuples(value))
            for name, value in options.items()
            if value is not None
        }
    )


def kind_findings(
    raw: Mapping[str, Any],
    kinds: Kinds,
    *,
    common: Collection[str],
    explain: Callable[[ErrorDetails], str],
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
    explain: Callable[[ErrorDetails], str],
) -> dict[str, str]:
    """Errors by key; each line starts with its key."""
    if entry["kind"] not in kinds:
        word = entry["kind"].lower()
        meant = [name for name, kind in kinds.items() if word in kind.also_called]
        hint = f"; did you mean {meant[0]!r}?" if meant else did_you_mean(word, kinds)
        return {"kind": f"kind = {entry['kind']!r}: must be one of {', '.join(kinds)}{hint}"}
    kind = kinds[entry["kind"]]
    known = [field.name for field in fields(kind)]
    options = {key: value for key, value in entry.items() if key not in common}
    lines = {
        key: f"{key} is not a setting{_hint(key, [*common, *known])}"
        for key in options
        if key not in known
    }
    lines |= _wrong_label(entry, kind)
    wrong = _wrong_values(kind, {k: v for k, v in options.items() if k in known}, explain)
    return lines | wrong


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
    explain: Callable[[ErrorDetails], str],
) -> dict[str, str]:
    hints, lines = get_type_hints(kind), {}
    for key, value in options.items():
        try:
            if value is not None:
                TypeAdapter(hints[key], config=STRICT).validate_python(_tuples(value))
        except ValidationError as error:
            rules = dict.fromkeys(explain(one) for one in error.errors(include_url=False))
            lines[key] = f"{key} = {_shown(value)}: {', or '.join(rules)}"
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
