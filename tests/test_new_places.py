"""A place that the package does not know: defined here, it trains as any other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cotrunk
from cotrunk.build.extensions import Extensions
from cotrunk.data.batches.packing import Packed, RowIndex
from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.errors import UserError
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.parameter_table import parameter_table
from cotrunk.model.sharing.partition import alone, everyone
from cotrunk.model.sharing.place import Place, PlanContext
from cotrunk.runs.checkpoint import read_checkpoint
from toy import contents, prepared, stage_of, train_until

SIZE = 4


class Bottleneck(nn.Module):
    """Down, ReLU, up, added to its input: Houlsby et al. 2019. ``up`` starts at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, SIZE), nn.Linear(SIZE, width)

    def forward(self, x_TD: Tensor, text: Packed, masks: DropoutStream) -> Tensor:
        assert len(x_TD) == len(text.token_T)
        return masks.add(x_TD, self.up(torch.relu(self.down(x_TD))), 0.1)


class Gate(nn.Module):
    """Each number of a vector times a learned one, which starts at 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))

    def forward(self, x_SD: Tensor) -> Tensor:
        return x_SD * (1 + self.scale)


def bottlenecks(context: PlanContext) -> list[Place]:
    """After every layer, one for each task."""
    width = context.shape.width
    first = Place(
        name="bottleneck.0",
        part="bottleneck",
        partition=alone(context.names),
        make=lambda _: Bottleneck(width),
        size=2 * width * SIZE + width + SIZE,
        acts="tokens",
        depth=0,
        rate="head",
        draw="linear",
        zeros=("up.weight",),
        options={},
    )
    return [
        replace(first, name=f"bottleneck.{depth}", depth=depth)
        for depth in range(context.shape.layers)
    ]


def gate(context: PlanContext) -> list[Place]:
    width = context.shape.width
    return [
        Place(
            name="gate",
            part="gate",
            partition=everyone(context.names),
            make=lambda _: Gate(width),
            size=width,
            acts="vectors",
            zeros=("scale",),
        )
    ]


OURS = Extensions(places=[bottlenecks, gate])
CHANGES = ["train.checkpoint=1", "train.gradients=pcgrad", "encoder.pooling=cls", "train.epochs=1"]


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def packed(network: Network) -> tuple[Packed, RowIndex]:
    template = Template(begin=(2,), between=(3,), end=(3,), segment_of_second=1)
    random = np.random.default_rng(0)
    rows = [tuple(random.integers(5, network.shape.vocabulary, size=(2, 4))) for _ in range(3)]
    return pack_rows(template, rows, PairFormat(texts=2))


def test_places_that_start_as_the_identity_do_not_change_the_outputs(toy):
    plain, ours = prepared(toy).network, prepared(toy, extensions=OURS).network
    text, index = packed(ours)
    expected = plain(text, index, list(plain.tasks), NO_DROPOUT)
    for task, found in ours(text, index, list(plain.tasks), NO_DROPOUT).items():
        torch.testing.assert_close(found, expected[task], rtol=0, atol=1e-6)


def test_a_place_on_tokens_follows_its_layer_and_one_on_vectors_the_pooling(toy):
    network = prepared(toy, "encoder.pooling=cls", extensions=OURS).network
    for parameter in network.parameters():
        parameter.data += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    seen: list[Tensor] = []
    for depth in range(2):
        layer = network.owned[f"layers.{depth}"].copy_of("same")
        layer.register_forward_hook(lambda _module, given, out: seen.extend((given[0], out)))
    head = network.head_of["same"]
    head.register_forward_pre_hook(lambda _module, given: seen.extend(given[0]))
    text, index = packed(network)
    network(text, index, ["same"], NO_DROPOUT)
    _, after_first, before_second, after_second, vector_RD = seen

    def through(depth: int, x_TD: Tensor) -> Tensor:
        inner = network.owned[f"bottleneck.{depth}"].copy_of("same")
        return x_TD + inner.up(torch.relu(inner.down(x_TD)))

    torch.testing.assert_close(before_second, through(0, after_first))
    scale_D = network.owned["gate"].copy_of("same").scale
    first_SD = through(1, after_second)[text.first_S]
    torch.testing.assert_close(vector_RD, (first_SD * (1 + scale_D))[index.places[0]])


def test_the_parameter_table_counts_them(toy):
    network = prepared(toy, extensions=OURS).network
    found = parameter_table(network.plan).parameters
    assert found["total"] == sum(p.numel() for p in network.parameters())
    assert (found["bottleneck"], found["gate"]) == (6 * (2 * 32 * SIZE + 32 + SIZE), 32)


@pytest.mark.slow
def test_they_train_evaluate_predict_and_resume_bit_identically(toy, tmp_path):
    start = prepared(toy, *CHANGES, extensions=OURS).network.state_dict()
    train_until(toy, tmp_path / "whole", *CHANGES, extensions=OURS)
    end = read_checkpoint(tmp_path / "whole" / "final").tensors("model")
    names = {name for name in start if name.startswith(("bottleneck.", "gate."))}
    assert len(names) == 2 * 3 * 4 + 1
    assert names <= moved(start, end)
    for stop in (1, 3):
        train_until(toy, tmp_path / f"cut {stop}", *CHANGES, stop=stop, extensions=OURS)
        train_until(toy, tmp_path / f"cut {stop}", *CHANGES, extensions=OURS)
        assert contents(tmp_path / f"cut {stop}") == contents(tmp_path / "whole")
    predictor = cotrunk.load(tmp_path / "whole", which="final", extensions=OURS)
    assert not moved(end, predictor.model.network.state_dict())
    assert len(predictor.predict("mood", ["good plot", "dull tea"])) == 2
    assert '"scores"' in (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_a_run_cannot_be_loaded_without_its_places(toy, tmp_path):
    train_until(toy, tmp_path / "run", *CHANGES, "train.max_steps=1", extensions=OURS)
    with pytest.raises(UserError, match=r"has the parameter .bottleneck.0.*, which is not"):
        cotrunk.load(tmp_path / "run")


@pytest.mark.slow
def test_a_run_without_them_starts_one_that_has_them(toy, tmp_path):
    train_until(toy, tmp_path / "plain", *CHANGES)
    start = f"train.init_from={tmp_path / 'plain'}"
    notes = prepared(toy, *CHANGES, start, extensions=OURS).notes
    assert any("initialised at random: bottleneck.0.mood" in note for note in notes)


def test_they_are_frozen_and_have_rates_by_their_part(toy):
    changes = [*CHANGES, "train.freeze=encoder, heads mood", "train.rates.gate=0.01"]
    changes += ["train.rates.bottleneck 1=0.02", "sharing.encoder=S2"]
    stage = stage_of(toy, *changes, extensions=OURS)
    names = {id(parameter): name for name, parameter in stage.network.named_parameters()}
    rates = {
        names[id(parameter)]: group["lr"]
        for group in stage.optimizer.param_groups
        for parameter in group["params"]
    }
    assert {name.split(".")[0] for name in rates} == {"bottleneck", "gate", "heads"}
    assert rates["gate.alike+mood+same.scale"] == pytest.approx(0.01)
    assert rates["bottleneck.0.mood.up.weight"] == pytest.approx(0.02)
    assert not any(name.startswith("heads.mood.") for name in rates)
