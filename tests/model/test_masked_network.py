"""A network with an mlm task, loaded from a folder, against `transformers`: loss and gradients."""

import json

import numpy as np
import pytest
import torch
import transformers
from published import VOCABULARY, add_vocabulary

from cotrunk.learn.microbatches import microbatches_of
from cotrunk.learn.stage import Progress
from cotrunk.learn.step import _batches, _find_gradients
from cotrunk.model.weights.rename import from_hugging_face
from cotrunk.model.weights.tokenizer import character_tokenizer
from toy import prepared, train, write_rows

WORDS = [word for word in VOCABULARY.split() if word.isalpha() and word != "東"]
CONFIG = """
[encoder]
weights = "./weights"
dropout = 0
attention_dropout = 0

[sharing]
neck = "S"
pooled_norm = "S"

[tasks.mood]
kind = "binary"
text = ["sentence"]
label = "mood"
train = "mood.csv"

[tasks.mlm]
kind = "mlm"
texts_of = ["mood"]

[train]
batch = 64
sampling = "together"
threads = 1
evaluate = "never"
"""


@pytest.fixture
def published(tmp_path):
    """A BertForMaskedLM, and a config that starts from it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = transformers.BertConfig(vocab_size=24, intermediate_size=24, **sizes)
    model = transformers.BertForMaskedLM(config).eval()
    for parameter in model.parameters():  # biases and norms start at 0 and 1: make them matter
        parameter.data = (0.2 * torch.randn_like(parameter)).add_(parameter.ndim == 1)
    model.save_pretrained(tmp_path / "weights")
    add_vocabulary(tmp_path / "weights")
    random = np.random.default_rng(0)
    rows = [[" ".join(random.choice(WORDS, size=random.integers(1, 40))), n % 2] for n in range(64)]
    write_rows(tmp_path / "mood.csv", ["sentence", "mood"], rows)
    (tmp_path / "run.toml").write_text(CONFIG)
    return model, tmp_path / "run.toml"


def their_loss(model, rows, template):
    """Of the same masked rows, padded."""
    texts = [[*template.begin, *ids.tolist(), *template.end] for (ids,) in rows.pieces]
    longest = max(map(len, texts))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    labels = torch.full_like(ids, -100)
    for row, (site, target) in enumerate(zip(rows.sites, rows.targets, strict=True)):
        labels[row, site + len(template.begin)] = torch.from_numpy(target)
    attended = torch.tensor([[n < len(text) for n in range(longest)] for text in texts])
    return model(input_ids=ids, attention_mask=attended.long(), labels=labels).loss


def test_loss_and_gradients_equal_bert_for_masked_lm(published):
    model, config = published
    run = prepared(config)
    stage = run.make_stage(run, 0)
    (batch,) = [batch for batch in _batches(stage, Progress()) if batch.task == "mlm"]
    rows = stage.forward.load("mlm", batch.rows, (stage.seed, 0, 0))
    assert 64 < len(rows.target) < rows.tokens_R.sum() / 3
    assert len(microbatches_of([rows.tokens_R], cuts=2)) == 2
    expected = their_loss(model, rows, run.template)
    found = _find_gradients(stage, [batch], 0, {"mlm": 1.0})
    assert found["mlm"] == pytest.approx(expected.item(), abs=1e-5)

    expected.backward()
    theirs = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }
    wanted = from_hugging_face(theirs, run.network.shape, "gradients")
    group = "mlm+mood"
    for name, grad in wanted.items():
        ours = name.replace("mlm.", "heads.mlm.")
        if not name.startswith("mlm."):
            series, _, rest = name.partition(".")
            depth, _, after = rest.partition(".")
            place = f"{series}.{depth}" if depth.isdecimal() else series
            ours = f"{place}.{group}.{after if depth.isdecimal() else rest}"
        got = stage.trained[ours].grad
        assert got is not None, ours
        torch.testing.assert_close(
            got.to_dense(), grad, rtol=1e-5, atol=1e-5, msg=lambda m, n=ours: f"{n}: {m}"
        )
    others = [name for name in stage.trained if name.startswith(("neck", "pooled", "heads.mood"))]
    assert len(others) == 6
    assert all(stage.trained[name].grad is None for name in others)


def test_the_head_starts_as_published_and_nothing_is_said(published):
    model, config = published
    run = prepared(config)
    assert torch.equal(run.network.head_of["mlm"].bias, model.cls.predictions.bias)
    assert not any("initialised at random" in note for note in run.notes)


def test_weights_without_such_a_head_are_a_note_that_says_why(published):
    model, config = published
    model.bert.save_pretrained(config.parent / "weights")
    run = prepared(config)
    expected = "heads.mlm: initialised at random, because the weights have no head for masked words"
    assert expected in run.notes
    head = run.network.head_of["mlm"]
    assert head.dense.weight.std().item() == pytest.approx(0.02, rel=0.3)
    assert not head.bias.any()


def test_a_task_sees_the_table_of_its_own_embeddings(published):
    _, config = published
    run = prepared(config, "sharing.encoder=I3", "sharing.embeddings=I")
    words = {name: p for name, p in run.network.named_parameters() if "words" in name}
    stage = run.make_stage(run, 0)
    (batch,) = [batch for batch in _batches(stage, Progress()) if batch.task == "mlm"]
    _find_gradients(stage, [batch], 0, {"mlm": 1.0})
    assert {name for name, p in words.items() if p.grad is not None} == {
        "embeddings.mlm.words.weight"
    }
    assert (words["embeddings.mlm.words.weight"].grad != 0).any(1).all()


def test_a_tokenizer_without_a_mask_token_is_refused_before_data_are_read(
    published, tmp_path, capsys
):
    _, config = published
    tokenizer = character_tokenizer("bert").to_str().replace("[MASK]", "[HIDE]")
    (tmp_path / "weights" / "tokenizer.json").write_text(tokenizer)
    sizes = json.loads((tmp_path / "weights" / "config.json").read_text())
    model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes | {"vocab_size": 300}))
    model.save_pretrained(tmp_path / "weights")
    (tmp_path / "mood.csv").write_text("not a table")
    capsys.readouterr()
    assert train(config, tmp_path / "run") == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert said.startswith('error: tasks.mlm.kind = "mlm" needs a mask token')
    assert not (tmp_path / "run").exists()
