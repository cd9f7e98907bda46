"""A process that has imported everything and forks a child per command, which starts at once.

Reads one JSON object per line: ``argv``, ``env``, ``cwd``, ``in``, ``out`` and ``err`` (files),
``most`` (bytes of the largest file). Answers with the child's process id, later with its exit code.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from typing import Any

import scipy.stats  # noqa: F401

import cotrunk.cli.evaluate
import cotrunk.cli.info
import cotrunk.cli.predict
import cotrunk.cli.serve
import cotrunk.cli.train
import cotrunk.cli.verify
import cotrunk.serve.app
import cotrunk.serve.server  # noqa: F401
from cotrunk.cli.main import main


def serve() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_command(asked))
        _answer(child)
        _, status = os.waitpid(child, 0)
        _answer(os.waitstatus_to_exitcode(status))


def _command(asked: dict[str, Any]) -> int:
    for number, path in ((0, asked["in"]), (1, asked["out"]), (2, asked["err"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags, 0o600), number)
    sys.stdin = open(0)  # noqa: SIM115
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored if this was started by nohup
    os.environ.update(asked["env"])
    tempfile.tempdir = None  # TMPDIR may be among them
    os.chdir(asked["cwd"])
    if asked["most"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["most"], asked["most"]))
    try:
        code = main(asked["argv"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _answer(number: int) -> None:
    sys.__stdout__.write(f"{number}\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    serve()
