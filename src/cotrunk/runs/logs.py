"""metrics.jsonl and timing.jsonl: one JSON object per line, appended while a run trains."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cotrunk.errors import UserError
from cotrunk.files import read_regular, without_nan
from cotrunk.runs.seal import MAX_LOG_BYTES
from cotrunk.runs.structure import LINES, misfit


def append_line(path: Path, record: Mapping[str, object]) -> None:
    line = json.dumps(without_nan(record), allow_nan=False) + "\n"
    # Not created here: a log that someone deletes during training must be noticed.
    with _naming_log(path), path.open("r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # the run was killed while writing this line
                file.seek(file.truncate(len(whole_lines(path))))
        file.write(line.encode())


@contextmanager
def _naming_log(path: Path) -> Iterator[None]:
    """Adds the file name to errors of write(), which have none, and says why a log is missing."""
    try:
        yield
    except FileNotFoundError as error:
        why = (
            f"{error.strerror}: it or its folder was deleted or moved during training; put it back "
            "and resume the run, or start a new one"
        )
        raise FileNotFoundError(error.errno, why, str(path)) from error
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    records = []
    for number, line in enumerate(whole_lines(path).splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(records[-1], dict):
            raise UserError(f"{path}:{number}: must be a JSON object; restore it from a backup")
        event = records[-1].get("event")
        structure = LINES.get(event) if isinstance(event, str) else None
        if structure and (wrong := misfit(structure, records[-1])):
            raise UserError(f"{path}:{number}: {wrong}; restore it from a backup")
    return records


def whole_lines(path: Path) -> bytes:
    try:
        data = read_regular(path, MAX_LOG_BYTES) if path.exists() else b""
    except OSError as error:
        raise unreadable(path, error) from error
    return data[: data.rfind(b"\n") + 1]


def unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be read: {error.strerror}; restore it from a backup")
