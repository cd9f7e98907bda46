"""Files and folders that appear whole or not at all."""

import os
from pathlib import Path

import pytest

from cotrunk.files import whole_folder, write_whole


def test_a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.json"
    for text in (b"one", b"another"):
        write_whole(path, text)
        assert path.read_bytes() == text
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_link_stays_a_link_to_the_file_that_is_replaced(tmp_path):
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "target").write_bytes(b"old")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_device_is_written_to_directly():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_whole(Path("/dev/full"), b"x")


def test_an_error_names_the_file_that_was_to_be_written(tmp_path):
    with pytest.raises(OSError, match=r"No such file or directory: '.*/absent/a\.json'"):
        write_whole(tmp_path / "absent" / "a.json", b"x")


def test_a_folder_that_could_not_be_filled_does_not_appear(tmp_path):
    def fill() -> None:
        with whole_folder(tmp_path / "made", lambda _: True) as beside:
            (beside / "part").write_bytes(b"x")
            raise RuntimeError("cut short")

    with pytest.raises(RuntimeError):
        fill()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("is_whole", "found"), [(True, b"first"), (False, b"mine")])
def test_a_folder_of_a_quicker_process_is_used_if_it_is_whole(tmp_path, is_whole, found):
    folder = tmp_path / "made"
    with whole_folder(folder, lambda _: is_whole) as beside:
        (beside / "x").write_bytes(b"mine")
        folder.mkdir()
        (folder / "x").write_bytes(b"first")
    assert (folder / "x").read_bytes() == found
    assert os.listdir(tmp_path) == ["made"]
