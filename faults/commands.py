"""``cotrunk`` commands in processes of their own, which can be watched and killed."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

LONGEST = 300
"""Seconds after which a command counts as hanging."""


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def is_clean(self) -> bool:
        """Without a traceback."""
        return "Traceback" not in self.err

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Running:
    """A command that was started; ``pid`` is its process."""

    def __init__(self, server: "Commands", pid: int, out: Path, err: Path) -> None:
        self.server, self.pid, self.out, self.err = server, pid, out, err
        self.said: Said | None = None

    def send(self, number: int) -> None:
        if not self.has_ended():
            with suppress(ProcessLookupError):  # it may end just now
                os.kill(self.pid, number)

    def has_ended(self) -> bool:
        return self.said is not None or self.server.has_answer()

    def wait(self) -> Said:
        if self.said is None:
            if not self.server.has_answer(LONGEST):
                os.kill(self.pid, signal.SIGKILL)
            code = self.server.answer()
            self.said = Said(code, _text(self.out), _text(self.err))
        return self.said


class Commands:
    """Starts one command at a time; ``prefix`` goes before the program, ``env`` is its own."""

    def __init__(self, *, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "faults.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            env=environment() | dict(env or {}),
        )
        self.unread = b""

    def start(
        self,
        *argv: object,
        env: Mapping[str, str] | None = None,
        most: int = 0,
        cwd: str | None = None,
        text: str = "",
    ) -> Running:
        """``most``: bytes of the largest file it may write; ``text``: its standard input."""
        read, out, err = (Path(self.folder.name) / name for name in ("in", "out", "err"))
        for left in (out, err):  # by the command before
            left.unlink(missing_ok=True)
        read.write_text(text, encoding="utf-8")
        asked = {
            "argv": [str(argument) for argument in argv],
            "env": dict(env or {}),
            "cwd": cwd or os.getcwd(),
            "in": str(read),
            "out": str(out),
            "err": str(err),
            "most": most,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        return Running(self, self.answer(), out, err)

    def run(
        self,
        *argv: object,
        env: Mapping[str, str] | None = None,
        most: int = 0,
        cwd: str | None = None,
        text: str = "",
    ) -> Said:
        return self.start(*argv, env=env, most=most, cwd=cwd, text=text).wait()

    def answer(self) -> int:
        assert self.process.stdout is not None
        while b"\n" not in self.unread:
            read = os.read(self.process.stdout.fileno(), 4096)
            if not read:
                raise RuntimeError(f"{' '.join(map(str, self.process.args))} has ended")  # type: ignore[arg-type]
            self.unread += read
        line, self.unread = self.unread.split(b"\n", 1)
        return int(line)

    def has_answer(self, seconds: float = 0) -> bool:
        """Whether the command has ended, waiting that long for it."""
        assert self.process.stdout is not None
        return b"\n" in self.unread or bool(
            select.select([self.process.stdout], [], [], seconds)[0]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


def alone(*argv: object, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()) -> Said:
    """A command as a shell starts it."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "cotrunk", *map(str, argv)],
        env=environment() | dict(env or {}),
        capture_output=True,
        check=False,
        timeout=LONGEST,
    )
    return Said(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
