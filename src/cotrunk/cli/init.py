"""``cotrunk init``: the presets, and a config to start from."""

import os
import tomllib
from argparse import Namespace
from pathlib import Path

from cotrunk.cli.outputs import refuse_bad_target
from cotrunk.cli.terminal.output import Document, out, say, table
from cotrunk.config import presets
from cotrunk.errors import UserError
from cotrunk.files import write_whole

USUAL = "hybrid-bert"


def init(arguments: Namespace) -> Document:
    if arguments.list:
        known = presets.summaries()
        if not arguments.json:
            listed = table("", ["preset", ""], known.items())
            listed.columns[1].justify = "left"
            out().print(listed, markup=False)
        return {"presets": known}
    path = Path(arguments.output or "run.toml")
    text = (
        _config_of_files(arguments, path) if arguments.files else _config_of_preset(arguments, path)
    )
    if path.exists():
        raise UserError(f"{path}: already exists; choose another name with -o, or remove it first")
    refuse_bad_target(path)
    write_whole(path, text.encode())
    if skipping := _tasks_that_skip(text) if arguments.files else []:
        what = f"rows of {', '.join(skipping)} that cannot be read are skipped"
        say(f"note: {what}; list them: cotrunk data check {path}")
    say(f"wrote {path}; next: cotrunk train {path} --out runs/{path.stem}")
    return {"config": str(path), "preset": None if arguments.files else arguments.preset or USUAL}


def _config_of_preset(arguments: Namespace, path: Path) -> str:
    from cotrunk.build.presets import preset_text  # a list of presets needs no settings

    return preset_text(
        arguments.preset or USUAL,
        data=_relative_to(path.parent, arguments.data),
        weights=_relative_to(path.parent, arguments.weights),
        as_reported=arguments.as_reported,
        base=path.parent,
    )


def _config_of_files(arguments: Namespace, path: Path) -> str:
    from cotrunk.build.guessed import config_of_files

    options = ("preset", "data", "weights", "as_reported")
    given = [name.replace("_", "-") for name in options if getattr(arguments, name)]
    if given:
        raise UserError(f"--{given[0]} and files exclude each other: give a preset, or files")
    return config_of_files([Path(file) for file in arguments.files], path.parent)


def _tasks_that_skip(config: str) -> list[str]:
    tasks = tomllib.loads(config)["tasks"]
    return [name for name, task in tasks.items() if task.get("skip_bad_rows")]


def _relative_to(folder: Path, named: str | None) -> str | None:
    """Paths in a config are relative to the config, paths in a command to the current folder."""
    if named is None or Path(named).is_absolute() or not Path(named).is_dir():
        return named
    return os.path.relpath(named, folder)
