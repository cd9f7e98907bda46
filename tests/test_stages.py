"""Stages of training: what each moves, how fast, in which order, and what makes no sense."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cotrunk.data.tokens.store import cache_folder
from cotrunk.learn.loop import train as train_network
from cotrunk.learn.run import Interrupted
from cotrunk.progress import ProgressUpdate
from cotrunk.runs.checkpoint import read_checkpoint
from cotrunk.runs.folder import RunFolder
from toy import contents, cut, prepared, train

STEPS = 5  # of an epoch: 40 rows, 8 in a batch
ENCODER = ("embeddings.", "layers.", "pooler.")
STAGES = """
[[stages]]
freeze = "encoder"
epochs = 1

[[stages]]
lr = 1e-4
epochs = 1
"""


@pytest.fixture
def staged(toy: Path) -> Path:
    """Frozen for an epoch, then tuned for one."""
    toy.write_text(toy.read_text() + STAGES)
    return toy


def metrics(run: Path) -> list[dict]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in records if record["event"] == "step"]


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return read_checkpoint(run / "checkpoints" / f"step-{step:08d}").tensors("model")


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def refusal(config: Path, capsys: pytest.CaptureFixture[str], *changes: str) -> str:
    more = ["--set", *changes] if changes else []
    assert train(config, config.parent / "run", *more) == 2
    assert not (config.parent / "run").exists()
    lines = capsys.readouterr().err.splitlines()
    return next(line for line in lines if line.startswith("error: "))


@pytest.mark.slow
def test_a_frozen_stage_moves_the_heads_and_the_next_one_everything(staged, tmp_path):
    start = prepared(staged).network.state_dict()
    run = tmp_path / "run"
    assert train(staged, run, "--set", f"train.checkpoint={STEPS}") == 0
    middle, end = weights(run, STEPS), weights(run, 2 * STEPS)
    assert {name.split(".")[0] for name in changed(start, middle)} == {"heads"}
    assert changed(middle, end) == set(start)


@pytest.mark.slow
def test_every_stage_has_its_rate_and_its_own_schedule(staged, tmp_path):
    assert train(staged, tmp_path / "run", "--set", "train.schedule=linear", "train.warmup=0") == 0
    rates = [record["lr"] for record in metrics(tmp_path / "run")]
    expected = [rate * (STEPS - step) / STEPS for rate in (1e-3, 1e-4) for step in range(STEPS)]
    assert rates == pytest.approx(expected)


MORE = {
    "plain": [],
    "pcgrad": ["train.gradients=pcgrad"],
    "norm and soft": ["sharing.pooled_norm=S", "sharing.soft.l2=1e-3"],
}


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE.values(), ids=MORE.keys())
def test_a_run_cut_in_any_stage_and_resumed_is_bit_identical(staged, tmp_path, more):
    changes = ["train.checkpoint=1", *more]
    assert train(staged, tmp_path / "whole", "--set", *changes) == 0
    # In the first stage, at the boundary, in the second; after it alone where more is set.
    for after in (STEPS + 1,) if more else (3, STEPS, STEPS + 1, 8):
        run = tmp_path / f"cut {after}"
        cut(staged, run, changes, after=after)
        assert train(staged, run, "--resume", "--set", *changes) == 0
        assert contents(run) == contents(tmp_path / "whole"), after


@pytest.mark.slow
def test_checkpoints_of_the_boundary_alone_are_enough(staged, tmp_path):
    """A checkpoint at the end of a stage is also the beginning of the next."""
    assert train(staged, tmp_path / "whole") == 0
    cut(staged, tmp_path / "cut", [], after=STEPS + 2)
    assert train(staged, tmp_path / "cut", "--resume") == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_the_sequential_law_goes_through_the_tasks_one_after_another(toy, tmp_path):
    changes = ["train.sampling=sequential", "train.evaluate=never"]
    assert train(toy, tmp_path / "run", "--set", *changes) == 0
    order = [task for record in metrics(tmp_path / "run") for task in record["loss"]]
    one_epoch = ["mood"] * STEPS + ["same"] * STEPS + ["alike"] * STEPS
    assert order == one_epoch * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "epochs"),
    [("epochs = 1", 1), ("epochs = 3\nlr = 1e-30\nearly_stopping = 1", 3)],
    ids=["in full", "stopped early"],
)
def test_a_stop_while_the_next_stage_encodes_loses_nothing(toy, tmp_path, first, epochs):
    stages = f'\n[[stages]]\n{first}\n\n[[stages]]\nepochs = 1\nfreeze = "encoder"\n'
    toy.write_text(toy.read_text() + stages)
    changes = ["sharing.encoder=S2", "train.checkpoint=never"]
    assert train(toy, tmp_path / "whole", "--set", *changes) == 0
    shutil.rmtree(cache_folder() / "features")
    run = RunFolder.create(tmp_path / "cut")
    ready = prepared(toy, *changes, out=run.path)

    def stop(done: ProgressUpdate) -> None:
        if done.what.startswith("encoding "):
            ready.interrupt.signal = 2

    with pytest.raises(Interrupted):
        list(train_network(replace(ready, on_progress=stop), None))
    assert [path.name for path in run.checkpoints.iterdir()] == [f"step-{epochs * STEPS:08d}"]
    assert not list((cache_folder() / "features").iterdir())
    assert train(toy, run.path, "--resume", "--set", *changes) == 0
    whole, resumed = (
        read_checkpoint(tmp_path / name / "final").tensors("model") for name in ("whole", "cut")
    )
    assert not changed(whole, resumed)
    assert (tmp_path / "whole/metrics.jsonl").read_bytes() == run.metrics.read_bytes()


@pytest.mark.slow
def test_stages_may_differ_in_their_sampling(toy, tmp_path):
    stages = '\n[[stages]]\nepochs = 1\n\n[[stages]]\nepochs = 1\nsampling = "sequential"\n'
    toy.write_text(toy.read_text() + stages)
    assert train(toy, tmp_path / "run", "--set", "train.evaluate=never") == 0
    tasks = [len(record["loss"]) for record in metrics(tmp_path / "run")]
    assert tasks == [3] * STEPS + [1] * 3 * STEPS


def test_heads_learn_at_their_own_rate_and_layers_slower_the_deeper_they_lie(toy):
    changes = ["train.lr=1e-3", "train.head_lr=1e-2", "train.layer_decay=0.5", "sharing.neck=S"]
    run = prepared(toy, *changes)
    stage = run.make_stage(run, 0)
    names = {id(parameter): name for name, parameter in stage.network.named_parameters()}
    rates = {
        names[id(parameter)]: group["lr"]
        for group in stage.optimizer.param_groups
        for parameter in group["params"]
    }
    assert rates.keys() == set(names.values())
    expected = {"embeddings": 2.5e-4, "layers.0": 5e-4, "layers.1": 1e-3, "neck": 1e-2}
    for name, rate in rates.items():
        place = next((place for place in expected if name.startswith(f"{place}.")), "heads")
        assert rate == pytest.approx(expected.get(place, 1e-2)), name


def test_a_rate_of_its_own_is_what_a_parameter_moves_by(toy, tmp_path):
    """The first step of AdamW is as long as the rate, wherever the gradient is large enough."""
    changes = ["train.max_steps=1", "train.lr=1e-4", "train.head_lr=1e-2", "train.schedule=none"]
    changes += ["train.warmup=0", "train.decay=0", "train.clip=0", "train.evaluate=never"]
    before = prepared(toy, *changes).network.state_dict()
    assert train(toy, tmp_path / "run", "--set", *changes) == 0
    after = read_checkpoint(tmp_path / "run" / "final").tensors("model")

    def longest(prefix: str) -> float:
        names = [name for name in before if name.startswith(prefix)]
        return max((after[name] - before[name]).abs().max().item() for name in names)

    assert longest("heads.") == pytest.approx(1e-2, rel=1e-2)
    assert longest("layers.") == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.slow
def test_top_layers_that_are_reset_start_afresh_and_no_others(toy):
    changes = ["encoder.weights=minilm", "sharing.encoder=S6"]
    plain = prepared(toy, *changes)
    reset = prepared(toy, *changes, "encoder.reset_layers=2")
    found = changed(plain.network.state_dict(), reset.network.state_dict())
    assert {".".join(name.split(".")[:2]) for name in found} == {"layers.4", "layers.5"}
    assert any("initialised at random: layers.4." in note for note in reset.notes)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["train.freeze=encoder"],
            'train.freeze = "encoder", but the plan has several copies of layers.1: frozen copies '
            'stay equal; write sharing.encoder = "S2"',
        ),
        (
            ["train.freeze=encoder", "sharing.encoder=S2", "sharing.embeddings=I"],
            'but the plan has several copies of embeddings: frozen copies stay equal; '
            'write sharing.encoder = "S2" and sharing.embeddings = "S"',
        ),
        (
            ["tasks.same.reads=['same']"],
            "tasks.same.reads: a task cannot read itself; remove 'same'",
        ),
        (["tasks.same.reads=['moood']"], "'moood' is not a task; tasks are mood, same, alike"),
        (["tasks.same.reads=['mood', 'mood']"], "tasks.same.reads lists 'mood' 2 times"),
        (["tasks.mood.reads=['same']"], "'same' needs two texts, but mood has one"),
        (
            ["tasks.alike.reads=['same']", "tasks.same.reads=['alike']"],
            "heads cannot read each other in a cycle: alike reads same reads alike; remove one of",
        ),
        (
            ["tasks.alike.reads=['same']", "tasks.same.pair=concat"],
            "'same' must have the same pair, segments and swap; pair is 'concat' there",
        ),
        (["sharing.encoder=S1 (same+alik)"], "'alik' is not a task"),
        (["sharing.neck=(same|same)"], "(same|same) names 'same' twice"),
        (["sharing.encoder=S3"], "covers 3 layers, but the encoder has 2; try"),
        (
            ["sharing.pal.size=8", "sharing.pal.heads=2", "sharing.pal.layers=[0, 2]"],
            "the encoder has layers 0..1 (counted from 0 here); there is no layer 2; list some of",
        ),
        (
            ["sharing.pal.size=8", "sharing.pal.heads=2", "sharing.pal.layers=[]"],
            'the list is empty; list some of these, or use layers = "all"',
        ),
        (
            ["sharing.pal.size=10", "sharing.pal.heads=4"],
            "is not divisible by sharing.pal.heads = 4; the nearest divisible sizes are 8 or 12",
        ),
        (["sharing.pal.size=8", "sharing.pal.heads=2", "sharing.pal.who=S I"], "must be one token"),
        (["tasks.same.pair=cosine"], 'pair = "cosine" needs kind = "score" and a range'),
        (
            ["tasks.alike.pair=cosine", "tasks.alike.reads=['mood']"],
            'reads needs a head with layers, but pair = "cosine" has none; use pair = "all"',
        ),
        (["tasks.mood.swap=true"], 'tasks.mood.swap needs two texts and pair = "joined"'),
    ],
)  # fmt: skip
def test_a_scheme_without_sense_is_refused_with_what_to_write(toy, capsys, changes, line):
    assert line in refusal(toy, capsys, *changes)


def test_stages_that_are_all_frozen_cannot_train_a_copied_encoder(staged, capsys):
    staged.write_text(staged.read_text().replace("lr = 1e-4", 'lr = 1e-4\nfreeze = "encoder"'))
    assert 'freeze = "encoder", but the plan has several copies of layers.1' in refusal(
        staged, capsys
    )


FLAT = 'warmup = 0, but schedule = "one-cycle" needs a warmup; '


def test_one_cycle_without_warmup_is_refused_with_what_to_write(toy, capsys):
    changes = ["train.schedule=one-cycle", "train.warmup=0.0"]
    assert refusal(toy, capsys, *changes) == (
        f"error: train.{FLAT}remove train.warmup, or set it above 0, as in train.warmup = 0.3"
    )
    dry = [toy, toy.parent / "run", "--dry-run", "--set"]
    assert train(*dry, *changes, "train.warmup=0.3") == 0
    assert train(*dry, "train.schedule=one-cycle") == 0


def test_one_cycle_without_warmup_is_refused_in_every_stage(staged, capsys):
    staged.write_text(staged.read_text() + 'schedule = "one-cycle"\n')
    line = refusal(staged, capsys, "train.warmup=0")
    assert line.startswith(f"error: stages 2: train.{FLAT}remove train.warmup")
    staged.write_text(staged.read_text() + "warmup = 0\n")
    line = refusal(staged, capsys)
    assert line.startswith(f"error: stages 2: {FLAT}remove warmup")
    assert line.endswith("or set it above 0, as in warmup = 0.3")


def test_a_wrong_key_in_a_stage_is_named_with_its_stage(staged, capsys):
    staged.write_text(staged.read_text().replace("lr = 1e-4", "learning_rate = 1e-4"))
    line = refusal(staged, capsys)
    assert "stages 2" in line
    assert "learning_rate" in line
