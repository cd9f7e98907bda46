"""Slips on the command line and words of other tools are answered with the right ones."""

import pytest


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("eval", "evaluate"), ("predct", "predict"), ("fit", "train"), ("test", "evaluate")],
)
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(cotrunk, typed, meant):
    said = cotrunk(typed, "run")
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert f"did you mean {meant!r}?" in line


def test_an_unknown_option_is_answered_with_the_near_one_and_the_help_of_its_command(cotrunk, toy):
    said = cotrunk("train", toy, "--out", "run", "--sets", "train.epochs=1")
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert line.endswith("did you mean '--set'? (see cotrunk train --help)")


def test_the_internal_key_of_classes_is_not_listed(cotrunk, toy):
    said = cotrunk("plan", toy, "--set", "tasks.mood.zzzz=1")
    assert "known: " in said.err
    assert "file_labels" not in said.err


def test_a_plan_of_one_kind_of_layers_is_answered_with_its_own_kind(cotrunk, toy):
    assert "try 'S2'" in cotrunk("plan", toy, "--set", "sharing.encoder=S3").err
    assert "try 'S1 I1'" in cotrunk("plan", toy, "--set", "sharing.encoder=S3 I1").err


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("epochs=2", "train.epochs"),
        ("weights=minilm", "encoder.weights"),
        ("pal.size=8", "sharing.pal"),
        ("weight=2", "tasks.NAME.weight"),
        ("epoch=2", "train.epochs"),
    ],
)
def test_a_bare_key_is_answered_with_its_table(cotrunk, toy, change, key):
    said = cotrunk("plan", toy, "--set", change)
    assert said.code == 2
    assert f"did you mean {key!r}?" in said.err


@pytest.mark.parametrize(
    ("foreign", "kind"),
    [
        ("regression", "score"),
        ("classification", "classes"),
        ("multiclass", "classes"),
        ("ner", "tags"),
        ("multi-label", "multilabel"),
        ("similarity", "score"),
    ],
)
def test_a_kind_by_its_name_elsewhere_is_answered_with_ours(cotrunk, toy, foreign, kind):
    said = cotrunk("plan", toy, "--set", f"tasks.mood.kind={foreign}")
    assert said.code == 2
    assert f"did you mean {kind!r}?" in said.err


def test_a_misspelt_task_is_answered_with_the_right_one(cotrunk, toy):
    said = cotrunk("plan", toy, "--set", "tasks.moood.weight=2")
    assert said.code == 2
    assert "did you mean the task 'mood'?" in said.err


def test_a_new_task_without_a_kind_is_not_taken_for_one_that_it_resembles(cotrunk, toy):
    text = toy.read_text().replace(
        "[tasks.mood]", '[tasks.moods]\ntrain = "mood.csv"\n\n[tasks.mood]'
    )
    toy.write_text(text)
    said = cotrunk("plan", toy)
    assert said.code == 2
    assert "tasks.moods.kind is missing: set it to one of" in said.err
    assert "mean the task" not in said.err


def test_a_config_whose_last_task_is_removed_has_no_task(cotrunk, toy):
    said = cotrunk("plan", toy, "--unset", "tasks.mood", "tasks.same", "tasks.alike")
    assert said.code == 2
    assert "no task is defined; add one" in said.err


def test_more_threads_than_any_machine_has_are_refused(cotrunk, toy):
    said = cotrunk("train", toy, "--out", "run", "--set", "train.threads=1000000")
    assert said.code == 2
    assert "train.threads = 1000000: must be 1024 or less" in said.err


def test_a_file_behind_the_names_of_tasks_is_the_file(cotrunk, run):
    rows = run.parent / "mood-dev.csv"
    behind = cotrunk("predict", run, "--task", "mood", rows)
    assert behind.code == 0
    assert behind.out == cotrunk("predict", run, rows, "--task", "mood").out
    said = cotrunk("predict", run, "--task", "mood")
    assert said.code == 2
    assert "give a FILE" in said.err
