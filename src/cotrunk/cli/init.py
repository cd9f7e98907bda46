"""``cotrunk init``: the presets, and a config to start from."""

import os
from argparse import Namespace
from pathlib import Path

from cotrunk.cli.outputs import refuse_bad_target
from cotrunk.cli.terminal.output import Document, out, say, table
from cotrunk.config import presets
from cotrunk.errors import UserError
from cotrunk.files import write_whole


def init(arguments: Namespace) -> Document:
    if arguments.list:
        known = presets.summaries()
        if not arguments.json:
            listed = table("", ["preset", ""], known.items())
            listed.columns[1].justify = "left"
            out().print(listed, markup=False)
        return {"presets": known}
    path = Path(arguments.output or "run.toml")
    text = presets.text(arguments.preset, data=_seen_from(path.parent, arguments.data))
    if path.exists():
        raise UserError(f"{path}: already exists; choose another name with -o, or remove it first")
    refuse_bad_target(path)
    write_whole(path, text.encode())
    say(f"wrote {path}; next: cotrunk train {path} --out runs/{path.stem}")
    return {"config": str(path), "preset": arguments.preset}


def _seen_from(folder: Path, data: str | None) -> str | None:
    """Paths in a config are relative to the config, paths in a command to the current folder."""
    if data is None or Path(data).is_absolute() or not Path(data).is_dir():
        return data
    return os.path.relpath(data, folder)
