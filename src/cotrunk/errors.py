"""Errors that a user can fix: one line each, with place, rule, finding and fix."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\udc80-\udc9f]")
"""Control characters except tab and newline, and characters that change the text direction.

The last are bytes of a path that could not be decoded, and that some terminals read as controls.
"""
UNDECODED_BYTES = re.compile("[\udc80-\udcff]+")
UNDECODED = re.compile(r"(?<!\\)((?:\\\\)*)\\udc([89a-f][0-9a-f])")
"""A byte that could not be decoded, as ``repr`` writes it."""


def plural(count: int, thing: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def decapitalized(text: str) -> str:
    """A sentence of another library as the continuation of one of ours."""
    return text[:1].lower() + text[1:]


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The most similar name, if any is similar; compares at most 1000."""
    names = [other[:200] for other in islice(known, 1000)]
    return difflib.get_close_matches(name[:200], names, n=1)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` to append to a message, or ""."""
    near = near_names(name, known)
    return f"; did you mean {near[0]!r}?" if near else ""


def near_config(path: Path) -> str:
    """A hint like ``did_you_mean`` at a TOML file beside a missing one.

    Only stems are compared: the common ending makes all short names similar.
    """
    beside = {other.stem: other.name for other in path.parent.glob("*.toml")}
    near = difflib.get_close_matches(path.stem[:200], beside, n=1, cutoff=0.65)
    return f"; did you mean {beside[near[0]]!r}?" if near else ""


SPELLED = re.compile("\ue000([^\ue000-\ue002]*)\ue001([^\ue000-\ue002]*)\ue002")
"""Two spellings of the same thing in a message, delimited by private-use characters."""


def spelled(*, command: str, python: str) -> str:
    """Part of a message that the command line and Python write differently."""
    return f"\ue000{command}\ue001{python}\ue002"


def option(name: str, value: object = True) -> str:
    """An option in a message: ``--resume`` on the command line, ``resume=True`` in Python."""
    given = "" if value is True else f" {value}"
    return spelled(command=f"--{name}{given}", python=f"{name}={value!r}")


def for_command_line(message: str) -> str:
    return SPELLED.sub(r"\1", message)


def for_python(message: str) -> str:
    return SPELLED.sub(r"\2", message)


class UserError(ValueError):
    """Something the user wrote is wrong: one line per mistake, printed without a traceback.

    As text it names Python arguments; ``lines`` can also be spelled for the command line.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(for_python, lines)))
        self.lines: Sequence[str] = lines


def complaints(make: Callable[[], object]) -> list[str]:
    """The lines of the ``UserError`` that a call raises; empty if it raises none."""
    try:
        make()
    except UserError as error:
        return list(error.lines)
    return []


class Errors:
    """Collects the errors of several places, to report them together."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """A ``UserError`` ends this block and is kept; the code after it still runs."""
        try:
            yield
        except UserError as error:
            self.lines += error.lines

    def refuse(self) -> None:
        """Raise what was gathered, each line once: tasks may share a file and its bad rows.

        If one line is another with advice added, only the shorter one is kept, because the advice
        may not fit all tasks.
        """
        once = list(dict.fromkeys(self.lines))
        kept = [line for line in once if not any(line != o and line.startswith(o) for o in once)]
        if kept:
            raise UserError(*kept)


def printable(text: str) -> str:
    """A text for a terminal: control characters, which could move its cursor, are escaped."""
    # In an ASCII locale every letter beyond ASCII of a path is such bytes.
    decoded = UNDECODED_BYTES.sub(_decoded, for_command_line(text))
    return CONTROLS.sub(_escaped, decoded)


def _decoded(found: re.Match[str]) -> str:
    return found[0].encode(errors="surrogateescape").decode(errors="surrogateescape")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if code >= 0xDC80 else ascii(found[0])[1:-1]


def shown(value: object, longest: int = 60) -> str:
    """A value as one short, printable line."""
    if isinstance(value, str):
        cut = "" if len(value) <= longest else "... (cut)"
        return UNDECODED.sub(r"\1\\x\2", repr(value[:longest])) + cut
    if value is None or isinstance(value, bool | int | float):
        found = "nothing" if value is None else repr(value)
        return found if len(found) <= longest else f"{found[:longest]}... (cut)"
    return f"a value of type {type(value).__name__}"


def why_unreadable(error: Exception) -> str:
    """Why a JSON document is not one that this version has written."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
