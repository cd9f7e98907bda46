"""Masked language modelling on packed tokens against `transformers`: loss and all gradients."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from cotrunk.data.batches.packing import pack
from cotrunk.kinds.masking import make_vocabulary, mask_texts
from cotrunk.learn.optimizer import AdamW
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.encoder.embeddings import Embeddings
from cotrunk.model.encoder.layer import Layer
from cotrunk.model.encoder.shape import masked_head_sizes, shape_from_config
from cotrunk.model.masked_head import MaskedHead
from cotrunk.model.weights.rename import from_hugging_face

WORDS, PADDING = 60, 1
SIZES = {"vocab_size": WORDS, "max_position_embeddings": 40}
WIDE = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
MODELS = {
    "bert": transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, **WIDE)),
    "roberta": transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(**SIZES, **WIDE, type_vocab_size=1)
    ),
    "distilbert": transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(**SIZES, dim=16, n_layers=3, n_heads=4, hidden_dim=24)
    ),
}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
VOCABULARY = make_vocabulary(
    {token: number for number, token in enumerate(SPECIAL + [f"w{n}" for n in range(55)])},
    special=SPECIAL,
    mask="<mask>",
    size=WORDS,
)


class Packed(torch.nn.Module):
    """Our encoder and head, nothing shared, the modules named as the weights are."""

    def __init__(self, shape):
        super().__init__()
        self.embeddings = Embeddings(shape)
        self.layers = torch.nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.mlm = MaskedHead(shape)

    def states(self, texts):
        """The state of every token, text after text."""
        packed = pack(texts, [np.zeros(len(text), np.int64) for text in texts])
        x_TD = self.embeddings(packed, NO_DROPOUT)
        for layer in self.layers:
            x_TD = layer(x_TD, packed, NO_DROPOUT)
        first, length = packed.first_S[packed.place_S], packed.length_S[packed.place_S]
        return torch.cat([x_TD[a : a + n] for a, n in zip(first, length, strict=True)])


def both(family, dtype):
    torch.manual_seed(0)
    theirs = MODELS[family].to(dtype).eval()
    for parameter in theirs.parameters():  # biases and norms start at 0 and 1: make them matter
        parameter.data = (0.2 * torch.randn_like(parameter)).add_(parameter.ndim == 1)
        parameter.grad = None
    shape = shape_from_config(theirs.config.to_dict(), "config.json")
    ours = Packed(shape).to(dtype)
    found = from_hugging_face(dict(theirs.state_dict()), shape, "model")
    ours.load_state_dict({name: tensor.to(dtype) for name, tensor in found.items()})
    # Renaming rounds to float32, so the reference is rounded, too.
    theirs.load_state_dict({n: t.float().to(dtype) for n, t in theirs.state_dict().items()})
    return theirs, ours, shape


def masked_batch(count=13, seed=0):
    """Ragged texts, the masked positions of all of them end to end, and what stood there."""
    random = np.random.default_rng(seed)
    texts = [random.integers(5, WORDS, size=n) for n in random.integers(1, 30, size=count)]
    found = mask_texts(texts, VOCABULARY, random)
    begin = np.cumsum([0, *(len(text) for text in texts)])[:-1]
    site_N = np.concatenate([a + one.site for a, one in zip(begin, found, strict=True)])
    target_N = np.concatenate([one.target for one in found])
    return [one.ids for one in found], torch.from_numpy(site_N), torch.from_numpy(target_N)


def their_loss(model, texts, site_N, target_N):
    ids = torch.full((len(texts), max(map(len, texts))), PADDING)
    labels = torch.full((sum(map(len, texts)),), -100)
    labels[site_N] = target_N
    padded = torch.full_like(ids, -100)
    for row, (text, own) in enumerate(
        zip(texts, labels.split([len(text) for text in texts]), strict=True)
    ):
        ids[row, : len(text)] = torch.from_numpy(text)
        padded[row, : len(text)] = own
    attended = torch.arange(ids.shape[1]) < torch.tensor([len(t) for t in texts])[:, None]
    return model(input_ids=ids, attention_mask=attended.long(), labels=padded).loss


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize(("dtype", "off"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
def test_loss_and_all_gradients_equal_transformers(family, dtype, off):
    theirs, ours, shape = both(family, dtype)
    texts, site_N, target_N = masked_batch()
    expected = their_loss(theirs, texts, site_N, target_N)
    table_VD = ours.embeddings.words.weight
    logit_NV = ours.mlm(ours.states(texts)[site_N], table_VD)
    found = F.cross_entropy(logit_NV, target_N)
    assert len(logit_NV) == len(target_N) < sum(map(len, texts)) / 2
    torch.testing.assert_close(found, expected, rtol=off, atol=off)

    expected.backward()
    found.backward()
    tied = theirs.get_output_embeddings().weight
    assert tied is theirs.get_input_embeddings().weight
    wanted = published_gradients(theirs, shape)
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None, name
        torch.testing.assert_close(
            parameter.grad.to_dense(), wanted[name], rtol=off, atol=off, msg=lambda m, n=name: n + m
        )


def published_gradients(model, shape):
    """All gradients under our names; in two halves, because renaming rounds to float32."""
    grads = {name: parameter.grad for name, parameter in model.named_parameters()}
    high = {name: grad.float() for name, grad in grads.items()}
    low = {name: (grad - high[name].to(grad.dtype)).float() for name, grad in grads.items()}
    dtype = next(iter(grads.values())).dtype
    renamed = [from_hugging_face(half, shape, "gradients") for half in (high, low)]
    return {name: renamed[0][name].to(dtype) + renamed[1][name].to(dtype) for name in renamed[0]}


def test_every_word_is_moved_and_the_tied_table_takes_both_gradients():
    _, ours, _ = both("bert", torch.float64)
    texts, site_N, target_N = masked_batch()
    table_VD = ours.embeddings.words.weight
    F.cross_entropy(ours.mlm(ours.states(texts)[site_N], table_VD), target_N).backward()
    whole = table_VD.grad.clone()
    table_VD.grad = None
    logit_NV = ours.mlm(ours.states(texts)[site_N], table_VD.detach())
    F.cross_entropy(logit_NV, target_N).backward()
    looked_up = table_VD.grad
    table_VD.grad = None
    logit_NV = ours.mlm(ours.states(texts)[site_N].detach(), table_VD)
    F.cross_entropy(logit_NV, target_N).backward()
    assert looked_up.is_sparse
    assert (whole != 0).any(dim=1).all()
    torch.testing.assert_close(looked_up.to_dense() + table_VD.grad, whole)


def test_parameters_are_those_of_the_published_head():
    _, ours, shape = both("bert", torch.float32)
    sizes = {name: tuple(parameter.shape) for name, parameter in ours.mlm.named_parameters()}
    assert sizes == masked_head_sizes(shape)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3])
def test_it_learns_that_a_text_repeats_one_word_when_each_step_masks_afresh(parts):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ours, random = Packed(both("bert", torch.float32)[2]), np.random.default_rng(0)
    texts = [np.full(12, word) for word in random.integers(5, WORDS, size=8)]
    for table in (ours.embeddings.words, ours.embeddings.positions):
        torch.nn.init.normal_(table.weight, std=0.1)
    optimizer = AdamW([{"params": list(ours.parameters()), "lr": 1e-2}])
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        for some in np.array_split(np.arange(8), parts):
            found = mask_texts([texts[row] for row in some], VOCABULARY, random)
            site_N = np.concatenate([12 * row + one.site for row, one in enumerate(found)])
            target_N = torch.from_numpy(np.concatenate([one.target for one in found]))
            x_ND = ours.states([one.ids for one in found])[site_N]
            loss = F.cross_entropy(ours.mlm(x_ND, ours.embeddings.words.weight), target_N)
            (loss / parts).backward()
            losses.append(loss.item())
        optimizer.step()
    # Knowing the eight words without looking at the text would leave log 8.
    assert np.mean(losses[-10 * parts :]) < 0.5 * np.log(8)
