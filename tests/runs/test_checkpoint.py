"""A checkpoint: what is written comes back, and what cannot be written is refused."""

import os
import shutil

import pytest
import torch
from sealed import DOCUMENTS, FILES, run, tensors

from cotrunk.runs.checkpoint import (
    CheckpointDamaged,
    CheckpointError,
    delete_checkpoint,
    read_checkpoint,
    write_checkpoint,
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
    with pytest.raises(CheckpointError, match="best: there is no such checkpoint") as caught:
        read_checkpoint(tmp_path / "best")
    assert not isinstance(caught.value, CheckpointDamaged)


def test_a_deleted_checkpoint_leaves_nothing(folder):
    shutil.copytree(folder, folder.with_name("best.old"))
    delete_checkpoint(folder)
    assert os.listdir(folder.parent) == []


def test_saving_into_a_folder_that_was_deleted_is_a_clean_error(tmp_path):
    with pytest.raises(CheckpointError, match="No such file or directory"):
        write_checkpoint(tmp_path / "gone" / "best", tensors={}, documents={})


def test_reading_a_run_does_not_import_torch():
    done = run("import sys, cotrunk.runs.folder; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr
