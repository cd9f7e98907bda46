"""``--set KEY=VALUE``: changes to a config."""

import tomllib
from collections.abc import Collection
from typing import Any

from cotrunk.errors import UserError

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
        raise UserError(f"--set {change}: write key=value, for example --set train.epochs=2")
    table, there = raw, 0
    for part in path[:-1]:
        there += part in table
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {change}: {part!r} is a value, not a table")
    try:
        table[path[-1]] = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        table[path[-1]] = value.strip()
    return path[: there + 1]


def is_changed(keys: Keys, changed: Collection[Keys]) -> bool:
    return any(keys[: len(change)] == change for change in changed)
