"""``cotrunk`` commands in this process: thousands of them in minutes."""

import io
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from cotrunk.cli.main import main

DONE, FAILED, WRONG = 0, 1, 2


class Said(NamedTuple):
    """``trace`` is the traceback of an error that the command did not handle, else empty."""

    code: int
    out: str
    err: str
    trace: str

    @property
    def is_clean(self) -> bool:
        """It ended with a code, and whatever went wrong is told in whole lines."""
        lines = self.err.splitlines()
        told = self.code == DONE or any(line.startswith("error: ") for line in lines)
        return not self.trace and told and all(line.isprintable() for line in lines)


def call(*argv: object) -> Said:
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in argv])
    except KeyboardInterrupt:
        raise
    except BaseException:  # also the panics of Rust libraries
        return Said(-1, out.getvalue(), err.getvalue(), traceback.format_exc())
    return Said(code, out.getvalue(), err.getvalue(), "")
