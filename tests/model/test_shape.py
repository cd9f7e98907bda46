import math

import pytest
import torch
import transformers

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import (
    NAMED,
    config_from_shape,
    named,
    parameters,
    shape_from_config,
    tensor_sizes,
)

CONFIGS = {
    "bert": transformers.BertConfig,
    "roberta": transformers.RobertaConfig,
    "distilbert": transformers.DistilBertConfig,
}
MODELS = {
    "bert": transformers.BertModel,
    "roberta": transformers.RobertaModel,
    "distilbert": transformers.DistilBertModel,
}
BERT = config_from_shape(NAMED["tiny"])


def complaints(changes):
    with pytest.raises(UserError) as caught:
        shape_from_config({**BERT, **changes}, "config.json")
    return caught.value.lines


@pytest.mark.parametrize("name", NAMED)
def test_a_named_shape_survives_its_own_config(name):
    assert shape_from_config(config_from_shape(NAMED[name]), "config.json") == NAMED[name]


@pytest.mark.parametrize("name", ["tiny", "tiny-roberta", "tiny-distilbert"])
def test_transformers_reads_our_config_as_the_same_shape(name):
    shape = NAMED[name]
    config = CONFIGS[shape.family].from_dict(config_from_shape(shape))
    assert shape_from_config(config.to_dict(), "config.json") == shape


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("bert-base", transformers.BertConfig()),
        ("distilbert-base", transformers.DistilBertConfig()),
        (
            "roberta-base",
            transformers.RobertaConfig(
                vocab_size=50265,
                max_position_embeddings=514,
                type_vocab_size=1,
                layer_norm_eps=1e-5,
            ),
        ),
    ],
)
def test_a_base_shape_is_the_published_one(name, config):
    assert shape_from_config(config.to_dict(), "config.json") == NAMED[name]


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_relatives_of_roberta_share_its_family(kind):
    config = {**config_from_shape(NAMED["roberta-base"]), "model_type": kind}
    assert shape_from_config(config, "config.json") == NAMED["roberta-base"]


def test_roberta_starts_counting_after_its_padding():
    assert NAMED["roberta-base"].max_tokens == 512
    config = {**config_from_shape(NAMED["roberta-base"]), "pad_token_id": 5}
    assert shape_from_config(config, "config.json").first_position == 6


def test_parameters_of_bert_base_are_the_published_numbers():
    counts = {"embeddings": 23_837_184, "layer": 7_087_872, "pooler": 590_592}
    assert parameters(NAMED["bert-base"]) == counts


@pytest.mark.parametrize("name", NAMED)
def test_parameters_equal_a_count_of_the_reference_model(name):
    shape = NAMED[name]
    with torch.device("meta"):
        model = MODELS[shape.family](CONFIGS[shape.family].from_dict(config_from_shape(shape)))
    counts = parameters(shape)
    total = counts["embeddings"] + shape.layers * counts["layer"] + shape.pooler * counts["pooler"]
    assert total == sum(parameter.numel() for parameter in model.parameters())
    assert total == sum(map(math.prod, tensor_sizes(shape).values()))


def test_a_family_without_a_pooler_still_counts_a_fresh_one():
    assert parameters(NAMED["tiny-distilbert"])["pooler"] == 32 * 32 + 32
    assert not any(name.startswith("pooler") for name in tensor_sizes(NAMED["tiny-distilbert"]))


def test_another_model_type_is_refused_with_the_supported_ones():
    (line,) = complaints({"model_type": "deberta-v2"})
    assert "config.json: model_type = 'deberta-v2'" in line
    assert "bert, roberta, xlm-roberta, camembert, distilbert" in line


def test_a_missing_model_type_is_refused():
    with pytest.raises(UserError, match="model_type is missing"):
        shape_from_config({}, "config.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"add_cross_attention": True},
        {"pruned_heads": {"1": [0]}},
        {"auto_map": {"AutoModel": "modeling.Mine"}},
        {"quantization_config": {"bits": 4}},
    ],
)
def test_what_would_compute_something_else_is_refused_by_name(changes):
    (line,) = complaints(changes)
    assert next(iter(changes)) in line
    assert "not supported" in line


@pytest.mark.parametrize("value", [0, -1, 1.5, "12", True, None, 10**9])
def test_a_size_is_a_positive_whole_number(value):
    (line,) = complaints({"num_hidden_layers": value})
    assert "config.json: num_hidden_layers = " in line


@pytest.mark.parametrize("value", [-0.1, 1.0, "0.1", True, math.nan, math.inf])
def test_a_dropout_is_a_fraction(value):
    (line,) = complaints({"hidden_dropout_prob": value})
    assert "hidden_dropout_prob" in line


def test_heads_must_divide_the_width():
    (line,) = complaints({"num_attention_heads": 5})
    assert "hidden_size = 32 is not divisible by num_attention_heads = 5" in line


def test_a_position_table_without_room_for_a_token_is_refused():
    config = {**config_from_shape(NAMED["tiny-roberta"]), "max_position_embeddings": 2}
    with pytest.raises(UserError, match="leaves no position"):
        shape_from_config(config, "config.json")


def test_all_problems_are_reported_at_once():
    lines = complaints({"hidden_size": 0, "vocab_size": "many", "hidden_act": "relu"})
    assert len(lines) == 3


def test_an_unknown_name_suggests_the_nearest():
    assert named("tiny", "here") == NAMED["tiny"]
    with pytest.raises(UserError, match=r"here: .*did you mean 'bert-large'") as caught:
        named("bert-lrage", "here")
    assert len(caught.value.lines) == 1


def test_every_named_shape_can_be_cut_into_heads():
    assert all(shape.width % shape.heads == 0 for shape in NAMED.values())
