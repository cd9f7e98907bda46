"""Folders that hold no run, or a damaged one, are refused by every command that uses one."""

import pytest


@pytest.mark.parametrize("command", ["info", "evaluate", "predict"])
@pytest.mark.parametrize("folder", [".", "nowhere", "toy.toml"])
def test_what_is_not_a_run_is_refused(cotrunk, toy, command, folder):
    more = [toy.parent / "mood-dev.csv"] if command == "predict" else []
    said = cotrunk(command, folder, *more)
    assert (said.code, said.out) == (2, "")
    assert f"{folder} is not a run" in said.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_run_that_has_no_network_yet_is_refused(cotrunk, run, command):
    (run / "best").rename(run / "gone")
    more = [run.parent / "mood-dev.csv"] if command == "predict" else []
    said = cotrunk(command, run, *more)
    assert said.code == 2
    assert "has no best/: its training has not saved one yet" in said.err


@pytest.mark.slow
def test_a_best_network_that_was_not_kept_is_not_promised_by_more_training(cotrunk, run):
    said = cotrunk("evaluate", run, "--which", "best-mood")
    assert said.code == 2
    assert "has no best-mood/: it was trained without train.keep_each = true" in said.err


@pytest.mark.slow
def test_damaged_weights_are_refused(cotrunk, run):
    weights = run / "best" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.unlink()  # otherwise final, if it is the same file, is damaged too
    weights.write_bytes(content)
    said = cotrunk("evaluate", run)
    assert said.code == 2
    assert "damaged: model.safetensors" in said.err
    assert "try --which final, or train it again" in said.err
    assert cotrunk("evaluate", run, "--which", "final").code == 0


@pytest.mark.slow
def test_info_says_what_to_do_about_damaged_weights(cotrunk, run):
    (run / "best" / "model.safetensors").unlink()
    said = cotrunk("info", run)
    assert (said.code, said.out) == (2, "")
    assert "try `cotrunk evaluate" in said.err
    assert "--which final`, or train it again" in said.err
    (run / "final" / "model.safetensors").unlink()
    assert cotrunk("info", run).err.rstrip().endswith("found no such file; train it again")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "label_name"),
    [
        (["predict", "run", "mood-devv.csv"], "did you mean 'mood-dev.csv'?"),
        (["evaluate", "run", "--task", "moood"], "did you mean 'mood'?"),
        (["train", "toi.toml"], "did you mean 'toy.toml'?"),
        (["evaluate", "rum"], "rum is not a run: there is no such folder"),
    ],
)
def test_a_slip_on_the_command_line_is_noticed(cotrunk, run, arguments, label_name):
    assert run.is_dir()
    said = cotrunk(*arguments)
    assert said.code == 2
    assert label_name in said.err
