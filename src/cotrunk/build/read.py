"""Read a config file, and report all errors that can be found without data at once."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from cotrunk.config.check import WrongSettings, read_settings
from cotrunk.config.settings import Settings
from cotrunk.errors import UserError, complaints
from cotrunk.kinds import KINDS, Kind

Check = Callable[[Settings], object]
"""Raises a ``UserError`` that lists everything wrong with settings that could be read."""


def read_reporting_all(
    path: Path,
    changes: Sequence[str] = (),
    *,
    unset: Sequence[str] = (),
    kinds: Mapping[str, type[Kind]] = KINDS,
    check: Check,
) -> Settings:
    """The settings of a config file. If some are wrong, ``check`` also checks the others."""
    try:
        return read_settings(path, list(changes), kinds, unset=unset)
    except WrongSettings as error:
        more = [] if error.others is None else complaints(partial(check, error.others))
        said = [line for line in more if not any(_is_about(key, line) for key in error.wrong)]
        raise UserError(*dict.fromkeys([*error.lines, *said])) from None


def _is_about(key: str, line: str) -> bool:
    """Whether a finding names a setting, by its whole key or by its last word alone."""
    last = re.escape(key.rpartition(".")[2])
    return re.search(rf"(?<![\w.])({re.escape(key)}\b|{last}(?![\w.]))", line) is not None
