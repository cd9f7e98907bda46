"""The lock of a run folder: only one process may write to it."""

import fcntl
import os
import re
import signal
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from cotrunk.errors import UserError
from cotrunk.files import read_regular

NAME = ".lock"
MOST_BYTES = 4096
SECONDS_TO_END = 5.0
"""How long a killed process may take to return its memory; its files are closed after that."""


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


def holder_of(folder: Path) -> str:
    """Who holds the lock, as it wrote; ``OSError`` if there is no lock."""
    return read_regular(folder / NAME, MOST_BYTES).decode(errors="replace")


def _opened(path: Path) -> TextIO:
    try:  # without waiting for the other end of a pipe
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise UserError(f"{path.parent}: cannot write to it: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise UserError(f"{path}: must be a regular file, and is not; delete it")
    return os.fdopen(opened, "a+", encoding="utf-8", errors="replace")


def _is_ending(holder: str) -> bool:
    """Whether the holder has been killed, but still has its files open."""
    found = re.fullmatch(r"process (\d+) on (.*)", holder)
    if not found or found[2] != socket.gethostname() or not Path("/proc/self").exists():
        return False
    try:
        status = Path(f"/proc/{found[1]}/status").read_text(encoding="utf-8")
    except OSError:
        return True
    pending = [int(mask, 16) for mask in re.findall(r"^S[ih][gd]Pnd:\s*(\w+)", status, re.M)]
    is_killed = any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)
    return is_killed or "VmSize:" not in status  # it has no memory any more


def _acquired(folder: Path) -> TextIO:
    path = folder / NAME
    until = time.monotonic() + SECONDS_TO_END
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:  # its last holder has just removed it
            pass
        except BlockingIOError:
            file.seek(0)
            holder = file.read(MOST_BYTES) or "another process"
            file.close()
            if _is_ending(holder) and time.monotonic() < until:
                time.sleep(0.01)
                continue
            raise UserError(
                f"{folder} is locked: {holder} is writing to it; "
                "wait until it is done, or give another folder"
            ) from None
        file.close()
