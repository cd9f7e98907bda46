import contextlib
import hashlib
import json
import os
import pickle
import random
import shutil
import subprocess
import sys

import pytest
import torch

from cotrunk.runs.checkpoint import (
    CheckpointDamaged,
    CheckpointError,
    delete_checkpoint,
    looks_whole,
    read_checkpoint,
    to_json,
    write_checkpoint,
)

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]


def tensors():
    torch.manual_seed(0)
    return {
        "model": {
            "weight": torch.randn(7, 5),
            "half": torch.randn(9).to(torch.bfloat16),
            "double": torch.tensor([-0.0, float("inf"), 5e-324], dtype=torch.float64),
            "odd": torch.tensor([0x7FC01234, -1], dtype=torch.int32).view(torch.float32),
            "frozen": torch.tensor([True, False, True]),
            "empty": torch.empty(0, 3),
            "parameter": torch.nn.Parameter(torch.ones(2)),
        },
        "optimizer": {
            "step": torch.tensor(2**53 + 1),
            "random": torch.randint(0, 256, (40,), dtype=torch.uint8),
        },
    }


DOCUMENTS = {"state": {"step": 3, "rate": 0.1 + 0.2, "name": "naïve\u2028", "best": None}}


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(tmp_path / "best", tensors=tensors(), documents=DOCUMENTS)
    return tmp_path / "best"


def reseal(folder):
    """What an attacker does: a manifest that fits whatever the files hold."""
    files = {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    (folder / "manifest.json").write_bytes(to_json({"format": 1, "files": files}))


def refusal(folder):
    with pytest.raises(CheckpointDamaged) as caught:
        read_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{folder} is damaged: ")
    return caught.value


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True
    )


def raw(tensor):
    return tensor.dtype, tensor.shape, tensor.detach().reshape(-1).view(torch.uint8).tolist()


def test_tensors_and_documents_come_back_bit_for_bit(folder):
    checkpoint = read_checkpoint(folder)
    assert checkpoint.documents == DOCUMENTS
    for name, named in tensors().items():
        loaded = checkpoint.tensors(name)
        assert {key: raw(tensor) for key, tensor in loaded.items()} == {
            key: raw(tensor) for key, tensor in named.items()
        }


def test_nothing_at_all_can_be_a_checkpoint_too(tmp_path):
    write_checkpoint(tmp_path / "none", tensors={}, documents={})
    write_checkpoint(tmp_path / "hollow", tensors={"model": {}}, documents={"state": {}})
    assert read_checkpoint(tmp_path / "none").documents == {}
    assert read_checkpoint(tmp_path / "hollow").tensors("model") == {}


def test_equal_tensors_give_equal_bytes_in_any_order(folder, tmp_path):
    turned = {name: dict(reversed(named.items())) for name, named in tensors().items()}
    write_checkpoint(tmp_path / "b", tensors=dict(reversed(turned.items())), documents=DOCUMENTS)
    assert sorted(os.listdir(folder)) == FILES
    for file in FILES:
        assert (folder / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_documents_keep_the_order_of_their_keys(tmp_path):
    write_checkpoint(tmp_path / "c", tensors={}, documents={"d": {"b": 1, "a": {"d": 2, "c": 3}}})
    found = read_checkpoint(tmp_path / "c").documents["d"]
    assert (list(found), list(found["a"])) == (["b", "a"], ["d", "c"])


def test_files_are_as_readable_as_the_folder(folder):
    for file in FILES:
        assert (folder / file).stat().st_mode & 0o777 == folder.stat().st_mode & 0o666


def test_an_existing_checkpoint_is_replaced_and_nothing_is_left_beside_it(folder):
    leftover = folder.with_name("best.tmp")
    leftover.mkdir()
    (leftover / "stray").write_text("from a killed save")
    write_checkpoint(folder, tensors={}, documents={"state": 2})
    assert read_checkpoint(folder).documents == {"state": 2}
    assert os.listdir(folder.parent) == ["best"]


def test_a_nan_in_a_document_is_refused_before_anything_is_touched(folder):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_checkpoint(folder, tensors={}, documents={"state": {"loss": float("nan")}})
    assert read_checkpoint(folder).documents == DOCUMENTS


def test_a_document_cannot_take_the_place_of_the_manifest(tmp_path):
    with pytest.raises(ValueError, match="'manifest'"):
        write_checkpoint(tmp_path / "a", tensors={}, documents={"manifest": 1})


def test_tensors_that_safetensors_cannot_hold_leave_nothing_behind(tmp_path):
    shared = torch.ones(3)
    with pytest.raises(RuntimeError, match="share memory"):
        write_checkpoint(tmp_path / "a", tensors={"m": {"a": shared, "b": shared}}, documents={})
    assert os.listdir(tmp_path) == []


def test_a_missing_part_is_asked_for_by_name(folder):
    with pytest.raises(CheckpointError, match=r"best has no ema\.safetensors"):
        read_checkpoint(folder).tensors("ema")


def test_a_checkpoint_that_was_never_written_is_not_called_damaged(tmp_path):
    with pytest.raises(CheckpointError, match="best is not there") as caught:
        read_checkpoint(tmp_path / "best")
    assert not isinstance(caught.value, CheckpointDamaged)


@pytest.mark.parametrize("percent", [0, 1, 50, 99])
@pytest.mark.parametrize("file", FILES)
def test_a_truncated_file_is_refused_by_name(folder, file, percent):
    size = (folder / file).stat().st_size
    os.truncate(folder / file, size * percent // 100)
    damage = refusal(folder)
    assert damage.file == folder / file
    assert not looks_whole(folder)
    if file != "manifest.json":
        assert (damage.expected, damage.actual) == (
            f"{size} bytes",
            f"{size * percent // 100} bytes",
        )


@pytest.mark.parametrize("file", FILES)
def test_a_deleted_file_is_refused_by_name(folder, file):
    (folder / file).unlink()
    assert refusal(folder).file == folder / file
    assert not looks_whole(folder)


def test_each_of_200_random_bit_flips_is_found(folder):
    chance = random.Random(8)
    places = [(file, at) for file in FILES for at in range((folder / file).stat().st_size)]
    for file, at in chance.choices(places, k=200):
        good = (folder / file).read_bytes()
        bad = bytearray(good)
        bad[at] ^= 1 << chance.randrange(8)
        (folder / file).write_bytes(bad)
        refusal(folder)
        (folder / file).write_bytes(good)
    read_checkpoint(folder)


def test_a_changed_byte_is_reported_with_both_sums(folder):
    file = folder / "model.safetensors"
    was = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes()[:-1] + b"\x55")
    now = hashlib.sha256(file.read_bytes()).hexdigest()
    assert str(refusal(folder)).endswith(f"expected SHA-256 {was[:12]}.., found {now[:12]}..")
    assert looks_whole(folder)


def test_a_file_that_the_manifest_does_not_name_is_refused(folder):
    (folder / "extra\n.bin").write_bytes(b"12345")
    damage = refusal(folder)
    assert (damage.expected, damage.actual) == ("no such file", "5 bytes")


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/passwd", path)]
)
def test_only_plain_files_are_opened(folder, make):
    (folder / "state.json").unlink()
    make(folder / "state.json")
    assert refusal(folder).expected == "a plain file"


@pytest.mark.parametrize("size", [9, None])
def test_a_manifest_cannot_point_outside_the_folder(folder, size):
    (folder.parent / "secret.json").write_text('"secret"\n')
    (folder / "manifest.json").unlink()
    for path in folder.iterdir():
        path.unlink()
    entry = {"sha256": hashlib.sha256(b'"secret"\n').hexdigest(), "bytes": size}
    manifest = {"format": 1, "files": {"../secret.json": entry}}
    (folder / "manifest.json").write_bytes(to_json(manifest))
    assert refusal(folder).actual == "no such file"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "7",
        '{"format": 2, "files": {}}',
        '{"files": {}}',
        '{"format": 1}',
        "[" * 10**5,
    ]
    + [f'{{"format": 1, "files": {value}}}' for value in ("[]", '{"a": 1}', '{"a": []}', "NaN")],
)
def test_a_manifest_of_any_other_form_is_refused(folder, text):
    (folder / "manifest.json").write_text(text)
    assert refusal(folder).file == folder / "manifest.json"


class Bomb:
    def __init__(self, sentinel):
        self.sentinel = sentinel

    def __reduce__(self):
        return os.mkdir, (str(self.sentinel),)


EXTRA = ["model.pt", "rng.pth", "pytorch_model.bin", "state.pkl", "array.npy", ".metadata"]


@pytest.mark.parametrize("file", FILES + EXTRA)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_pickle_under_any_name_is_refused_and_never_run(folder, tmp_path, file, sealed):
    (folder / file).write_bytes(pickle.dumps(Bomb(tmp_path / "sentinel")))
    if sealed and file != "manifest.json":
        reseal(folder)
    refusal(folder)
    assert not (tmp_path / "sentinel").exists()


def crafted(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        crafted(b"{" + b" " * 5 * 2**20 + b"}"),
        crafted({str(i): entry(shape=(0,), offsets=(0, 0)) for i in range(20_001)}),
        crafted([]),
        crafted(b"[" * 10**5),
        crafted({"a": entry(), "b": entry()}, b"1234"),
        crafted({"a": entry(offsets=(0, 8))}, b"12345678"),
        crafted({"a": entry(offsets=(4, 0))}, b"1234"),
        crafted({"a": entry(offsets=(0, 2**62))}, b"1234"),
        crafted({"a": entry(shape=(2**32, 2**32))}, b"1234"),
        crafted({"a": entry(dtype="OBJECT")}, b"1234"),
        crafted({"a": entry(dtype="F8_E8M0", shape=(4,))}, b"1234"),
        crafted({"a": entry()}, b"12345"),
        crafted({"a": entry()}),
    ],
    ids=range(16),
)
def test_crafted_safetensors_are_refused_even_under_a_fitting_manifest(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    reseal(folder)
    assert refusal(folder).file == folder / "model.safetensors"


def test_mutated_safetensors_load_or_are_refused_but_never_crash(folder):
    chance = random.Random(3)
    file = folder / "model.safetensors"
    good = file.read_bytes()
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(8 + good[8:].index(b"}}"))] = chance.randrange(256)
        file.write_bytes(bad)
        reseal(folder)
        with contextlib.suppress(CheckpointDamaged):
            read_checkpoint(folder)


def test_a_replacement_killed_between_its_two_renames_loses_nothing(folder):
    folder.rename(folder.with_name("best.old"))
    assert looks_whole(folder)
    assert read_checkpoint(folder).documents == DOCUMENTS
    write_checkpoint(folder, tensors={}, documents={"state": 2})
    assert read_checkpoint(folder).documents == {"state": 2}
    assert os.listdir(folder.parent) == ["best"]


def test_a_deleted_checkpoint_leaves_nothing(folder):
    shutil.copytree(folder, folder.with_name("best.old"))
    delete_checkpoint(folder)
    assert os.listdir(folder.parent) == []


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


def test_a_file_that_may_not_grow_leaves_the_old_checkpoint_and_no_half_one(tmp_path):
    done = run(SAVE_MORE_THAN_FITS, tmp_path / "best", 100_000)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best could not be written: ") == 2
    assert done.stdout.count("File too large") == 2
    assert "['best']\n1\n" in done.stdout
    assert read_checkpoint(tmp_path / "best").documents == {"state": 1}


def test_a_full_disk_leaves_the_old_checkpoint_and_says_so(tmp_path):
    command = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1/best" 0'
    mount = ["unshare", "-rm", "sh", "-c", command, "sh", tmp_path, sys.executable]
    if not shutil.which("unshare") or subprocess.run([*mount, ""], capture_output=True).returncode:
        pytest.skip("this system does not let an ordinary user mount a small disk")
    done = subprocess.run([*mount, SAVE_MORE_THAN_FITS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No space left on device") == 2
    assert "['best']\n1\n" in done.stdout


def test_saving_into_a_folder_that_was_deleted_is_a_clean_error(tmp_path):
    with pytest.raises(CheckpointError, match="No such file or directory"):
        write_checkpoint(tmp_path / "gone" / "best", tensors={}, documents={})


def test_reading_a_run_does_not_import_torch():
    done = run("import sys, cotrunk.runs.folder; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr
