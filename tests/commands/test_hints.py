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
