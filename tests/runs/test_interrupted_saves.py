"""A save that is killed, watched or out of space leaves the old checkpoint or the new one."""

import os
import shutil
import subprocess
import sys

import pytest
from sealed import DOCUMENTS, run

from cotrunk.runs.checkpoint import looks_whole, read_checkpoint, write_checkpoint


def test_a_replacement_killed_between_its_two_renames_loses_nothing(folder):
    folder.rename(folder.with_name("best.old"))
    assert looks_whole(folder)
    assert read_checkpoint(folder).documents == DOCUMENTS
    write_checkpoint(folder, tensors={}, documents={"state": 2})
    assert read_checkpoint(folder).documents == {"state": 2}
    assert os.listdir(folder.parent) == ["best"]


KILL_BEFORE_EACH_FILE_OPERATION = """
import os, signal, sys
from pathlib import Path
import safetensors.torch, torch
from cotrunk.runs.checkpoint import read_checkpoint, write_checkpoint

OPERATIONS = "open os.mkdir os.rename os.remove os.rmdir os.scandir os.listdir".split()
folder = Path(sys.argv[1])

def save(number):
    tensors = {"model": {"weight": torch.full((500,), number)}}
    write_checkpoint(folder, tensors=tensors, documents={"state": number})

def save_until_operation(number):
    left = number
    def count(event, _):
        nonlocal left
        if event in OPERATIONS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    save(number)
    os._exit(0)

number, status = 0, None
while status != 0:
    save(-1)
    child = os.fork()
    if not child:
        save_until_operation(number)
    _, status = os.waitpid(child, 0)
    checkpoint = read_checkpoint(folder)
    assert checkpoint.documents["state"] in (-1, number)
    weight = checkpoint.tensors("model")["weight"]
    assert weight.unique().tolist() == [checkpoint.documents["state"]]
    number += 1
print(number)
"""


@pytest.mark.slow
def test_kill_9_before_any_file_operation_of_a_save_leaves_the_old_or_the_new(tmp_path):
    done = run(KILL_BEFORE_EACH_FILE_OPERATION, tmp_path / "best")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15
    assert os.listdir(tmp_path) == ["best"]


REPLACE_FOREVER = """
import sys
from pathlib import Path
import torch
from cotrunk.runs.checkpoint import write_checkpoint

number = 0
while True:
    tensors = {"model": {"weight": torch.full((500,), number)}}
    write_checkpoint(Path(sys.argv[1]), tensors=tensors, documents={"state": number})
    number += 1
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_reader_never_sees_a_mixture_while_a_training_replaces_the_checkpoint(tmp_path):
    folder = tmp_path / "best"
    with subprocess.Popen(
        [sys.executable, "-c", REPLACE_FOREVER, str(folder)], stdout=subprocess.PIPE
    ) as writer:
        writer.stdout.readline()
        seen = set()
        while len(seen) < 30:
            checkpoint = read_checkpoint(folder)
            number = checkpoint.documents["state"]
            assert checkpoint.tensors("model")["weight"].unique().tolist() == [number]
            seen.add(number)
        writer.kill()


SAVE_MORE_THAN_FITS = """
import resource, sys
from pathlib import Path
import torch
from cotrunk.runs.checkpoint import CheckpointError, write_checkpoint

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
write_checkpoint(folder, tensors={}, documents={"state": 1})
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for tensors, documents in [
    ({"model": {"weight": torch.zeros(10**6)}}, {}),
    ({}, {"state": "x" * 4 * 10**6}),
]:
    try:
        write_checkpoint(folder, tensors=tensors, documents=documents)
    except CheckpointError as error:
        print(error)
print(sorted(path.name for path in folder.parent.iterdir()))
print((folder / "state.json").read_text())
"""


@pytest.mark.slow
def test_a_file_that_may_not_grow_leaves_the_old_checkpoint_and_no_half_one(tmp_path):
    done = run(SAVE_MORE_THAN_FITS, tmp_path / "best", 100_000)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best could not be written: ") == 2
    assert done.stdout.count("File too large") == 2
    assert "['best']\n1\n" in done.stdout
    assert read_checkpoint(tmp_path / "best").documents == {"state": 1}


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_checkpoint_and_says_so(tmp_path):
    command = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1/best" 0'
    mount = ["unshare", "-rm", "sh", "-c", command, "sh", tmp_path, sys.executable]
    if not shutil.which("unshare") or subprocess.run([*mount, ""], capture_output=True).returncode:
        pytest.skip("this system does not let an ordinary user mount a small disk")
    done = subprocess.run([*mount, SAVE_MORE_THAN_FITS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No space left on device") == 2
    assert "['best']\n1\n" in done.stdout
