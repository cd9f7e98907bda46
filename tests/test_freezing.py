"""freeze and rates by place: what moves, how fast, and what is refused."""

import json
from pathlib import Path

import pytest
import torch

from cotrunk.cli.main import main
from cotrunk.infer.forward import Cached, Live
from cotrunk.runs.checkpoint import read_checkpoint
from toy import contents, cut, prepared, stage_of, train

SHARED = "sharing.encoder=S2"


def trained(toy: Path, run: Path, *changes: str) -> dict[str, torch.Tensor]:
    assert train(toy, run, "--set", *changes) == 0
    return read_checkpoint(run / "final").tensors("model")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("freeze", "frozen"),
    [
        ("nothing", set()),
        ("embeddings", {"embeddings"}),
        ("embeddings, layers 1", {"embeddings", "layers.0"}),
        ("layers 2, heads mood", {"layers.1", "heads.mood"}),
        ("pal, neck 1", {"projected", "neck.0"}),
        ("neck", {"neck.0", "neck.1", "pooled_norm"}),
    ],
)
def test_the_places_that_freeze_names_stay_as_they_are_and_all_others_move(
    toy, tmp_path, freeze, frozen
):
    changes = [f"train.freeze={freeze}", SHARED, "sharing.neck=S-S", "sharing.pooled_norm=S"]
    changes += ["sharing.pal.size=8", "sharing.pal.heads=2", "sharing.pal.who=S"]
    changes += ["train.evaluate=never", "train.warmup=0", "train.decay=0"]
    network = prepared(toy, *changes).network
    after, places = trained(toy, tmp_path / "run", *changes), network.places_of()
    still = {n for n, before in network.state_dict().items() if torch.equal(before, after[n])}
    assert still == {name for name, place in places.items() if place.name in frozen}


@pytest.mark.slow
def test_all_below_the_pooled_vectors_by_name_is_the_frozen_encoder(toy, tmp_path):
    """Neither is a pooler there to be named, nor is a text encoded twice."""
    words = stage_of(toy, SHARED, "train.freeze=embeddings, layers 1-2")
    assert isinstance(words.forward, Cached)
    one = trained(toy, tmp_path / "one", SHARED, "train.freeze=encoder")
    other = trained(toy, tmp_path / "other", SHARED, "train.freeze=embeddings, layers")
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        (["train.freeze=layers"], False),
        (["train.freeze=embeddings, layers", "encoder.pooling=pooler"], False),
        (["train.freeze=embeddings, layers, pooler", "encoder.pooling=pooler"], True),
        (["train.freeze=encoder", "sharing.pal.size=8", "sharing.pal.heads=2"], False),
        (
            [
                "train.freeze=encoder, pal",
                *("sharing.pal.size=8", "sharing.pal.heads=2", "sharing.pal.who=S"),
            ],
            True,
        ),
    ],
)
def test_vectors_are_kept_if_all_they_go_through_is_frozen(toy, changes, kept):
    assert isinstance(stage_of(toy, SHARED, *changes).forward, Cached if kept else Live)


@pytest.mark.slow
def test_vectors_of_another_projected_attention_are_not_taken_for_ours(toy):
    """One activation more changes no tensor, but every vector."""
    pal = ["sharing.pal.size=8", "sharing.pal.heads=2", "sharing.pal.who=S"]
    changes = [SHARED, "train.freeze=encoder, pal", *pal]
    one, other = (stage_of(toy, *changes, f"sharing.pal.gelu={on}") for on in ("false", "true"))
    for task, features in one.forward.features.items():
        (ours,), (theirs,) = (
            features.vectors.values(),
            other.forward.features[task].vectors.values(),
        )
        assert ours.filename != theirs.filename


@pytest.mark.slow
def test_a_run_that_freezes_places_and_has_rates_resumes_bit_identically(toy, tmp_path):
    changes = ["train.freeze=embeddings, layers 1", "train.rates.heads mood=1e-2"]
    changes += ["train.checkpoint=1", "train.gradients=pcgrad", SHARED]
    assert train(toy, tmp_path / "whole", "--set", *changes) == 0
    cut(toy, tmp_path / "cut", changes, after=3)
    assert train(toy, tmp_path / "cut", "--resume", "--set", *changes) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_a_place_with_a_rate_has_neither_that_of_the_heads_nor_a_decay_by_depth(toy):
    changes = ["train.lr=1e-3", "train.head_lr=1e-2", "train.layer_decay=0.5", "sharing.neck=S"]
    rates = 'train.rates={"layers 1" = 3e-4, neck = 5e-3, "heads same" = 0.1}'
    stage = stage_of(toy, *changes, rates)
    names = {id(parameter): name for name, parameter in stage.network.named_parameters()}
    places = stage.network.places_of()
    found = {
        places[names[id(parameter)]].name: group["lr"]
        for group in stage.optimizer.param_groups
        for parameter in group["params"]
    }
    assert found == pytest.approx(
        {
            **{"embeddings": 2.5e-4, "layers.0": 3e-4, "layers.1": 1e-3, "neck.0": 5e-3},
            **{"heads.mood": 1e-2, "heads.same": 0.1, "heads.alike": 1e-2},
        }
    )


EVERYTHING = "train.freeze=embeddings, layers, heads"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["train.freeze=embedings"],
            "train.freeze = 'embedings': 'embedings' is not a part of this plan; parts are "
            "encoder, embeddings, layers, heads; did you mean 'embeddings'?",
        ),
        (
            ["train.freeze=pooler"],
            "'pooler' is not a part of this plan; parts are encoder, embeddings, layers, heads",
        ),
        (
            ["train.freeze=layers 1-3"],
            "this plan has layers 1-2, but no number 3",
        ),
        (["train.freeze=heads moood"], "'moood' is not a task with heads; tasks are mood, same"),
        (
            [EVERYTHING, SHARED],
            "train.freeze = 'embeddings, layers, heads' freezes the whole network; "
            "leave a part out, such as heads",
        ),
        (
            ["train.freeze=embeddings, layers", SHARED, "train.regularize=smart"],
            '"smart" perturbs the embeddings, but with freeze = "embeddings, layers" they',
        ),
        (
            ["train.freeze=layers 2"],
            'train.freeze = "layers 2", but the plan has several copies of layers.1: frozen copies '
            'stay equal; write sharing.encoder = "S2"',
        ),
        (
            ["train.freeze=neck", "sharing.neck=I"],
            "several copies of neck.0: frozen copies stay equal; share neck.0 among all tasks",
        ),
        (["train.rates.hands=1e-3"], "train.rates, 'hands': 'hands' is not a part of this plan"),
        (
            ["train.rates.layers 9=1e-3"],
            "train.rates, 'layers 9': this plan has layers 1-2, but no number 9",
        ),
        (["train.rates.neck=0"], "train.rates.neck = 0: must be above 0"),
        (
            ["train.rates.layers=1e-3", "train.rates.layers 1=1e-4"],
            "train.rates: layers.0 is in 'layers' and in 'layers 1'; it can have only one rate",
        ),
        (
            ["train.rates.layers 1=1e-3", "train.freeze=layers 1"],
            "train.rates: 'layers 1' has no effect, because freeze = 'layers 1' freezes it",
        ),
        (
            ["train.freeze=layers", SHARED, "train.gradients=pcgrad", "sharing.embeddings=I"],
            "in this plan no two tasks train the same parameter",
        ),
        (
            ['stages=[{freeze="encoder"}, {freeze="layer 1"}]', SHARED],
            "stages 2: freeze = 'layer 1': 'layer' is not a part",
        ),
        (
            ["train.freeze=encoder, heads mood", SHARED],
            "error: train.freeze = 'encoder, heads mood': nothing that task mood trains is left; ",
        ),
        (
            ['stages=[{tasks=["mood"], freeze="encoder, heads mood"}, {}]', SHARED],
            "error: stages 1: freeze = 'encoder, heads mood': nothing that task mood trains is ",
        ),
    ],
)
def test_freezing_without_sense_is_refused_with_what_to_write(toy, capsys, changes, line):
    (toy.parent / "mood-train.csv").write_text("nothing\n")  # refused before it is read
    assert train(toy, toy.parent / "run", "--set", *changes) == 2
    assert not (toy.parent / "run").exists()
    (said,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("error: ")]
    assert line in said


@pytest.mark.slow
def test_copies_that_were_trained_apart_may_be_frozen(toy, tmp_path):
    trained(toy, tmp_path / "first", "train.max_steps=2")
    changes = [f"train.init_from={tmp_path / 'first'}", "train.freeze=encoder"]
    assert train(toy, tmp_path / "second", "--set", *changes) == 0


def test_plan_counts_no_moments_for_what_no_stage_trains(toy, capsys):
    def checkpoint(*changes: str) -> int:
        assert main(["plan", str(toy), "--json", "--set", SHARED, *changes]) == 0
        return json.loads(capsys.readouterr().out)["bytes"]["checkpoint"]

    network = prepared(toy, SHARED).network
    held = sum(p.numel() for p in network.owned["layers.0"].copy_of("mood").parameters())
    assert checkpoint() - checkpoint("train.freeze=layers 1") == 8 * held
    stages = 'stages=[{freeze="layers"}, {freeze="layers 1"}]'
    assert checkpoint() - checkpoint(stages) == 8 * held
