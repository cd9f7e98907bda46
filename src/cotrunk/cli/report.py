"""``cotrunk report``: one page about runs, and its charts for papers."""

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.cli.outputs import refuse_bad_target
from cotrunk.cli.terminal.output import Document, out, say, warn_left_out
from cotrunk.errors import UserError
from cotrunk.study.records import find_runs, read_runs, without_scores

if TYPE_CHECKING:
    from cotrunk.study.report.page import Written


def report(arguments: Namespace) -> Document:
    page = Path(arguments.output)
    svg, png = (Path(folder) if folder else None for folder in (arguments.svg, arguments.png))
    if not page.is_dir() and page.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"-o {page}: a report is an HTML page; write -o {page.with_suffix('.html')}, "
            "or --svg DIR or --png DIR for its charts"
        )
    refuse_bad_target(page)
    for option, folder in (("--svg", svg), ("--png", png)):
        if folder:
            _refuse_bad_folder(option, folder)
    document = write(
        [Path(run) for run in arguments.runs],
        page,
        baseline=Path(arguments.baseline) if arguments.baseline else None,
        title=arguments.title,
        svg=svg,
        png=png,
    )
    if not arguments.json:
        for line in document["verdict"]:
            out().print(line)
    say(f"wrote {page}" + _also(document))
    return document


def write(
    runs: Sequence[Path],
    page: Path,
    *,
    baseline: Path | None = None,
    title: str | None = None,
    svg: Path | None = None,
    png: Path | None = None,
) -> Document:
    """Write the page of some runs; returns what was written."""
    write_report = report_writer()
    comparison = None
    if baseline:
        from cotrunk.study.compare import compare

        comparison = compare(runs, baseline=baseline)
    records, broken = read_runs(find_runs([*runs, *([baseline] if baseline else [])]))
    written = write_report(records, broken, comparison, page, title=title, svg=svg, png=png)
    warn_left_out([*broken, *without_scores(records)])  # if it is all runs, that was an error
    return {
        "report": str(written.page),
        "svg": [str(path) for path in written.svg],
        "png": [str(path) for path in written.png],
        "verdict": list(written.verdict),
        "runs": [str(record.path) for record in records],
        "broken": [{"run": str(run.path), "why": run.why} for run in broken],
    }


def report_writer() -> "Callable[..., Written]":
    """Imported only here: the packages that draw charts are optional, and slow to import."""
    try:
        from cotrunk.study.report.page import write_report
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cotrunk"):
            raise
        fix = 'pip install "cotrunk[report]"'
        raise UserError(f"a report needs the package {error.name}; run: {fix}") from None
    return write_report


def _refuse_bad_folder(option: str, folder: Path) -> None:
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{option} {folder}: {there} is a file; give a folder")
    if not os.access(there, os.W_OK):
        raise UserError(
            f"{option} {folder}: no permission to write to {there}; choose another folder"
        )


def _also(document: Document) -> str:
    counts = [f"{len(document[form])} {form} files" for form in ("svg", "png") if document[form]]
    return f" and {' and '.join(counts)}" if counts else ""
