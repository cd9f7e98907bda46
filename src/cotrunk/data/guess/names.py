"""Names of tasks, made from those of columns."""

import re
import unicodedata

from cotrunk.kinds.task import TAKEN

LONGEST = 64
WITHOUT_ACCENT = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"}
)
"""Letters that Unicode does not decompose into a Latin letter and an accent."""


def task_name(column: str) -> str:
    """A task name made from that of a column: only letters, digits, _ and -."""
    letters = unicodedata.normalize("NFKD", column.translate(WITHOUT_ACCENT))
    latin = "".join(letter for letter in letters if not unicodedata.combining(letter))
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", latin).strip("_-") or "task"
    is_valid = plain[0].isalpha() and plain not in TAKEN
    return plain[:LONGEST] if is_valid else f"task_{plain}"[:LONGEST]
