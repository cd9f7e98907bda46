"""The settings that a run has recorded, by dotted key."""

from collections.abc import Mapping
from typing import Any


def flattened(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """``{"train": {"lr": 1e-4}}`` as ``{"train.lr": 1e-4}``; lists and empty tables are values."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            found |= flattened(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found
