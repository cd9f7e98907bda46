"""What a report tells of a run's training."""

import pytest

from cotrunk.study.records import read_run
from cotrunk.study.report import history
from toy import train

TASKS = ("mood", "same", "alike")


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "counts"), [(3, [3]), (5, [5]), (7, [5, 2])])
def test_the_batches_of_an_epoch_that_max_steps_cuts_off_are_counted(toy, tmp_path, steps, counts):
    """5 steps of each task are an epoch."""
    changes = [f"train.max_steps={steps}", "train.evaluate=never"]
    assert train(toy, tmp_path / "run", "--set", *changes) == 0
    epochs = history.batches(read_run(tmp_path / "run"))
    assert [epoch["drawn"] for epoch in epochs] == [dict.fromkeys(TASKS, n) for n in counts]
    assert ["planned" in epoch for epoch in epochs] == [count == 5 for count in counts]
