"""Attention in buckets against attention in each sequence by itself, differentiated by torch."""

import math

import numpy as np
import pytest
import torch

from cotrunk.data.batches.packing import Packed, pack
from cotrunk.model.encoder.attention import attend
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.encoder.embeddings import Embeddings
from cotrunk.model.encoder.shape import shape_from_config

HEADS, WIDTH = 3, 12
LENGTHS = [[1], [6], [1, 1], [4, 4, 4], [1, 2, 5, 5, 9], list(range(1, 14))]


def text_of(lengths: list[int]) -> Packed:
    rows = [np.arange(1, length + 1) for length in lengths]
    return pack(rows, [np.zeros_like(row) for row in rows])


def inputs(text: Packed, *, bias: bool = True) -> tuple[torch.Tensor, torch.nn.Linear]:
    """Tokens and what makes their queries, keys and values; here of another width than theirs."""
    torch.manual_seed(1)
    qkv = torch.nn.Linear(5, 3 * WIDTH, bias=bias, dtype=torch.float64)
    return torch.randn(len(text.token_T), 5, dtype=torch.float64, requires_grad=True), qkv


def one_by_one(qkv_TD: torch.Tensor, text: Packed) -> torch.Tensor:
    found = []
    for mine in qkv_TD.split(text.length_S.tolist()):
        q, k, v = (part.view(len(mine), HEADS, -1).transpose(0, 1) for part in mine.chunk(3, 1))
        chance = (q @ k.transpose(1, 2) / math.sqrt(WIDTH // HEADS)).softmax(-1)
        found.append((chance @ v).transpose(0, 1).reshape(len(mine), WIDTH))
    return torch.cat(found)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_values_and_gradients_equal_attention_in_each_sequence(lengths, first_only, bias):
    text = text_of(lengths)
    x_TD, qkv = inputs(text, bias=bias)
    found = attend(x_TD, qkv, text, NO_DROPOUT, heads=HEADS, dropout=0.1, first_only=first_only)
    expected = one_by_one(qkv(x_TD), text)
    if first_only:
        expected = expected[text.first_S]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    direction, moved = torch.randn_like(found), (x_TD, *qkv.parameters())
    mine = torch.autograd.grad((found * direction).sum(), moved)
    wanted = torch.autograd.grad((expected * direction).sum(), moved)
    for one, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_answers_alone_equal_attention_in_each_sequence(lengths):
    text = text_of(lengths)
    x_TD, qkv = inputs(text)
    with torch.no_grad():
        found = attend(x_TD, qkv, text, NO_DROPOUT, heads=HEADS, dropout=0.1, first_only=False)
        torch.testing.assert_close(found, one_by_one(qkv(x_TD), text), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("first_only", [False, True])
def test_the_derivative_holds_with_dropout(first_only):
    text = text_of([1, 2, 2, 3, 5])
    x_TD, qkv = inputs(text)

    def call(x_TD: torch.Tensor) -> torch.Tensor:
        masks = DropoutStream(1, 2)
        return attend(x_TD, qkv, text, masks, heads=HEADS, dropout=0.4, first_only=first_only)

    assert torch.autograd.gradcheck(call, (x_TD,))


def test_the_first_token_sees_the_same_alone_as_among_all_when_chances_are_dropped():
    """In sequences of one token both ways draw the same masks."""
    text = text_of([1] * 40)
    x_TD, qkv = inputs(text)
    alone, among = (
        attend(x_TD, qkv, text, DropoutStream(3), heads=HEADS, dropout=0.5, first_only=first_only)
        for first_only in (True, False)
    )
    assert (alone == 0).any()
    torch.testing.assert_close(alone, among, rtol=0, atol=1e-12)


def test_dropout_drops_whole_chances():
    text = text_of([6, 6])
    kept, dropped = (
        attend(*inputs(text), text, masks, heads=HEADS, dropout=0.5, first_only=False)
        for masks in (NO_DROPOUT, DropoutStream(1))
    )
    assert not torch.equal(kept, dropped)


def test_gradients_of_words_add_up_over_batches_and_repeated_tokens():
    config = {
        "model_type": "bert", "vocab_size": 20, "hidden_size": 6, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.0,
    }  # fmt: skip
    embeddings = Embeddings(shape_from_config(config, "config")).double()
    for parameter in embeddings.parameters():
        torch.nn.init.normal_(parameter)
    table = embeddings.words.weight
    texts = [text_of([3, 3, 5]), text_of([7])]
    plain = table.detach().clone().requires_grad_()
    for text in texts:
        direction = torch.randn(len(text.token_T), 6, dtype=torch.float64)
        (embeddings(text, NO_DROPOUT) * direction).sum().backward()
        x_TD = plain[text.token_T] + embeddings.positions.weight.detach()[text.position_T]
        assert embeddings.segments is not None
        x_TD = embeddings.norm(x_TD + embeddings.segments.weight.detach()[text.segment_T])
        (x_TD * direction).sum().backward()
    torch.testing.assert_close(table.grad.to_dense(), plain.grad, rtol=0, atol=1e-12)
