"""Whatever happened to its files, a damaged checkpoint is refused by name."""

import hashlib
import os
import random

import pytest
from sealed import FILES, refusal

from cotrunk.runs.checkpoint import looks_whole, read_checkpoint


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
