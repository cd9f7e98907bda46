"""A saved model holds a tokenizer.json that other programs can open, too."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from cotrunk.build.load import load_model
from cotrunk.model.weights.tokenizer import character_tokenizer
from toy import train

TEXTS = ["Good plot, bad actor!", "[SEP] tea\u00a0river", "crème 日本 😀", ""]


def ids(tokenizer: Tokenizer) -> list[list[int]]:
    return [tokenizer.encode(text).ids for text in TEXTS]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["best", "final"])
def test_tokenizers_opens_the_saved_tokenizer(toy, tmp_path, which):
    run = tmp_path / "run"
    assert train(toy, run) == 0
    saved = Tokenizer.from_file(str(run / which / "tokenizer.json"))
    assert ids(saved) == ids(character_tokenizer("bert"))
    assert load_model(run, which=which).tokenizer.to_str() == saved.to_str()


@pytest.mark.slow
def test_a_vocabulary_beyond_ascii_is_saved_as_it_is(toy, tmp_path):
    pieces = ["日", "本", "😀", "\u0301", "\\ud83d", "\x00", "\u2028", "crème"]
    spelled = json.loads(character_tokenizer("bert").to_str())
    vocabulary = spelled["model"]["vocab"]
    vocabulary |= {piece: len(vocabulary) + more for more, piece in enumerate(pieces)}
    given = Tokenizer.from_str(json.dumps(spelled))
    write_encoder(tmp_path / "encoder", given)
    run = tmp_path / "run"
    assert train(toy, run, "--set", "encoder.weights=./encoder", "--set", "train.epochs=1") == 0
    saved = Tokenizer.from_file(str(run / "final" / "tokenizer.json"))
    assert saved.to_str() == given.to_str() == load_model(run, which="final").tokenizer.to_str()
    assert ids(saved) == ids(given)
    assert saved.token_to_id("日") in ids(saved)[2]


def write_encoder(folder: Path, tokenizer: Tokenizer) -> None:
    from transformers import BertConfig, BertModel  # slow to import

    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
