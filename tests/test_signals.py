"""Readers that leave, terminals that close, keys pressed too early: the work is not lost by it."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # every test starts a process that imports torch
LONG = ["train.epochs=2000", "train.evaluate=never", "train.checkpoint=never"]


def command(config: Path, run: Path, *changes: str) -> list[str]:
    asked = ["train", str(config), "--out", str(run), "--set", "train.max_steps=8", *changes]
    return [sys.executable, "-m", "cotrunk", *asked]


def is_whole(run: Path) -> bool:
    return (run / "final" / "manifest.json").is_file()


def test_training_goes_on_when_nobody_reads_its_progress_any_more(toy, tmp_path):
    run = tmp_path / "run"
    worker = subprocess.Popen(command(toy, run), stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stderr is not None
    assert worker.stdout is not None
    assert worker.stderr.readline()
    worker.stderr.close()
    worker.stdout.close()
    assert worker.wait(timeout=60) == 0
    assert is_whole(run)


def test_training_needs_no_open_stream(toy, tmp_path):
    run = tmp_path / "run"
    shell = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command(toy, run)]
    assert subprocess.run(shell, capture_output=True).returncode == 0
    assert is_whole(run)


def test_an_error_that_nobody_reads_keeps_its_exit_code(tmp_path):
    arguments = [sys.executable, "-m", "cotrunk", "info", str(tmp_path)]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as deaf:
        assert subprocess.run(arguments, stderr=deaf).returncode == 2


def begun_on_a_terminal(arguments: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """With a terminal for its messages, of which the other end is returned."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as terminal:
        worker = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=terminal)
    return worker, ours


def read_until(word: bytes, source: int) -> None:
    seen = b""
    while word not in seen:
        seen += os.read(source, 4096)


def test_training_goes_on_when_its_terminal_is_gone(toy, tmp_path):
    run = tmp_path / "run"
    worker, terminal = begun_on_a_terminal(command(toy, run))
    read_until(b"run", terminal)
    os.close(terminal)
    assert worker.wait(timeout=60) == 0
    assert is_whole(run)


def test_a_hangup_leaves_a_checkpoint(toy, tmp_path):
    run = tmp_path / "run"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may be under nohup
    worker, terminal = begun_on_a_terminal(command(toy, run, *LONG, "train.max_steps=100000"))
    signal.signal(signal.SIGHUP, before)
    read_until(b"left", terminal)  # the progress bar
    while b'"step"' not in (run / "metrics.jsonl").read_bytes():
        os.read(terminal, 4096)
    os.close(terminal)
    for _ in range(2):  # as when a shell passes it on before it ends itself
        worker.send_signal(signal.SIGHUP)
    assert worker.wait(timeout=60) == 128 + signal.SIGHUP
    assert list((run / "checkpoints").glob("step-*"))


PRESSED = """
import os, signal, sys

class Press:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
from cotrunk.cli.main import main
sys.meta_path.insert(0, Press())
sys.exit(main(["evaluate", "nowhere"]))
"""


@pytest.mark.parametrize("module", ["cotrunk.cli.parser", "cotrunk.cli.evaluate", "torch.nn"])
def test_ctrl_c_while_modules_load_is_one_line(module):
    script = PRESSED.format(module=module)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")
