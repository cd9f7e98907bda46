"""Published tensor names and ours: nothing is lost, mixed up or dropped silently."""

import pytest
import torch
import transformers
from published import EVERYWHERE, TINY, add_vocabulary, complaint, reference, rewrite, same
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from cotrunk.model.encoder.shape import (
    NAMED,
    config_from_shape,
    masked_head_sizes,
    tensor_sizes,
)
from cotrunk.model.weights.pretrained import find, from_hugging_face, to_hugging_face
from cotrunk.model.weights.rename import DECODERS, masked_head_problem


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
    encoder = {name: tensor for name, tensor in ours.items() if not name.startswith("mlm.")}
    same(to_hugging_face(encoder, shape), bare)


MASKED_LM = {
    "tiny": transformers.BertForMaskedLM,
    "tiny-roberta": transformers.RobertaForMaskedLM,
    "tiny-distilbert": transformers.DistilBertForMaskedLM,
}


def masked_lm(name):
    model = MASKED_LM[name]
    torch.manual_seed(0)
    made = model(model.config_class.from_dict(config_from_shape(NAMED[name])))
    for parameter in made.parameters():  # biases and norms start at 0 and 1: make them differ
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("name", MASKED_LM)
def test_a_head_for_masked_words_comes_back_bit_equal(name, tmp_path):
    model = masked_lm(name)
    model.save_pretrained(tmp_path / "a")
    add_vocabulary(tmp_path / "a")
    found = find(str(tmp_path / "a"), base=EVERYWHERE)
    assert found.masked_head_problem is None
    head = {key: value for key, value in found.tensors.items() if key.startswith("mlm.")}
    assert {key.removeprefix("mlm."): tuple(value.shape) for key, value in head.items()} == (
        masked_head_sizes(found.shape)
    )
    same(to_hugging_face(found.tensors, found.shape), load_file(tmp_path / "a/model.safetensors"))


@pytest.mark.parametrize("name", MASKED_LM)
def test_transformers_reads_the_head_that_was_written_back(name, tmp_path):
    model = masked_lm(name).eval()
    ours = from_hugging_face(model.state_dict(), NAMED[name], "here")
    model.config.save_pretrained(tmp_path)
    save_file(to_hugging_face(ours, NAMED[name]), tmp_path / "model.safetensors", {"format": "pt"})
    again = type(model).from_pretrained(tmp_path).eval()
    ids = torch.arange(12).view(2, 6)
    assert_close(again(ids).logits, model(ids).logits, rtol=0, atol=0)


@pytest.mark.parametrize("name", MASKED_LM)
def test_a_head_that_is_not_tied_to_the_word_table_is_left_out_and_named(name):
    published = dict(masked_lm(name).state_dict())
    decoder = DECODERS[NAMED[name].family]
    assert masked_head_problem(published, NAMED[name]) is None
    published[decoder] = published[decoder] + 1
    assert masked_head_problem(published, NAMED[name]) == (
        f"{decoder} of the weights differs from the word table"
    )
    ours = from_hugging_face(published, NAMED[name], "here")
    assert not any(key.startswith("mlm.") for key in ours)
    assert ours.keys() == tensor_sizes(NAMED[name]).keys() - (
        {"pooler.weight", "pooler.bias"} if NAMED[name].pooler else set()
    )


def test_half_a_head_for_masked_words_is_left_out_and_named():
    published = dict(masked_lm("tiny").state_dict())
    del published["cls.predictions.transform.LayerNorm.bias"]
    problem = masked_head_problem(published, NAMED["tiny"])
    assert problem == (
        "the weights' head for masked words has no cls.predictions.transform.LayerNorm.bias"
    )
    ours = from_hugging_face(published, NAMED["tiny"], "here")
    assert not any(key.startswith("mlm.") for key in ours)


def test_a_head_for_another_vocabulary_is_left_out_and_named():
    published = dict(masked_lm("tiny").state_dict())
    published["cls.predictions.bias"] = torch.zeros(7)
    problem = masked_head_problem(published, NAMED["tiny"])
    assert problem == "cls.predictions.bias of the weights is not a float tensor of shape [300]"


def test_bare_weights_have_no_head_for_masked_words():
    problem = masked_head_problem(reference("tiny").state_dict(), NAMED["tiny"])
    assert problem == "the weights have no head for masked words"


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
    assert "duplicate" in twice
    assert "pooler.dense.bias" in twice
    assert "self.key.weight [32, 31] instead of [32, 32]" in misshapen
    assert "embeddings.LayerNorm.bias (torch.int64)" in whole


def test_our_tensors_without_a_place_in_the_family_are_not_dropped_silently():
    shape = NAMED["tiny-distilbert"]
    ours = from_hugging_face(reference("tiny-distilbert").state_dict(), shape, "here")
    with pytest.raises(ValueError, match=r"unknown \['pooler.weight'\]"):
        to_hugging_face({**ours, "pooler.weight": torch.zeros(32, 32)}, shape)
    ours.pop("layers.1.up.bias")
    with pytest.raises(ValueError, match=r"missing \['layers.1.up.bias'\]"):
        to_hugging_face(ours, shape)


def test_equal_tensors_give_equal_outputs_after_the_round_trip():
    model, copy = reference("tiny").eval(), reference("tiny").eval()
    ours = from_hugging_face(model.state_dict(), NAMED["tiny"], "here")
    copy.load_state_dict(to_hugging_face(ours, NAMED["tiny"]))
    ids = torch.arange(12).view(2, 6)
    assert_close(model(ids).last_hidden_state, copy(ids).last_hidden_state, rtol=0, atol=0)
