"""Low-rank adapters in a run: shared and individual, frozen trunk or not, saved apart or merged."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import cotrunk
from cotrunk.cli.main import main
from cotrunk.model.sharing.parameter_table import parameter_table
from toy import prepared, stage_of, train

LORA = ["sharing.lora.rank=2", "sharing.lora.alpha=4"]
WIDTH, INNER, LAYERS = 32, 64, 2
ONE = 2 * (4 * 2 * WIDTH + 2 * (WIDTH + INNER))
"""Parameters of one layer's adapters of rank 2 on all maps."""


def saved(run: Path, which: str = "best") -> dict[str, torch.Tensor]:
    return load_file(run / which / "model.safetensors")


def moved(config: Path, run: Path, *changes: str) -> set[str]:
    """The series of the parameters that a run has changed."""
    assert train(config, run, "--set", *changes) == 0
    start = prepared(config, *changes).network
    after = saved(run, "final")
    return {
        start.places_of()[name].name
        for name, parameter in start.named_parameters()
        if not torch.equal(parameter.detach(), after[name])
    }


@pytest.mark.slow
@pytest.mark.parametrize("who", ["S", "I", "(same+alike)"])
def test_only_adapters_and_heads_are_trained_in_a_frozen_encoder(toy, tmp_path, who):
    changes = [*LORA, f"sharing.lora.who={who}", "sharing.encoder=S2", "train.freeze=encoder"]
    heads = {"heads.mood", "heads.same", "heads.alike"}
    assert moved(toy, tmp_path / "run", *changes) == {"lora.0", "lora.1", *heads}


@pytest.mark.slow
def test_the_words_of_freeze_and_rates_name_adapters(toy, tmp_path):
    freeze = "train.freeze=embeddings, layers, lora 1, heads mood"
    found = moved(toy, tmp_path / "run", *LORA, freeze, "sharing.encoder=S2")
    assert found == {"lora.1", "heads.same", "heads.alike"}
    changes = [*LORA, 'train.rates={ lora = 1e-30, "lora 9" = 1.0 }']
    assert train(toy, tmp_path / "other", "--set", *changes) == 2


def test_adapters_learn_at_the_rate_of_heads(toy):
    stage = stage_of(toy, *LORA, "train.head_lr=2e-3", "train.layer_decay=0.5")
    names = {parameter: name for name, parameter in stage.trained.items()}
    rates = {
        names[parameter].split(".")[0]: group["lr"]
        for group in stage.optimizer.param_groups
        for parameter in group["params"]
    }
    assert rates["lora"] == rates["heads"] == 2e-3


@pytest.mark.parametrize(("who", "owners"), [("S", 1), ("(same+alike)", 2), ("I", 3)])
def test_the_parameter_table_counts_what_the_network_has(toy, capsys, who, owners):
    changes = [*LORA, f"sharing.lora.who={who}"]
    assert main(["plan", str(toy), "--json", "--set", *changes]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["parameters"]["lora"] == LAYERS * owners * ONE
    network = prepared(toy, *changes).network
    assert parameter_table(network.plan).parameters["total"] == sum(
        parameter.numel() for parameter in network.parameters()
    )


def test_a_run_starts_exactly_where_it_would_without_adapters(toy):
    plain, adapted = (prepared(toy, *changes).network for changes in ([], LORA))
    after = adapted.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in plain.state_dict().items())
    fresh = {name: tensor for name, tensor in after.items() if name.startswith("lora.")}
    assert len(fresh) == LAYERS * 6 * 2
    assert all(tensor.any() == name.endswith(".A") for name, tensor in fresh.items())


def test_all_owners_start_with_equal_adapters_and_a_task_more_does_not_change_them(toy):
    alone, shared = (prepared(toy, *LORA, f"sharing.lora.who={who}").network for who in ("I", "S"))
    (one,) = shared.owned["lora.1"].values()
    for copy in alone.owned["lora.1"].values():
        for name, tensor in copy.state_dict().items():
            assert torch.equal(tensor, one.state_dict()[name])


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_merged_run_answers_as_an_unmerged_one_and_holds_a_plain_encoder(toy, tmp_path, pooling):
    changes = [*LORA, f"encoder.pooling={pooling}", "train.lr=1e-2"]
    apart, merged, plain = (tmp_path / name for name in ("apart", "merged", "plain"))
    assert train(toy, apart, "--set", *changes) == 0
    assert train(toy, merged, "--set", *changes, "sharing.lora.merge_at_save=true") == 0
    assert train(toy, plain, "--set", "train.max_steps=1") == 0
    for which in ("best", "final"):
        assert saved(merged, which).keys() == saved(plain, which).keys()
    assert (apart / "metrics.jsonl").read_bytes() == (merged / "metrics.jsonl").read_bytes()
    rows = ["good plot", "bad actor slow", "tea"]
    one, other = (cotrunk.load(run).predict("mood", rows) for run in (apart, merged))
    for mine, theirs in zip(one, other, strict=True):
        assert mine.probabilities == pytest.approx(theirs.probabilities, abs=1e-5)
    assert json.loads((merged / "best/settings.json").read_text())["sharing"]["lora"] is None
    assert main(["evaluate", str(merged)]) == 0


@pytest.mark.slow
def test_a_merged_run_can_be_the_start_of_one_without_adapters(toy, tmp_path):
    changes = [*LORA, "sharing.lora.merge_at_save=true"]
    assert train(toy, tmp_path / "merged", "--set", *changes) == 0
    assert train(toy, tmp_path / "next", "--set", "train.init_from=merged") == 0


@pytest.mark.slow
def test_adapters_are_handed_from_all_tasks_to_each(toy, tmp_path):
    assert train(toy, tmp_path / "shared", "--set", *LORA) == 0
    changes = [*LORA, "sharing.lora.who=I", "train.init_from=shared"]
    network = prepared(toy, *changes).network
    before = saved(tmp_path / "shared")
    for name, parameter in network.owned["lora.0"]["mood"].named_parameters():
        assert torch.equal(parameter, before[f"lora.0.alike+mood+same.{name}"])


REFUSED = [
    (
        ["sharing.lora.layers=[0, 2]"],
        "sharing.lora.layers: the encoder has layers 0..1 (counted from 0 here); there is no",
    ),
    (
        ['sharing.lora.on=["query", "vaule"]'],
        "sharing.lora.on.1 = 'vaule': must be one of query, key, value, out, up, down; "
        "did you mean 'value'?",
    ),
    (["sharing.lora.on=[]"], "sharing.lora.on = []: must have 1 or more entries"),
    (["sharing.lora.rank=0"], "sharing.lora.rank = 0: must be 1 or more"),
    (["sharing.lora.who=(mood+tone)"], "'tone' is"),
    (
        ["sharing.lora.who=I", "sharing.lora.merge_at_save=true"],
        "sharing.lora.merge_at_save = true: alike+mood+same share layers.0, but "
        "mood and same and alike have different adapters",
    ),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_in_one_line(toy, tmp_path, capsys, changes, said):
    (tmp_path / "mood-train.csv").write_text("nothing\n")  # refused before it is read
    assert train(toy, tmp_path / "run", "--set", *changes) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "run").exists()
