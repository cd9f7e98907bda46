"""``cotrunk export``: a run's tasks in the format of another library."""

import os
from argparse import Namespace
from pathlib import Path

from cotrunk.cli.outputs import refuse_inside_run
from cotrunk.cli.terminal.output import Document, out, say, table
from cotrunk.cli.terminal.signals import terminable
from cotrunk.cli.trained import answering_tasks, load_run
from cotrunk.errors import UserError
from cotrunk.export.export import Exported, Request, export
from cotrunk.export.peers import refuse_missing


def export_run(arguments: Namespace) -> Document:
    folder = Path(arguments.output)
    if arguments.int8 and arguments.to != "onnx":
        raise UserError(f"--int8: --to {arguments.to} has no 8-bit weights; use --to onnx")
    if arguments.keep_lora and arguments.to != "transformers":
        raise UserError(f"--keep-lora: --to {arguments.to} merges adapters; use --to transformers")
    _refuse_bad_folder(folder)
    refuse_missing(arguments.to, *(["peft"] if arguments.keep_lora else []))
    model = load_run(Path(arguments.folder), arguments, device="cpu")
    request = Request(
        run=Path(arguments.folder),
        which=arguments.which,
        to=arguments.to,
        tasks=answering_tasks(arguments, model),
        folder=folder,
        int8=arguments.int8,
        keep_lora=arguments.keep_lora,
    )
    with terminable():
        found = export(model, request)
    if not arguments.json:
        _show(found)
    say(f"wrote {folder}")
    return {"to": request.to, "folder": str(folder), "tasks": {e.task: _entry(e) for e in found}}


def _refuse_bad_folder(folder: Path) -> None:
    refuse_inside_run(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"-o {folder}: is a file; give a new folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"-o {folder}: is not empty; give a new folder, or delete it first")
    there = next(place for place in folder.resolve().parents if place.exists())
    if not there.is_dir():
        raise UserError(f"-o {folder}: {there} is a file; choose another folder")
    if not os.access(there, os.W_OK):
        raise UserError(f"-o {folder}: no permission to write to {there}; choose another folder")


def _entry(exported: Exported) -> Document:
    entry: Document = {
        "folder": str(exported.folder),
        "opens_with": exported.opens_with,
        "checked_on": exported.rows,
        "difference": exported.difference,
    }
    return entry if exported.changed is None else entry | {"int8_changed": exported.changed}


def _show(found: list[Exported]) -> None:
    rows = [
        [one.task, one.opens_with, one.rows, f"{one.difference:.1e}", *_int8(one)] for one in found
    ]
    more = ["int8 changed"] if found[0].changed is not None else []
    columns = ["task", "opens with", "checked on", "largest difference", *more]
    out().print(table("", columns, rows))


def _int8(one: Exported) -> list[str]:
    return [] if one.changed is None else [f"{one.changed:.4g}"]
