"""``cotrunk init``: the presets, and a config to start from."""

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.cli.outputs import refuse_bad_target
from cotrunk.cli.terminal.output import Document, out, say, table
from cotrunk.config import presets
from cotrunk.errors import UserError
from cotrunk.files import write_whole

if TYPE_CHECKING:
    from cotrunk.build.guessed import GuessedConfig

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
    if arguments.files:
        config = _config_of_files(arguments, path)
        _write(config.text, path)
        for task, rows in config.skipped.items():
            say(f"note: {task} skips {rows}; list them: cotrunk data check {path}")
    else:
        _write(_config_of_preset(arguments, path), path)
    say(f"wrote {path}; next: cotrunk train {path} --out runs/{path.stem}")
    return {"config": str(path), "preset": None if arguments.files else arguments.preset or USUAL}


def _write(config: str, path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: already exists; choose another name with -o, or remove it first")
    refuse_bad_target(path)
    try:
        write_whole(path, config.encode())
    except OSError as error:
        raise UserError(f"-o {path}: cannot be written: {error.strerror or error}") from None


def _config_of_preset(arguments: Namespace, path: Path) -> str:
    from cotrunk.build.presets import preset_text  # a list of presets needs no settings

    return preset_text(
        arguments.preset or USUAL,
        data=_relative_to(path.parent, arguments.data),
        weights=_relative_to(path.parent, arguments.weights),
        as_reported=arguments.as_reported,
        base=path.parent,
    )


def _config_of_files(arguments: Namespace, path: Path) -> "GuessedConfig":
    from cotrunk.build.guessed import config_of_files

    options = ("preset", "data", "weights", "as_reported")
    given = [name.replace("_", "-") for name in options if getattr(arguments, name)]
    if given:
        raise UserError(f"--{given[0]} and files exclude each other: give a preset, or files")
    return config_of_files([Path(file) for file in arguments.files], path.parent)


def _relative_to(folder: Path, named: str | None) -> str | None:
    """Paths in a config are relative to the config, paths in a command to the current folder."""
    if named is None or Path(named).is_absolute() or not Path(named).is_dir():
        return named
    return os.path.relpath(named, folder)
