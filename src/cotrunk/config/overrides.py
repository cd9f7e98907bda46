"""``--set KEY=VALUE`` and ``--unset KEY``: changes to a config."""

import tomllib
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any

from cotrunk.errors import UserError, spelled
from cotrunk.numbers import exact_float

Keys = tuple[str, ...]


def apply_changes(raw: dict[str, Any], changes: list[str]) -> set[Keys]:
    """Change ``raw`` in place; returns the keys that were changed."""
    changed: set[Keys] = set()
    for change in changes:
        changed.add(_apply(raw, change))
    return changed


def _apply(raw: dict[str, Any], change: str) -> Keys:
    """Set ``train.epochs=2`` in a nested table; a value that is not TOML is a string.

    Returns the keys of the value, or of the first table that had to be created for it.
    """
    key, sign, value = change.partition("=")
    path = tuple(key.strip().split("."))
    if not sign or not all(path):
        raise UserError(f"{_set(change)}: write key=value, for example {_set('train.epochs=2')}")
    try:
        read = tomllib.loads(f"value = {value.strip()}", parse_float=exact_float)["value"]
    except tomllib.TOMLDecodeError:
        read = value.strip()
    except ValueError as error:
        raise UserError(f"{_set(change)}: {error}; write 0 or a larger number") from None
    try:
        return set_value(raw, path, read)
    except UserError as error:
        raise UserError(f"{_set(change)}: {error}") from None


def _set(change: str) -> str:
    return spelled(command=f"--set {change}", python=f"overrides=[{change!r}]")


def set_value(raw: dict[str, Any], path: Keys, value: Any) -> Keys:
    """Set a value in a nested table; returns its keys, or those of the first new table."""
    table, there = raw, 0
    for part in path[:-1]:
        there += part in table
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UserError(f"{part!r} is a value, not a table")
    table[path[-1]] = value
    return path[: there + 1]


def remove_keys(raw: dict[str, Any], keys: Sequence[str], *, said: str = "--unset") -> None:
    """Remove tables or values from ``raw`` in place; all must exist."""
    missing = [f"{said} {line}" for key in keys if (line := _remove(raw, key))]
    if missing:
        raise UserError(*missing)


def _remove(raw: dict[str, Any], key: str) -> str | None:
    """An error line if there is no such key."""
    table: Any = raw
    *above, last = key.strip().split(".")
    for part in above:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        if not isinstance(table, dict):
            table, above = raw, []
        known = {name: ".".join((*above, name)) for name in table}
        near = get_close_matches(last, known, n=1)
        inside = ", ".join(known.values()) or "nothing"
        hint = f"did you mean {known[near[0]]!r}?" if near else f"it sets {inside}"
        return f"{key}: the config does not set it; {hint}"
    del table[last]
    return None


def is_changed(keys: Keys, changed: Collection[Keys]) -> bool:
    return any(keys[: len(change)] == change for change in changed)
