"""Processes for trials, forked from one that has imported everything already.

Importing torch and the rest takes seconds of CPU; a fork takes none. The fork server imports but
computes nothing, so it has no threads when it forks. It ends when its parent does.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import IO, Self

# Modules are imported from the caller's sys.path; its main script is not run.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
START += "from cotrunk.study.sweep.fork_server import main; main()"


class Forked:
    """A process of the fork server, used like a `subprocess.Popen`."""

    def __init__(self, stdin: IO[bytes], codes: int) -> None:
        self.stdin = stdin
        self.returncode: int | None = None
        self._codes = codes

    def poll(self) -> int | None:
        """The exit code once it has ended."""
        if self.returncode is None and select.select([self._codes], [], [], 0)[0]:
            self._read()
        return self.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(BrokenPipeError):
            self.stdin.close()
        if self.returncode is None:
            self._read()
        os.close(self._codes)

    def _read(self) -> None:
        """Nothing to read means that the fork server was killed."""
        line = os.read(self._codes, 64)
        self.returncode = int(line) if line else -signal.SIGKILL


class ForkServer:
    """Starts processes that run ``worker.py``; may be used from several threads."""

    def __init__(self, threads: int) -> None:
        self.threads, self.lock = threads, threading.Lock()
        self.process, self.socket = self._open()

    def _open(self) -> "tuple[subprocess.Popen[bytes], socket.socket]":
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
            )
        return process, ours

    def close(self) -> None:
        """Ends the fork server, not the processes that it has started."""
        self.socket.close()
        self.process.wait()

    def start(self, log: IO[bytes]) -> Forked:
        """A process with that standard error; it ends soon after its standard input is closed."""
        read, write = os.pipe()
        codes, report = os.pipe()
        with self.lock:
            if self.process.poll() is not None:  # killed
                self.socket.close()
                self.process, self.socket = self._open()
            with suppress(OSError):  # killed just now: there will be no code to read
                socket.send_fds(self.socket, [b"."], [read, log.fileno(), report])
        os.close(read)
        os.close(report)
        return Forked(os.fdopen(write, "wb"), codes)


@cache
def fork_server(threads: int) -> ForkServer:
    """The fork server of this process, for all trials that it watches over."""
    opened = ForkServer(threads)
    atexit.register(opened.close)
    return opened


def main() -> None:
    """The fork server itself: forks when asked, reports exit codes."""
    parent = socket.socket(fileno=int(sys.argv[2]))
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _import_everything()
    gc.freeze()  # a collection in a child would copy all pages
    reports: dict[int, int] = {}
    while True:
        for ready in select.select([parent.fileno(), ended], [], [])[0]:
            if ready != ended:
                data, given, _, _ = socket.recv_fds(parent, 1, 3)
                if not data:
                    return
                stdin, stderr, report = given
                child = os.fork()
                if not child:
                    _run(stdin, stderr)
                os.close(stdin)
                os.close(stderr)
                reports[child] = report
            else:
                os.read(ended, 4096)
                _report(reports)


def _report(reports: dict[int, int]) -> None:
    """Report the exit codes of all children that have ended."""
    while reports:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        report = reports.pop(child)
        with suppress(BrokenPipeError):
            os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(report)


def _run(stdin: int, stderr: int) -> None:
    """In the child: the process of one trial."""
    import traceback

    from cotrunk.study.sweep.worker import main as run_trial

    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(stderr, 2)
        os.closerange(3, 256)  # the pipes of other trials among them
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
        run_trial()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _import_everything() -> None:
    """What a trial will import. If something cannot be imported, the trial says so in its log."""
    with suppress(Exception):
        import scipy.stats  # noqa: F401

        import cotrunk.build.train
        import cotrunk.build.trial
        import cotrunk.learn.run
        import cotrunk.study.sweep.worker  # noqa: F401
