"""Lists that are written into the cells of delimited text."""

import json
import re
from collections.abc import Sequence

PYTHON_LIST = re.compile(r"\s*\[\s*(['\"].*['\"])?\s*\]\s*", re.DOTALL)
"""As Python and pandas write lists of strings: ['joy', 'anger']."""


def json_lists(cells: Sequence[str]) -> list[list[str]] | None:
    """The lists of strings that all cells are as JSON; None if they are not, or all are empty."""
    found = []
    for cell in cells:
        if not cell.lstrip().startswith("["):
            return None
        try:
            parts = json.loads(cell)
        except (ValueError, RecursionError):
            return None
        if not all(isinstance(part, str) for part in parts):
            return None
        found.append(parts)
    return found if any(found) else None
