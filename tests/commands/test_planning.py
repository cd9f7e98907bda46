"""plan: every parameter counted, every owner drawn, every senseless plan refused."""

import pytest


@pytest.mark.parametrize(
    ("options", "total"),
    [
        (["--encoder", "S12"], 109_482_240),
        (["--encoder", "I12"], 328_446_720),
        (["--encoder", "S6 I6"], 195_717_888),
        (["--encoder", "S9 I3"], 153_190_656),
        (["--encoder", "S12", "--pooler", "I"], 110_663_424),
        (["--encoder", "I12", "--embeddings", "S"], 280_772_352),
    ],
)
def test_plan_counts_every_parameter_of_bert_base(cotrunk, options, total):
    asked = ["plan", "--shape", "bert-base", "--tasks", "sst,para,sts", *options]
    document = cotrunk(*asked, "--json").document
    assert list(document) == ["parameters", "trained", "bytes", "owners"]
    counts = document["parameters"]
    assert list(counts) == ["embeddings", "layers", "pooler", "neck", "pal", "heads", "total"]
    assert counts["total"] == total == sum(n for part, n in counts.items() if part != "total")
    assert counts["heads"] == 0
    assert document["bytes"] == {"weights": 4 * total, "checkpoint": 12 * total}
    assert f"{total:,}" in cotrunk(*asked).out


def test_plan_draws_tasks_that_share_a_copy_in_one_box(cotrunk):
    drawn = cotrunk("plan", "--tasks", "a,b,c", "--encoder", "S6 (a+b)6", "--pooler", "I").out
    boxes = [line.split("[", 1)[1].replace(" ", "") for line in drawn.splitlines()[:5]]
    assert boxes == ["a][b][c]", "a][b][c]", "a+b][c]", "a+b+c]", "a+b+c]"]


def test_plan_marks_a_group_that_stands_apart_by_letter(cotrunk):
    drawn = cotrunk("plan", "--tasks", "a,b,c", "--encoder", "(a+c)12").out
    assert drawn.splitlines()[1].split("[", 1)[1].replace(" ", "") == "aa][b][ca]"


def test_plan_counts_heads_when_asked(cotrunk):
    document = cotrunk("plan", "--heads", "5,1,1", "--json").document
    assert document["parameters"]["heads"] == 769 * 7


def test_plan_counts_what_is_trained(cotrunk, toy):
    whole = cotrunk("plan", toy, "--json").document
    assert whole["trained"] == whole["parameters"]["total"]
    changes = ["sharing.encoder=S2", "sharing.lora.rank=2", "train.freeze=encoder"]
    adapted = cotrunk("plan", toy, "--set", *changes, "--json").document
    counts = adapted["parameters"]
    assert adapted["trained"] == counts["lora"] + counts["heads"]
    assert "trained" in cotrunk("plan", toy, "--set", *changes).out


def test_plan_of_a_config_is_what_training_builds(cotrunk, toy):
    planned = cotrunk("plan", toy, "--json").document["parameters"]["total"]
    built = cotrunk("train", toy, "--dry-run", "--json").document["parameters"]
    assert planned == built


PLANS = [
    ("does not cover the layers", ["--encoder", "S6"], "covers 6 layers, but the encoder has 12"),
    ("is empty", ["--encoder", ""], "covers 0 layers"),
    ("names no task", ["--encoder", "(sst+foo)12"], "'foo' is not a task"),
    ("has an empty group", ["--encoder", "(|sst)12"], "empty group"),
    ("has a bad count", ["--encoder", "S0 I12"], "a count must be in 1..1000"),
    ("is no plan", ["--encoder", "twelve"], "cannot read 'twelve'"),
    ("has two poolers", ["--pooler", "S2"], "must be one token"),
    ("has no shape", ["--shape", "bert-bse"], "'bert-bse' is not a shape"),
    ("has no tasks", ["--tasks", ""], "'' is not a valid name"),
    ("has a task twice", ["--tasks", "a,a"], "twice"),
    ("has a bad name", ["--tasks", "a+b,c"], "'a+b' is not a valid name"),
    ("does not divide", ["--pal", "100"], "the nearest divisible sizes are 96 or 108"),
    ("has no size", ["--pal", "0"], "must be 1 or more"),
    ("has no pal heads", ["--pal", "204", "--pal-heads", "0"], "must be 1 or more"),
    ("lacks a head", ["--heads", "5,1"], "one number of outputs per task"),
]


@pytest.mark.parametrize(("options", "finding"), [p[1:] for p in PLANS], ids=[p[0] for p in PLANS])
def test_plan_refuses_one_that(cotrunk, options, finding):
    said = cotrunk("plan", *options, "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert finding in said.err
    assert said.err.count("\n") == 1


def test_plan_and_data_check_change_settings_as_training_does(cotrunk, toy):
    changed = ["--set", "sharing.encoder=I2", "tasks.mood.dev=mood-train.csv"]
    planned = cotrunk("plan", toy, *changed, "--json").document["parameters"]["total"]
    assert planned == cotrunk("train", toy, *changed, "--dry-run", "--json").document["parameters"]
    assert planned > cotrunk("plan", toy, "--json").document["parameters"]["total"]
    mood = cotrunk("data", "check", toy, *changed, "--json").document["tasks"]["mood"]
    assert mood["dev"]["rows_in_train"] == mood["dev"]["rows"]


def test_plan_refuses_changes_of_no_config(cotrunk):
    said = cotrunk("plan", "--set", "sharing.encoder=I2")
    assert said.code == 2
    assert "--set needs a config to change" in said.err


def test_plan_takes_a_config_or_options_but_not_both(cotrunk, toy):
    said = cotrunk("plan", toy, "--encoder", "S2")
    assert said.code == 2
    assert "--encoder: " in said.err


def test_plan_leaves_a_gap_where_a_task_has_no_copy(cotrunk, toy):
    drawn = cotrunk("plan", toy, "--set", "tasks.same.pooling=pooler").out.splitlines()
    (pooler,) = [line for line in drawn if line.split()[:1] == ["pooler"] and "[" in line]
    heads = next(line for line in drawn if line.split()[:1] == ["heads"])
    assert pooler.index("same") == heads.index("same")
    assert pooler.count("[") == 1
