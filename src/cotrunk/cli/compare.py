"""``cotrunk compare``: runs side by side."""

from argparse import Namespace
from pathlib import Path

from cotrunk.cli.outputs import refuse_bad_target
from cotrunk.cli.terminal.output import Document, out, say, table, to_json, warn_left_out
from cotrunk.errors import UserError
from cotrunk.files import write_whole
from cotrunk.study.compare import compare as compare_runs
from cotrunk.study.comparison import Comparison
from cotrunk.study.tables import (
    TRANSFER_COLUMNS,
    table_of,
    to_csv,
    to_latex,
    to_markdown,
    transfer_rows,
)

ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json"}
WRITERS = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}


def compare(arguments: Namespace) -> Document:
    form = _format(arguments)
    compared = compare_runs(
        [Path(run) for run in arguments.runs],
        baseline=Path(arguments.baseline) if arguments.baseline else None,
        margin=arguments.margin,
    )
    warn_left_out(compared.broken)
    for warning in compared.warnings:
        say(f"warning: {warning}")
    if arguments.output:
        text = _text(compared, form)
        write_whole(Path(arguments.output), text.encode())
        say(f"wrote {arguments.output}")
    elif form in WRITERS:
        out().print(_text(compared, form), end="")
    elif form == "table":
        show(compared)
    return compared.to_json()


def show(compared: Comparison) -> None:
    """The table on standard output, its columns about cost below those about scores.

    Without differences, the notes that say why come first.
    """
    found = table_of(compared)
    first = () if compared.has_differences else compared.notes
    for note in first:
        out().print(note)
    made = table("", found.columns[: found.cost], [row[: found.cost] for row in found.rows])
    made.columns[1].justify = "left"
    costs = [[row[0], *row[found.cost :]] for row in found.rows if row[0]]
    out().print(made)
    out().print()
    out().print(table("", ["run", *found.columns[found.cost :]], costs))
    out().print()
    if transfer := transfer_rows(compared):
        out().print(table("", TRANSFER_COLUMNS, transfer))
        out().print()
    for note in found.notes:
        if note not in first:
            out().print(note)


def _text(compared: Comparison, form: str) -> str:
    if form == "json":
        return to_json(compared.to_json()) + "\n"
    return WRITERS[form](compared)


def _format(arguments: Namespace) -> str:
    """``--format``, else by the ending of the output file."""
    if arguments.json and arguments.format:
        raise UserError(f"--json and --format {arguments.format} exclude each other; give one")
    if not arguments.output:
        return arguments.format or ("json" if arguments.json else "table")
    path = Path(arguments.output)
    refuse_bad_target(path)
    form = arguments.format or ENDINGS.get(path.suffix)
    if form is None:
        endings = ", ".join(ENDINGS)
        raise UserError(f"-o {path}: the name must end in one of {endings}; or give --format")
    return str(form)
