"""Tiny encoders as transformers writes them, and what cotrunk says about their folders."""

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import NAMED, config_from_shape
from cotrunk.model.weights.pretrained import find

MODELS = {
    "bert": (transformers.BertConfig, transformers.BertModel),
    "roberta": (transformers.RobertaConfig, transformers.RobertaModel),
    "distilbert": (transformers.DistilBertConfig, transformers.DistilBertModel),
}
TINY = ["tiny", "tiny-roberta", "tiny-distilbert"]
EVERYWHERE = Path("/")
VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the old inn , by sea . naive cafe 東 un ##aff ##able do t ' s"
)


def reference(name):
    config, model = MODELS[NAMED[name].family]
    torch.manual_seed(0)
    return model(config.from_dict(config_from_shape(NAMED[name])))


def add_vocabulary(folder):
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY.split()) + "\n", encoding="utf-8")


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
