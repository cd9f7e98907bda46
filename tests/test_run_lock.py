"""The lock of a run folder: free as soon as its holder is killed, and not before."""

import os
import subprocess
import sys

import pytest

from cotrunk.errors import UserError
from cotrunk.runs.lock import locked

HOLD = """
import sys, time
from pathlib import Path
from cotrunk.runs.lock import locked
memory = bytearray(1 << 30)  # which takes the kernel a while to take back
memory[::4096] = bytes([1]) * len(memory[::4096])
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path):
    command = [sys.executable, "-c", HOLD, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(UserError, match=f"process {holder.pid} on .* is writing"),
            locked(tmp_path),
        ):
            pass
        holder.kill()  # and not waited for
        with locked(tmp_path):
            assert (tmp_path / ".lock").read_text().startswith("process ")


def test_a_pipe_in_place_of_the_lock_is_named(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(UserError, match=r"\.lock: must be a regular file"), locked(tmp_path):
        pass
