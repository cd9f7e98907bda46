"""Commands as a user calls them: what they say, and what they leave in a folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

TASKS = ["mood", "same", "alike"]


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


def files(folder: Path) -> dict[str, bytes]:
    """Everything that lies there, but for the cache."""
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*"))}
    return {
        name: path.read_bytes() if path.is_file() else b"folder"
        for name, path in found.items()
        if not name.startswith("cache")
    }


def in_new_process(*arguments: object, text: str = "") -> Said:
    command = [sys.executable, "-m", "cotrunk", *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    return Said(done.returncode, done.stdout, done.stderr)
