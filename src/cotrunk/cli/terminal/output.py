"""Tables on standard output, messages on standard error."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cotrunk.cli.terminal.streams import IgnoreBrokenPipe
from cotrunk.errors import printable
from cotrunk.files import without_nan

if TYPE_CHECKING:
    from cotrunk.study.records import Broken

Document = dict[str, Any]
WIDEST = 1000


class Failed(Document):
    """The document of a command that did its work and found something wrong: exit code 1."""


class _Printable(Console):
    """Names and texts from files cannot send commands to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


class _Out(_Printable):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1, but a closed pipe is not an error


def out() -> Console:
    """A console that never truncates tables; the terminal may wrap them.

    Names and texts are printed verbatim: brackets are not markup, colons not emoji.
    """
    return _Out(highlight=False, markup=False, emoji=False, soft_wrap=True, width=WIDEST)


def say(message: str) -> None:
    console = _Printable(file=err(), highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(message)


def err() -> IO[str]:
    """Standard error itself: while a bar is shown, rich replaces ``sys.stderr``."""
    return cast("IO[str]", IgnoreBrokenPipe(getattr(sys.stderr, "rich_proxied_file", sys.stderr)))


def note_unfinished(folder: Path, which: str) -> None:
    """Say that training has not finished, before its network is used."""
    from cotrunk.runs.folder import unfinished  # needs numpy, which most commands do without

    if note := unfinished(folder, which):
        say(f"note: {note}")


def warn_left_out(runs: Iterable["Broken"]) -> None:
    for run in runs:
        say(f"warning: {run.path} is left out: {run.why}")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for at, column in enumerate(columns):
        made.add_column(column, justify="right" if at else "left", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def to_json(document: object) -> str:
    """One JSON document; NaN becomes null, because JSON has no NaN.

    Bytes of a path that are not UTF-8 are escaped, as JSON writes lone surrogates.
    """
    content = without_nan(document)
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(content, indent=2, allow_nan=False)
    return text


def print_json(document: object) -> None:
    print(to_json(document))  # noqa: T201


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
