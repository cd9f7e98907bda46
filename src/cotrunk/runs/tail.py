"""Progress of a run, read from the end of its metrics: cheap enough to poll."""

import json
import os
from pathlib import Path
from typing import Any

from cotrunk.files import open_regular
from cotrunk.runs.structure import LINES, misfit

TAIL_BYTES = 1 << 16


def last_step(metrics: Path) -> int | None:
    """The number of steps done; None if there is no file, or no step near its end."""
    entry = last_entry(metrics, "step")
    return int(entry["step"]) + 1 if entry else None


def last_entry(metrics: Path, event: str) -> dict[str, Any] | None:
    """The last line about an event; a line that is being written does not count."""
    try:
        with open_regular(metrics) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("event") == event:
            return None if misfit(LINES[event], entry) else entry
    return None
