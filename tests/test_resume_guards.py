"""What a user is told when a run is resumed otherwise than it was begun."""

import json
from pathlib import Path

import pytest

import cotrunk
from cotrunk.cli.main import main
from cotrunk.data.tokens.store import cache_folder
from cotrunk.data.tokens.workers import cores
from cotrunk.errors import UserError

CORES = cores()


def train(config: Path, run: Path, *changes: str, more: tuple[str, ...] = ()) -> int:
    asked = ["train", str(config), "--out", str(run), *more]
    return main([*asked, "--set", "train.max_steps=2", *changes])


def resume(config: Path, run: Path, *changes: str) -> int:
    return train(config, run, *changes, more=("--resume",))


def record(run: Path) -> dict[str, object]:
    return json.loads((run / "run.json").read_text())


@pytest.fixture
def run(toy, tmp_path, capsys) -> Path:
    """Two steps with two threads."""
    assert train(toy, tmp_path / "run", "train.threads=2") == 0
    capsys.readouterr()
    return tmp_path / "run"


@pytest.mark.slow
def test_another_number_of_threads_is_a_warning_for_as_long_as_it_differs(toy, run, capsys):
    for _ in range(2):
        assert resume(toy, run, "train.threads=1") == 0
        said = capsys.readouterr().err
        assert said.count("warning: the run was trained with 2 threads, now with 1: ") == 1
        assert "train.threads = 2 avoids that" in said
    assert record(run)["threads"] == 2
    assert resume(toy, run, "train.threads=2") == 0
    assert "trained with" not in capsys.readouterr().err


@pytest.mark.slow
def test_threads_that_were_not_asked_for_are_known_too(toy, tmp_path, capsys):
    toy.write_text(toy.read_text().replace("threads = 1\n", ""))
    run = tmp_path / "run"
    assert train(toy, run) == 0
    used = record(run)["threads"]
    assert resume(toy, run, f"train.threads={used}") == 0
    assert "trained with" not in capsys.readouterr().err
    assert resume(toy, run, f"train.threads={used + 1}") == 0
    said = capsys.readouterr().err
    assert f"warning: the run was trained with {used} thread" in said
    assert f"train.threads = {used} avoids that" in said


@pytest.mark.slow
def test_threads_that_this_machine_has_not_are_not_advised(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(toy, run, f"train.threads={CORES + 1}") == 0
    assert resume(toy, run, "train.threads=1") == 0
    said = capsys.readouterr().err
    assert f"warning: the run was trained with {CORES + 1} threads, now with 1: " in said
    assert "avoids that" not in said


@pytest.mark.slow
def test_a_run_of_an_older_version_knows_no_threads_and_still_goes_on(toy, run, capsys):
    old = record(run)
    del old["threads"]
    old["settings"]["train"]["threads"] = None
    (run / "run.json").write_text(json.dumps(old))
    assert resume(toy, run, "train.threads=1") == 0
    assert "warning: the run was trained" not in capsys.readouterr().err
    assert record(run)["threads"] == 1


@pytest.mark.slow
def test_a_run_that_has_no_checkpoint_yet_takes_the_threads_it_is_given(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(toy, run, "train.threads=2", "train.checkpoint=never") == 0
    assert resume(toy, run, "train.threads=1", "train.checkpoint=never") == 0
    assert "trained with" not in capsys.readouterr().err
    assert record(run)["threads"] == 1


def test_more_threads_than_cores_are_a_warning(toy, tmp_path, capsys):
    assert train(toy, tmp_path / "run", f"train.threads={CORES + 1}", more=("--dry-run",)) == 0
    said = capsys.readouterr().err
    assert f"warning: train.threads = {CORES + 1}, but there" in said
    assert f"{CORES} core" in said
    assert train(toy, tmp_path / "run", f"train.threads={CORES}", more=("--dry-run",)) == 0
    assert "warning: train.threads" not in capsys.readouterr().err


@pytest.mark.slow
def test_resume_says_when_there_was_nothing_to_resume(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert resume(toy, run) == 0
    assert f"note: nothing to resume in {run}: starting a new run\n" in capsys.readouterr().err
    assert resume(toy, run) == 0
    assert "nothing to resume" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_refused_resume_says_that_every_change_is_needed_again(toy, run, capsys):
    assert main(["train", str(toy), "--out", str(run), "--resume"]) == 2
    (said,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("error: ")]
    assert "every --set again" in said
    assert "train.max_steps: was 2, is now not set" in said


@pytest.mark.slow
def test_force_goes_on_with_other_settings(toy, run, capsys):
    more = ("--resume", "--force")
    assert train(toy, run, "train.threads=2", "train.max_steps=3", "train.lr=0.5", more=more) == 0
    said = capsys.readouterr().err
    assert "step 3/3" in said
    assert "note: train.lr: was 0.001, is now 0.5\n" in said
    assert record(run)["settings"]["train"]["lr"] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "change"),
    [
        ("train.ema=0.9", "train.clip=2.0"),
        ("train.loss_weighting=uncertainty", "train.loss_weighting=fixed"),
        ("train.clip=2.0", "train.freeze=encoder"),
        ("train.clip=2.0", "train.max_steps=1"),
    ],
)
def test_what_a_checkpoint_does_not_fit_is_refused_before_the_run_is_changed(
    toy, tmp_path, capsys, begun, change
):
    run = tmp_path / "run"
    begin = ("sharing.encoder=S2", begun)
    assert train(toy, run, *begin) == 0
    before, metrics = record(run), (run / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    changes = ("sharing.encoder=S2", change)
    assert train(toy, run, *changes, more=("--resume", "--force")) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "these settings" in line
    assert record(run) == before
    assert (run / "metrics.jsonl").read_bytes() == metrics
    assert resume(toy, run, *begin) == 0


@pytest.mark.slow
@pytest.mark.parametrize("change", ["sharing.encoder=I2", "tasks.mood.head.depth=2"])
def test_force_cannot_go_on_with_another_network(toy, run, capsys, change):
    before = record(run)
    assert train(toy, run, "train.threads=2", change, more=("--resume", "--force")) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "step-00000002 has a different network" in line
    assert record(run) == before


@pytest.mark.slow
def test_a_run_that_has_ended_says_so(toy, run, capsys):
    assert resume(toy, run, "train.threads=2") == 0
    assert "resuming after step 2; training is already complete" in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--resume",), ("--resume", "--force")])
def test_a_run_json_of_somebody_else_is_left_alone(toy, tmp_path, capsys, more):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/run.json").write_text('{"a": 1}')
    assert train(toy, tmp_path / "mine", more=more) == 2
    assert "run.json was not written by `cotrunk train`" in capsys.readouterr().err
    (left,) = (tmp_path / "mine").iterdir()
    assert left.read_text() == '{"a": 1}'
    assert not cache_folder().exists()  # before data were read


def test_overrides_are_a_list(toy, tmp_path):
    with pytest.raises(
        UserError, match=r"overrides must be a list, as in .*=\['train\.epochs=1'\]"
    ):
        cotrunk.train(toy, tmp_path / "run", overrides="train.epochs=1")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_python_may_force_as_the_command_line_may(toy, run):
    changes = ["train.max_steps=3", "train.threads=2", "train.lr=0.5"]
    with pytest.raises(UserError, match=r"train\.lr: was"):
        cotrunk.train(toy, run, resume=True, overrides=changes)
    assert cotrunk.train(toy, run, resume=True, force=True, overrides=changes).steps == 3
