"""Run folders read as plain values: what they say, how they are grouped, which are broken."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cotrunk
from cotrunk.errors import UserError
from cotrunk.runs.folder import RunFolder
from cotrunk.study.records import find_runs, group_runs, read_run, read_runs
from toy import train_until


@pytest.fixture
def run(several_runs, tmp_path):
    """A run to break."""
    shutil.copytree(several_runs / "apart", tmp_path / "run")
    return tmp_path / "run"


def test_the_kept_outputs_give_the_scores_of_the_evaluation(several_runs):
    record = read_run(several_runs / "shared" / "1")
    assert list(record.tasks) == ["mood", "same", "alike"]
    for task in record.tasks.values():
        again = task.labels.scores(task.output, task.target, counts=task.counts)
        assert again.score == pytest.approx(task.score["score"], abs=1e-9)
        assert len(task.rows) == again.rows == 24
    kept = json.loads((several_runs / "shared/1/best/evaluation.json").read_text())
    assert record.overall == {key: kept["overall"][key] for key in ("official", "mean")}


def test_a_record_knows_what_the_run_is_and_costs(several_runs):
    record = read_run(several_runs / "shared" / "2")
    assert (record.seed, record.state, record.steps) == (2, "finished", 3)
    assert record.trained_parameters == record.parameters
    weights = several_runs / "shared/2/best/model.safetensors"
    assert record.bytes["weights"] == weights.stat().st_size
    assert record.bytes["checkpoint"] > 3 * 4 * record.parameters
    assert record.cost.seconds["train"] > 0
    assert [entry["event"] for entry in record.history].count("step") == 3


WORDS = """
[encoder]
weights = "random:tiny"
[tasks.names]
kind = "tags"
text = ["words"]
label = "tags"
train = "words.jsonl"
dev = "words.jsonl"
[train]
batch = 4
"""


def test_tasks_about_words_keep_the_number_of_words_of_each_row(tmp_path):
    words = [{"words": ["tea"] * n, "tags": ["B-X", *["O"] * (n - 1)]} for n in (1, 3, 5, 2)]
    (tmp_path / "words.jsonl").write_text("\n".join(map(json.dumps, words)))
    config = tmp_path / "words.toml"
    config.write_text(WORDS)
    train_until(config, tmp_path / "run", "train.max_steps=2")
    task = read_run(tmp_path / "run").tasks["names"]
    assert task.counts.tolist() == [1, 3, 5, 2]
    assert len(task.output) == len(task.target) == 11
    again = task.labels.scores(task.output, task.target, counts=task.counts)
    assert again.score == pytest.approx(task.score["score"])
    assert task.labels.names == ("O", "B-X", "I-X")  # fitted, though the config does not say so
    (answer,) = cotrunk.load(tmp_path / "run").predict("names", [["tea", "river"]])
    assert len(answer.prediction) == 2


def test_runs_are_found_at_any_depth_in_order_and_once(several_runs):
    names = ["apart", "other", "pairs", "shared/1", "shared/2"]
    assert find_runs([several_runs]) == [several_runs / name for name in names]
    again = find_runs([several_runs / "shared" / "2", several_runs / "shared"])
    assert again == [several_runs / "shared" / "2", several_runs / "shared" / "1"]


def test_a_run_with_two_names_is_found_once_and_links_do_not_lead_in_circles(
    several_runs, tmp_path, monkeypatch
):
    monkeypatch.chdir(several_runs)
    assert find_runs([Path("apart"), several_runs / "apart"]) == [Path("apart")]
    (tmp_path / "linked").symlink_to(several_runs / "apart")
    (tmp_path / "again").symlink_to(tmp_path)
    assert find_runs([tmp_path, several_runs / "apart"]) == [tmp_path / "linked"]


@pytest.mark.slow
def test_a_copy_of_a_run_is_not_another_seed(several_runs, tmp_path):
    original = several_runs / "shared" / "1"
    shutil.copytree(original, tmp_path / "copy")
    records, _ = read_runs([original, tmp_path / "copy", several_runs / "shared" / "2"])
    (group,) = group_runs(records)
    assert [run.seed for run in group.runs] == [1, 2]
    (copy,) = group.counted_once
    assert copy.path == tmp_path / "copy"
    assert str(original) in copy.why


def test_of_two_runs_with_one_seed_the_finished_one_counts(several_runs):
    finished = read_run(several_runs / "apart")
    stopped = replace(finished, state="stopped")
    (group,) = group_runs([stopped, finished])
    assert (group.runs, group.repeats) == ((finished,), (stopped,))


def test_folders_without_runs_are_all_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as caught:
        find_runs([tmp_path / "empty", tmp_path / "missing"])
    first, second = caught.value.lines
    assert "has no runs in it" in first
    assert "no such folder" in second


def test_seeds_are_one_group_and_choices_are_what_differs(several_runs):
    records, _ = read_runs(find_runs([several_runs / "shared", several_runs / "apart"]))
    shared, apart = group_runs(records)
    assert [run.seed for run in shared.runs] == [1, 2]
    assert shared.choices == {"sharing.encoder": "S1 I1"}
    assert apart.choices == {"sharing.encoder": "I2"}
    assert group_runs(records[:2])[0].choices == {}


def test_tasks_that_only_some_runs_have_are_one_choice(several_runs):
    shared, pairs = (read_run(several_runs / name) for name in ("shared/1", "pairs"))
    found = [group.choices for group in group_runs([shared, pairs])]
    assert found == [{"tasks": "mood + same + alike"}, {"tasks": "same + alike"}]


def test_a_setting_of_such_a_task_is_a_choice_of_the_runs_that_have_it(several_runs):
    shared, pairs = (read_run(several_runs / name) for name in ("shared/1", "pairs"))
    tasks = shared.settings["tasks"]
    heavier = {**shared.settings, "tasks": {**tasks, "mood": {**tasks["mood"], "weight": 2.0}}}
    records = [shared, replace(shared, settings=heavier), pairs]
    one, other, third = (group.choices for group in group_runs(records))
    assert list(one) == list(other) == ["tasks", "tasks.mood.weight"]
    assert other["tasks.mood.weight"] == 2.0 != one["tasks.mood.weight"]
    assert third == {"tasks": "same + alike"}


def test_a_run_that_was_stopped_says_where(run):
    assert read_run(run).unfinished == ""
    shutil.rmtree(run / "final")
    assert read_run(run).unfinished == "stopped at step 3"
    (run / "trial.json").write_text('{"steps": 120, "stopped": 3}')
    assert read_run(run).unfinished == "stopped at step 3 of 120"
    (run / "trial.json").write_text("[]")
    assert read_run(run).unfinished == "stopped at step 3"


def test_runs_that_are_tracked_elsewhere_are_one_plan(several_runs):
    first, second = (read_run(several_runs / "shared" / seed) for seed in "12")
    track = {"to": ["tensorboard"], "folder": "tracked"}
    tracked = replace(second, settings={**second.settings, "track": track})
    (group,) = group_runs([first, tracked])
    assert [run.seed for run in group.runs] == [1, 2]


def test_a_file_counts_by_its_contents_not_by_its_name(several_runs, tmp_path):
    copied = tmp_path / "copy"
    shutil.copytree(several_runs / "shared" / "1", copied)
    record = json.loads((copied / "run.json").read_text())
    record["settings"]["tasks"]["mood"]["train"] = "elsewhere/mood.csv"
    record["settings"]["train"]["threads"] = 2
    (copied / "run.json").write_text(json.dumps(record))
    paths = [several_runs / "shared" / "1", copied]
    assert len(group_runs(read_runs(paths)[0])) == 1
    record["data"]["train"]["mood"] = "0" * 64
    (copied / "run.json").write_text(json.dumps(record))
    first, second = group_runs(read_runs(paths)[0])
    assert first.choices == {"tasks.mood.train": "mood-train.csv"}
    assert second.choices == {"tasks.mood.train": "elsewhere/mood.csv"}


def damage_weights(run):
    with (run / "best" / "dev.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 1]))


BREAKING = {
    "no run.json": (lambda run: (run / "run.json").unlink(), "has no run.json"),
    "half a run.json": (
        lambda run: (run / "run.json").write_bytes((run / "run.json").read_bytes()[:99]),
        "is not JSON",
    ),
    "another JSON": (lambda run: (run / "run.json").write_text("[]"), "it has no settings"),
    "an old run": (
        lambda run: (run / "run.json").write_text('{"settings": {}}'),
        "older version",
    ),
    "settings that are not ours": (
        lambda run: (run / "run.json").write_text('{"settings": {}, "parameters": {}}'),
        "parameters.total is missing",
    ),
    "changed predictions": (damage_weights, "is damaged"),
    "a missing file": (lambda run: (run / "best" / "settings.json").unlink(), "is damaged"),
    "metrics that are not JSON": (
        lambda run: (run / "metrics.jsonl").write_text("{}\nx\n"),
        "metrics.jsonl:2: not JSON",
    ),
    "timing that is not an object": (
        lambda run: (run / "timing.jsonl").write_text("3\n"),
        "timing.jsonl:1: must be a JSON object",
    ),
    "costs without numbers": (
        lambda run: (run / "timing.jsonl").write_text('{"event": "cost", "phase": "train"}\n'),
        "timing.jsonl:1: seconds is missing",
    ),
}


@pytest.mark.parametrize("breaking", BREAKING)
def test_a_broken_run_is_said_in_a_line_and_the_others_are_read(several_runs, run, breaking):
    break_it, finding = BREAKING[breaking]
    break_it(run)
    (record,), (broken,) = read_runs([run, several_runs / "apart"])
    assert record.path == several_runs / "apart"
    assert broken.path == run
    assert finding in broken.why
    assert "\n" not in broken.why


@pytest.mark.slow
def test_a_run_is_running_while_a_process_holds_it_and_stopped_after(toy, tmp_path):
    train_until(toy, tmp_path / "run", "train.checkpoint=2", stop=7)
    assert read_run(tmp_path / "run").state == "stopped"
    with RunFolder(tmp_path / "run").lock():
        assert read_run(tmp_path / "run").state == "running"
    assert read_run(tmp_path / "run").state == "stopped"


@pytest.mark.slow
def test_a_run_killed_on_this_machine_is_not_running(toy, tmp_path):
    train_until(toy, tmp_path / "run", "train.checkpoint=2", stop=7)
    with RunFolder(tmp_path / "run").lock():
        held = (tmp_path / "run" / ".lock").read_text()
    number = held.split()[1]
    (tmp_path / "run" / ".lock").write_text(held.replace(number, str(2**22 + 1)))
    assert read_run(tmp_path / "run").state == "stopped"


def test_a_run_whose_lock_is_not_text_is_not_running(toy, tmp_path):
    train_until(toy, tmp_path / "run", stop=2)
    (tmp_path / "run" / ".lock").write_bytes(b"\xff")
    assert read_run(tmp_path / "run").state == "stopped"


def test_a_run_without_scores_can_be_read(toy, tmp_path):
    train_until(toy, tmp_path / "run", "train.evaluate=never", stop=3)
    record = read_run(tmp_path / "run")
    assert not record.tasks
    assert set(record.overall.values()) == {None}
    assert record.bytes["weights"] is None


def test_equal_digests_mean_equal_rows(several_runs):
    one, two = (read_run(several_runs / "shared" / seed).tasks for seed in "12")
    other = read_run(several_runs / "other").tasks
    assert one["mood"].dev == two["mood"].dev != other["mood"].dev
    assert one["same"].dev == other["same"].dev
    assert np.array_equal(one["mood"].rows[:20], other["mood"].rows)


def test_a_run_with_a_cut_log_is_broken_not_empty(run):
    log = run / "metrics.jsonl"
    log.write_bytes(log.read_bytes()[:200])
    assert [each.path for each in read_runs([run])[1]] == [run]
    with pytest.raises(UserError, match=r"metrics\.jsonl: was changed"):
        read_run(run)


def test_a_run_whose_best_network_is_gone_is_broken_not_unevaluated(run):
    shutil.rmtree(run / "best")
    with pytest.raises(UserError, match="best: no such folder"):
        read_run(run)
