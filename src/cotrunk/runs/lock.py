"""The lock of a run folder: only one process may write to it."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from cotrunk.errors import UserError

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock; the kernel releases it even if the holder crashes."""
    file = _acquired(folder)
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):  # where it cannot be removed, it does no harm
                (folder / NAME).unlink(missing_ok=True)


def refuse_locked(folder: Path) -> None:
    """Fails if another process is writing to the run; writes nothing if there is no lock."""
    if (folder / NAME).exists():
        with locked(folder):
            pass


def _acquired(folder: Path) -> TextIO:
    path = folder / NAME
    while True:
        try:
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{folder}: cannot write to it: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:  # its last holder has just removed it
            pass
        except BlockingIOError:
            file.seek(0)
            holder = file.read() or "another process"
            file.close()
            raise UserError(
                f"{folder} is locked: {holder} is writing to it; "
                "wait until it is done, or give another folder"
            ) from None
        file.close()
