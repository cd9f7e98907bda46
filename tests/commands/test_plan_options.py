"""`plan` of a config beside the options that describe one without it."""

import pytest

from cotrunk.cli.main import main

OPTIONS = [
    (["--encoder", "S1 I1"], "--encoder", "--set 'sharing.encoder=S1 I1'"),
    (["--shape", "tiny"], "--shape", "--set encoder.weights=random:tiny"),
    (["--embeddings", "I"], "--embeddings", "--set sharing.embeddings=I"),
    (["--pooler", "I"], "--pooler", "--set sharing.pooler=I"),
    (["--neck", "S-I"], "--neck", "--set sharing.neck=S-I"),
    (["--pal", "12"], "--pal", "--set sharing.pal.size=12"),
    (["--pal-heads", "3"], "--pal-heads", "--set sharing.pal.heads=3"),
    (["--pal-who", "S"], "--pal-who", "--set sharing.pal.who=S"),
    (["--freeze"], "--freeze", "--set train.freeze=encoder"),
]


@pytest.mark.parametrize(("options", "name", "change"), OPTIONS, ids=[o[1] for o in OPTIONS])
def test_an_option_beside_a_config_is_told_its_change(toy, capsys, options, name, change):
    assert main(["plan", str(toy), *options]) == 2
    said = f"{toy} already sets it; change it there, or use {change} instead"
    assert capsys.readouterr().err == f"error: {name}: {said}\n"


@pytest.mark.parametrize("change", [change for _, _, change in OPTIONS])
def test_the_change_that_is_told_is_one_that_can_be_made(toy, capsys, change):
    pal = ["sharing.pal.size=12"] if ".pal." in change else []
    written = change.removeprefix("--set ").strip("'")
    assert main(["plan", str(toy), "--set", *pal, written]) == 0
    assert capsys.readouterr().err == ""


def test_options_that_no_single_change_says_are_to_be_changed_in_the_config(toy, capsys):
    assert main(["plan", str(toy), "--tasks", "a,b", "--encoder", "S2"]) == 2
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == [
        "--tasks",
        "--encoder",
    ]
