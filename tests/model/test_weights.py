"""Files of a model folder: which are read, and which are refused before they can do harm."""

import json
import pickle
import shlex
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from published import EVERYWHERE, complaint, rewrite, same
from safetensors.torch import load_file

from cotrunk.errors import UserError
from cotrunk.files import MOST_HEADER_BYTES, MOST_TENSORS
from cotrunk.model.encoder.shape import NAMED, config_from_shape
from cotrunk.model.weights.files import conversion
from cotrunk.model.weights.pretrained import find, to_hugging_face
from hostile import Bomb, crafted, entry


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32(folder, dtype):
    rewrite(folder, lambda tensors: tensors.update({n: t.to(dtype) for n, t in tensors.items()}))
    found = find(str(folder), base=EVERYWHERE)
    assert {tensor.dtype for tensor in found.tensors.values()} == {torch.float32}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.pkl"])
def test_a_folder_without_safetensors_is_refused_and_never_opened(folder, name):
    sentinel = folder / "exploded"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb(sentinel)))
    said = complaint(folder)
    assert len(said.splitlines()) == 1
    assert f"the format of {name} is not supported" in said
    assert conversion(str(folder), str(folder)) in said
    assert not sentinel.exists()


def test_a_bomb_named_like_safetensors_does_not_go_off(folder):
    sentinel = folder / "exploded"
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb(sentinel)))
    assert "model.safetensors" in complaint(folder)
    assert not sentinel.exists()


@pytest.mark.slow
def test_the_conversion_command_gives_a_folder_that_can_be_read(folder):
    before = load_file(folder / "model.safetensors")
    torch.save(before, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    python, dash_c, code = shlex.split(conversion(str(folder), str(folder)))
    assert (python, dash_c) == ("python", "-c")
    exec(code)  # a process of its own would import transformers for ten seconds
    found = find(str(folder), base=EVERYWHERE)
    same(to_hugging_face(found.tensors, found.shape), before)


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "not a readable"),
        (b"\0" * 7, "not a readable"),
        (struct.pack("<Q", 2**64 - 1), "header of"),
        (struct.pack("<Q", MOST_HEADER_BYTES + 1) + b" " * MOST_HEADER_BYTES, "header of"),
        (struct.pack("<Q", 1000) + b"{}", "not a readable"),
        (crafted(b"[" * 10**6), "not a readable"),
        (crafted(b'{"a":' * 10**5), "not a readable"),
        (
            crafted({"a": entry([2], (0, 8)), "b": entry([2], (4, 12))}, b"\0" * 12),
            "not a readable",
        ),
        (crafted({"a": entry([2**40, 2**40], (0, 8))}, b"\0" * 8), "not a readable"),
        (crafted({"a": entry([3], (0, 8))}, b"\0" * 8), "not a readable"),
        (crafted({"a": entry([2], (0, 8), "F99")}, b"\0" * 8), "not a readable"),
        (crafted({"a": entry([2**48], (0, 2**50))}), "not a readable"),
        (
            crafted(
                {str(n): entry([1], (n, n + 1), "U8") for n in range(MOST_TENSORS + 1)},
                b"\0" * 20_001,
            ),
            "20001 tensors",
        ),
    ],
    ids=range(13),
)
def test_a_crafted_file_is_refused_by_name(folder, content, finding):
    (folder / "model.safetensors").write_bytes(content)
    said = complaint(folder)
    assert str(folder / "model.safetensors") in said
    assert finding in said


@given(data=st.data())
def test_no_damage_to_a_file_is_more_than_a_user_error(data, tmp_path_factory):
    good = crafted({"a": entry([2], (0, 8)), "b": entry([1], (8, 12))}, b"\0" * 12)
    at = data.draw(st.integers(0, len(good) - 1))
    damage = data.draw(st.binary(max_size=4))
    file = tmp_path_factory.mktemp("damaged") / "model.safetensors"
    file.write_bytes(good[:at] + damage + good[at + data.draw(st.integers(0, 4)) :])
    (file.parent / "config.json").write_text(json.dumps(config_from_shape(NAMED["tiny"])))
    with pytest.raises(UserError):
        find(str(file.parent), base=EVERYWHERE)


@pytest.mark.parametrize(
    "shard", ["../secret.safetensors", "/etc/x.safetensors", "a\\b.safetensors", ".."]
)
def test_a_shard_outside_the_folder_is_refused(folder, shard):
    (folder / "model.safetensors").rename(folder.parent / "secret.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    assert "is not the name of a safetensors file" in complaint(folder)


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": []}, {"weight_map": {"a": "gone.safetensors"}}]
)
def test_an_index_that_leads_nowhere_is_refused(folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "index.json" in complaint(folder)


def test_a_tensor_in_two_shards_is_refused(folder):
    first, second = (folder / f"{n}.safetensors" for n in "ab")
    (folder / "model.safetensors").rename(first)
    second.write_bytes(first.read_bytes())
    index = {"weight_map": {"x": first.name, "y": second.name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "is also in another shard" in complaint(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 10**5, b" " * (2**24 + 1)])
def test_a_config_that_is_no_json_object_is_refused_by_name(folder, content):
    (folder / "config.json").write_bytes(content)
    assert complaint(folder).startswith(f"{folder / 'config.json'}: ")


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_missing_file_is_named(folder, file):
    (folder / file).unlink()
    assert file in complaint(folder)
