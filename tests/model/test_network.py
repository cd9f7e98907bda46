"""The network against `transformers`: outputs and gradients, for all three families."""

import numpy as np
import pytest
import torch
import transformers

from cotrunk.data.batches.packing import RowIndex, pack
from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.encoder.shape import shape_from_config
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.initial import initialise
from cotrunk.model.weights.rename import from_hugging_face

SIZES = {"vocab_size": 60, "max_position_embeddings": 40}
WIDE = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
CONFIGS = {
    "bert": transformers.BertConfig(**SIZES, **WIDE),
    "roberta": transformers.RobertaConfig(**SIZES, **WIDE, type_vocab_size=1),
    "distilbert": transformers.DistilBertConfig(
        **SIZES, dim=16, n_layers=3, n_heads=4, hidden_dim=24, activation="gelu"
    ),
}
MODELS = {
    "bert": transformers.BertModel,
    "roberta": transformers.RobertaModel,
    "distilbert": transformers.DistilBertModel,
}
TEMPLATE = Template(begin=(2,), between=(3,), end=(3,), segment_of_second=1)


def oracle(family: str) -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    model = MODELS[family](CONFIGS[family]).eval().double()
    for parameter in model.parameters():  # biases and norms start at 0 and 1: make them matter
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def ours(
    family: str, pooling: str, *, plan: str = "S3", tasks: tuple[str, ...] = ("a",)
) -> Network:
    hf = oracle(family)
    shape = shape_from_config(hf.config.to_dict(), "config.json")
    tensors = from_hugging_face(dict(hf.state_dict()), shape, "model")
    every = [Task(name, 1, Classes(("x", "y", "z"))) for name in tasks]
    heads = {name: HeadPlan(pooling=pooling) for name in tasks}
    shared = make_plan(trunk_places(tasks, shape, encoder=plan), shape, every, heads)
    network = Network(shape, shared, every, heads).double()
    initialise(network, tensors, seed=1)
    return network


def sequences(count: int, seed: int = 0, longest: int = 30) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(5, 60, size=n) for n in random.integers(1, longest, size=count)]


def padded(rows: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.ones(len(rows), max(map(len, rows)), dtype=torch.int64)  # 1: RoBERTa's padding
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.from_numpy(row)
        mask[i, : len(row)] = 1
    return ids, mask


def reference_pooled(hf, ids, mask, segments, pooling: str) -> torch.Tensor:
    more = {"token_type_ids": segments} if segments is not None else {}
    out = hf(input_ids=ids, attention_mask=mask, **more)
    hidden, real = out.last_hidden_state, mask[:, :, None].bool()
    return {
        "pooler": lambda: out.pooler_output,
        "cls": lambda: hidden[:, 0],
        "mean": lambda: (hidden * real).sum(1) / real.sum(1),
        "sum": lambda: (hidden * real).sum(1),
        "max": lambda: hidden.masked_fill(~real, -torch.inf).amax(1),
    }[pooling]()


CASES = [
    (family, pooling)
    for family in CONFIGS
    for pooling in ("pooler", "cls", "mean", "sum", "max")
    if not (family == "distilbert" and pooling == "pooler")
]


@pytest.mark.parametrize(("family", "pooling"), CASES)
def test_pooled_vectors_and_gradients_equal_transformers(family, pooling):
    hf, network, rows = oracle(family), ours(family, pooling), sequences(13)
    expected = reference_pooled(hf, *padded(rows), None, pooling)
    packed = pack(rows, [np.zeros(len(row), np.int64) for row in rows])
    (found,) = network.encode(packed, ["a"], NO_DROPOUT).values()
    found = found[packed.place_S]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (found * direction).sum().backward()
    wanted = from_hugging_face(
        {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in hf.named_parameters()},
        network.shape,
        "gradients",
    )
    for name, parameter in network.named_parameters():
        if name.startswith("heads"):
            continue
        got = (
            parameter.grad.to_dense() if parameter.grad is not None else torch.zeros_like(parameter)
        )
        torch.testing.assert_close(
            got.float(), wanted[name.replace(".a.", ".")], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_joined_pairs_with_segment_ids_equal_transformers(family):
    hf, network = oracle(family), ours(family, "mean")
    second = 1 if family == "bert" else 0
    template = Template((2,), (3,), (3,), segment_of_second=second)
    left, right = sequences(7, seed=1, longest=12), sequences(7, seed=2, longest=12)
    packed, index = pack_rows(template, list(zip(left, right, strict=True)), PairFormat(texts=2))
    (found,) = network.encode(packed, ["a"], NO_DROPOUT).values()
    joined = [np.concatenate([[2], a, [3], b, [3]]) for a, b in zip(left, right, strict=True)]
    ids, mask = padded(joined)
    segments = torch.zeros_like(ids)
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        segments[i, len(a) + 2 : len(a) + len(b) + 3] = second
    expected = reference_pooled(hf, ids, mask, segments, "mean")
    torch.testing.assert_close(found[index.places[0]], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_changing_one_sequence_changes_no_other(pooling):
    network, rows = ours("bert", pooling), sequences(9)
    changed = [*rows[:4], rows[4][::-1] + 0, *rows[5:]]
    changed[4] = np.concatenate([changed[4], [7, 8, 9]])

    def encode(these: list[np.ndarray]) -> torch.Tensor:
        packed = pack(these, [np.zeros(len(row), np.int64) for row in these])
        (pooled,) = network.encode(packed, ["a"], NO_DROPOUT).values()
        return pooled[packed.place_S]

    before, after = encode(rows), encode(changed)
    others = [i for i in range(9) if i != 4]
    torch.testing.assert_close(before[others], after[others], rtol=0, atol=1e-12)
    assert (before[4] - after[4]).abs().max() > 1e-3


@pytest.mark.parametrize("plan", ["S3", "I3", "S1 (a+b) I", "I S I", "(a+c)3"])
def test_copies_that_start_equal_change_no_output(plan):
    tasks = ("a", "b", "c")
    one = ours("bert", "mean", tasks=tasks)
    other = ours("bert", "mean", plan=plan, tasks=tasks)
    packed, index = pack_rows(TEMPLATE, [(row,) for row in sequences(5)], PairFormat(texts=1))
    expected = one(packed, index, tasks, NO_DROPOUT)
    found = other(packed, index, tasks, NO_DROPOUT)
    for task in tasks:
        torch.testing.assert_close(found[task], expected[task], rtol=0, atol=1e-12)


def test_a_text_for_several_tasks_runs_through_a_shared_layer_once():
    tasks = ("a", "b", "c")
    network = ours("bert", "cls", plan="S2 (b+c)", tasks=tasks)
    calls: list[str] = []
    for name, module in network.named_modules():
        if name.startswith("layers.") and name.count(".") == 2:
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    packed, index = pack_rows(TEMPLATE, [(row,) for row in sequences(5)], PairFormat(texts=1))
    network(packed, index, tasks, NO_DROPOUT)
    assert sorted(calls) == ["layers.0.a+b+c", "layers.1.a+b+c", "layers.2.a", "layers.2.b+c"]


def test_the_same_key_drops_the_same_units_and_another_key_others():
    network = ours("bert", "mean").float()
    packed, index = pack_rows(TEMPLATE, [(row,) for row in sequences(5)], PairFormat(texts=1))
    one, again, other = (
        network(packed, index, ["a"], DropoutStream(*key))["a"] for key in [(1, 2), (1, 2), (1, 3)]
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_swapped_pairs_give_the_same_answer_in_either_order():
    network = ours("bert", "mean")
    network.tasks["a"] = Task("a", 2, Classes(("x", "y", "z")))
    rows = list(zip(sequences(6, 1, 10), sequences(6, 2, 10), strict=True))
    pair_format = PairFormat(texts=2, swapped=True)
    one = network(*pack_rows(TEMPLATE, rows, pair_format), ["a"], NO_DROPOUT)["a"]
    other = network(
        *pack_rows(TEMPLATE, [(b, a) for a, b in rows], pair_format), ["a"], NO_DROPOUT
    )["a"]
    torch.testing.assert_close(one, other)


def test_sides_point_at_the_sequences_of_their_rows():
    rows = list(zip(sequences(6, 1, 10), sequences(6, 2, 10), strict=True))
    packed, index = pack_rows(TEMPLATE, rows, PairFormat(texts=2, joined=False))
    assert isinstance(index, RowIndex)
    for side, places in enumerate(index.places):
        for row, place in enumerate(places.tolist()):
            first, length = packed.first_S[place], packed.length_S[place]
            tokens = packed.token_T[first : first + length].tolist()
            assert tokens == [2, *rows[row][side].tolist(), 3]
