"""Hugging Face's hub: the cache first, and one line when nobody answers."""

import pytest
from huggingface_hub import constants as hub_constants
from published import add_vocabulary, reference

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import NAMED
from cotrunk.model.weights.pretrained import find


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An empty cache, and a hub nobody listens at."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub_constants, "ENDPOINT", "http://127.0.0.1:9")
    return cache


def test_a_cached_model_needs_no_network(hub, tmp_path):
    snapshot = hub / "models--someone--tiny" / "snapshots" / ("a" * 40)
    reference("tiny").save_pretrained(snapshot)
    add_vocabulary(snapshot)
    (hub / "models--someone--tiny" / "refs").mkdir()
    (hub / "models--someone--tiny" / "refs" / "main").write_text("a" * 40)
    assert find("someone/tiny", base=tmp_path).shape == NAMED["tiny"]
    for file in ("vocab.txt", "model.safetensors"):  # another program may have fetched a part
        (snapshot / file).unlink()
        with pytest.raises(UserError, match="cannot be downloaded"):
            find("someone/tiny", base=tmp_path)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("offline", [False, True])
def test_an_unreachable_hub_is_one_line(monkeypatch, tmp_path, offline):
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", offline)
    with pytest.raises(UserError) as caught:
        find("someone/unheard-of", base=tmp_path)
    assert str(caught.value).startswith('encoder.weights = "someone/unheard-of": ')
    assert "not in the local cache" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.usefixtures("hub")
def test_a_slip_in_the_name_of_our_own_weights_is_met_with_it(tmp_path):
    with pytest.raises(UserError, match=r"; did you mean 'minilm'\?$"):
        find("minilmm", base=tmp_path)


@pytest.mark.usefixtures("hub")
def test_a_name_without_an_owner_is_met_with_what_can_be_named(tmp_path):
    with pytest.raises(UserError, match="give minilm, the id of"):
        find("nope", base=tmp_path)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("weights", ["two words", "a/b/c", "x" * 5000, "nul\0"])
def test_what_cannot_be_an_id_is_said_to_be_none(tmp_path, weights):
    with pytest.raises(UserError, match="must have the form owner/name"):
        find(weights, base=tmp_path)
