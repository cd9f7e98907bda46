"""A frozen encoder: each text is encoded once, and nothing else changes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cotrunk.cli.main import main
from cotrunk.data.tokens.store import cache_folder
from cotrunk.infer.features import CorpusEncoding, encode_corpus, encoder_digest
from cotrunk.infer.forward import Cached, Live
from cotrunk.learn.stage import Stage
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.sharing.network import Network
from cotrunk.progress import ignore_progress
from cotrunk.runs.checkpoint import read_checkpoint
from toy import prepared

FROZEN = ["train.freeze=encoder", "sharing.encoder=S2"]
TASKS = ("mood", "same", "alike")
PAIRS = {
    "joined": [],
    "separate": ["tasks.same.pair=concat", "tasks.alike.pair=all"],
    "cosine": ["tasks.alike.pair=cosine", "tasks.alike.head.projection=true"],
    "swap": ["tasks.same.swap=true", "tasks.alike.swap=true"],
    "neck and norm": ["sharing.neck=S-I", "sharing.pooled_norm=I"],
    "poolings": ["tasks.mood.pooling=pooler", "tasks.same.pooling=cls", "tasks.alike.pooling=max"],
    "reads": [
        *("tasks.same.pair=concat", "tasks.alike.pair=concat"),
        *("tasks.same.reads=['mood']", "tasks.alike.reads=['mood', 'same']"),
        *("tasks.alike.reading.gradient=frozen", "tasks.mood.pooling=sum"),
    ],
}


def stage_of(toy: Path, *changes: str) -> Stage:
    run = prepared(toy, *changes)
    return run.make_stage(run, 0)


def output(stage: Stage, task: str, rows: np.ndarray) -> torch.Tensor:
    return stage.forward.output(stage.forward.load(task, rows, ()), NO_DROPOUT)


def trained(toy: Path, run: Path, *changes: str) -> dict[str, torch.Tensor]:
    assert main(["train", str(toy), "--out", str(run), "--set", *changes]) == 0
    return read_checkpoint(run / "final").tensors("model")


class Counter:
    """How many sequences went through the embeddings of a network."""

    def __init__(self, network: Network) -> None:
        self.sequences = 0
        for copy in network.embeddings.values():
            copy.register_forward_hook(self.count)

    def count(self, _module: object, inputs: tuple, _output: object) -> None:
        self.sequences += inputs[0].sequences


@pytest.mark.slow
@pytest.mark.parametrize("changes", PAIRS.values(), ids=PAIRS.keys())
def test_cached_vectors_give_what_the_whole_network_gives(toy, changes):
    cached, live = stage_of(toy, *FROZEN, *changes), stage_of(toy, "sharing.encoder=S2", *changes)
    assert isinstance(cached.forward, Cached)
    assert isinstance(live.forward, Live)
    rows = np.array([5, 0, 39, 5])
    for task in TASKS:
        expected = output(live, task, rows)
        found = output(cached, task, rows)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            cached.dev_forward.outputs(task), live.dev_forward.outputs(task), rtol=1e-5, atol=1e-5
        )


def test_the_heads_get_the_same_gradient(toy):
    cached, live = stage_of(toy, *FROZEN), stage_of(toy, "sharing.encoder=S2")
    for stage in (cached, live):
        output(stage, "same", np.arange(8)).square().sum().backward()
    for name, parameter in cached.network.heads.named_parameters():
        expected = live.network.heads.get_parameter(name).grad
        if name.startswith("same."):
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-4)
        else:
            assert parameter.grad is None
            assert expected is None


def test_each_text_is_encoded_once_in_a_whole_run(toy):
    changes = [*FROZEN, "tasks.same.pair=concat"]
    run = prepared(toy, *changes)
    counter = Counter(run.network)
    stage = run.make_stage(run, 0)
    rows = 40 + 24  # train and dev of each task
    assert counter.sequences == rows + 2 * rows + rows  # mood, both texts of same, alike joined
    for _ in range(3):
        for task in TASKS:
            output(stage, task, np.arange(8))
            stage.dev_forward.outputs(task)
    assert counter.sequences == 4 * rows
    run.make_stage(run, 0)
    assert counter.sequences == 4 * rows  # from the disk


@pytest.mark.slow
def test_another_encoder_is_encoded_anew(toy):
    one, other = stage_of(toy, *FROZEN), stage_of(toy, *FROZEN, "train.seed=5")
    assert encoder_digest(one.network) != encoder_digest(other.network)
    (first,) = one.forward.features["mood"].vectors.values()
    (second,) = other.forward.features["mood"].vectors.values()
    assert not np.allclose(first, second)


def test_the_neck_and_heads_do_not_make_another_encoder(toy):
    one, other = stage_of(toy, *FROZEN), stage_of(toy, *FROZEN, "sharing.neck=S", "train.lr=0.1")
    assert encoder_digest(one.network) == encoder_digest(other.network)


def test_two_runs_may_encode_the_same_rows_at_the_same_time(toy):
    stage, begun = stage_of(toy, "sharing.encoder=S2"), []
    live = stage.forward
    assert isinstance(live, Live)

    def encode(on_progress):
        corpus, pair_format = live.corpora["mood"], live.pair_formats["mood"]
        reading = CorpusEncoding(stage.network, "mood", corpus, pair_format, live.template)
        return encode_corpus(reading, "digest", on_progress=on_progress)

    def meanwhile(_done) -> None:
        if not begun:
            begun.append(True)
            begun.append(encode(ignore_progress))

    outer = encode(meanwhile)
    for mine, theirs in zip(outer.vectors.values(), begun[1].vectors.values(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(list((cache_folder() / "features").iterdir())) == 1


@pytest.mark.slow
def test_frozen_training_moves_norm_neck_and_heads_and_nothing_below(toy, tmp_path):
    changes = [*FROZEN, "sharing.pooled_norm=S", "sharing.neck=S-I"]
    before = prepared(toy, *changes).network.state_dict()
    after = trained(toy, tmp_path / "run", *changes)
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"pooled_norm", "neck", "heads"}
    assert not torch.equal(
        before["pooled_norm.alike+mood+same.weight"], after["pooled_norm.alike+mood+same.weight"]
    )


@pytest.mark.slow
def test_projected_attention_learns_beside_a_frozen_encoder(toy, tmp_path):
    changes = [*FROZEN, "sharing.pal.size=8", "sharing.pal.heads=2"]
    assert isinstance(stage_of(toy, *changes).forward, Live)
    before = prepared(toy, *changes).network.state_dict()
    after = trained(toy, tmp_path / "run", *changes)
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"projected", "heads"}
