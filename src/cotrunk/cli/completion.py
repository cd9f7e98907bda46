"""``cotrunk completion``: a script that completes commands, options and files in a shell."""

import argparse
from argparse import Namespace
from collections.abc import Iterator

import shtab

from cotrunk.cli.parser import parser
from cotrunk.cli.terminal.output import Document
from cotrunk.config import presets

FILES = {"CONFIG", "FILE", "OUT", "RUN_OR_FILE", "SWEEP.toml"}
FOLDERS = {"DIR", "R", "RUN", "RUN_OR_DIR"}
SAVED = ("best", "final")


def completion(arguments: Namespace) -> Document:
    script = shtab.complete(_completed(parser()), arguments.shell)
    if not arguments.json:
        print(script)  # noqa: T201
    return {"shell": arguments.shell, "script": script}


def _completed(top: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser, annotated with what a shell can complete; it is not used to parse."""
    for action in _actions(top):
        if action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in FOLDERS or action.dest == "out":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.dest == "which":
            action.choices = SAVED
        elif action.dest == "preset":
            action.choices = list(presets.summaries())
    return top


def _actions(found: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of its commands."""
    for action in found._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
