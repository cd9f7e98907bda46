"""The grammar of plans, and what it refuses."""

import pytest

from cotrunk.errors import UserError
from cotrunk.model.sharing.plan import (
    Plan,
    alone,
    everyone,
    group_name,
    make_plan,
    parse_partitions,
)

TASKS = ["sst", "para", "sts"]
ALL = frozenset(TASKS)


def groups(text: str) -> list[set[frozenset[str]]]:
    return [set(partition) for partition in parse_partitions(text, TASKS, place="plan")]


def shared(*groups_of_names: str) -> set[frozenset[str]]:
    return {frozenset(names.split("+")) for names in groups_of_names}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("S", [{ALL}]),
        ("I", [shared("sst", "para", "sts")]),
        ("S2", [{ALL}, {ALL}]),
        ("S I", [{ALL}, shared("sst", "para", "sts")]),
        ("S-I-S", [{ALL}, shared("sst", "para", "sts"), {ALL}]),
        ("  S \t I  ", [{ALL}, shared("sst", "para", "sts")]),
        ("(para+sts)", [shared("para+sts", "sst")]),
        ("(sts + para)2", [shared("para+sts", "sst")] * 2),
        ("(sst|para+sts)", [shared("para+sts", "sst")]),
        ("(sst+para+sts)", [{ALL}]),
        ("(sst)", [shared("sst", "para", "sts")]),
        ("S (para+sts) I", [{ALL}, shared("para+sts", "sst"), shared("sst", "para", "sts")]),
    ],
)
def test_the_grammar_means(text, expected):
    assert groups(text) == expected


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("s3", "cannot read 's3'"),
        ("S3I3", "cannot read 'S3I3'"),
        ("S3, I3", "cannot read 'S3, I3'"),
        ("S 3", "cannot read '3'"),
        ("S-1x", "cannot read '1x'"),
        ("(para+sts", "cannot read '(para+sts'"),
        ("((para))", "cannot read '((para))'"),
        ("S0", "a count lies in 1..1000; found 0"),
        ("S99999999999999999999", "a count lies in 1..1000"),
        ("()", "() has an empty group"),
        ("(para|)", "(para|) has an empty group"),
        ("(para+stss)", "'stss' is no task"),
        ("(para+sts|sts)", "'sts' stands twice"),
        ("(para+para)", "'para' stands twice"),
    ],
)
def test_what_is_not_a_plan_is_refused_with_what_was_found(text, finding):
    with pytest.raises(UserError) as error:
        groups(text)
    (line,) = error.value.lines
    assert line.startswith(f"plan = {text!r}: ")
    assert finding in line


def test_an_unknown_task_is_refused_with_the_names_that_are_known():
    with pytest.raises(UserError, match="tasks, which are sst, para, sts; 'paar' is no task"):
        groups("I (paar+sts)")


def test_embeddings_follow_the_first_layer_and_the_pooler_the_last():
    plan = make_plan(TASKS, layers=2, encoder="S I")
    assert (plan.embeddings, plan.pooler) == (everyone(TASKS), alone(TASKS))
    plan = make_plan(TASKS, layers=2, encoder="S I", embeddings="I", pooler="(para+sts)")
    assert plan.embeddings == alone(TASKS)
    assert set(plan.pooler) == shared("para+sts", "sst")


def test_a_plan_for_another_number_of_layers_is_refused_with_one_that_fits():
    with pytest.raises(UserError, match=r"covers 12 layers, but the encoder has 6.*'S3 I3'"):
        make_plan(TASKS, layers=6, encoder="S6 I6")


@pytest.mark.parametrize("key", ["embeddings", "pooler", "pooled_norm"])
def test_a_single_module_takes_a_single_token(key):
    with pytest.raises(UserError, match=rf"sharing.{key} = 'S2': exactly one token.*found 2"):
        make_plan(TASKS, layers=1, encoder="S", **{key: "S2"})


def test_every_task_has_exactly_one_owner_at_every_depth():
    with pytest.raises(ValueError, match=r"layers.0: every task needs exactly one owner"):
        Plan(("a", "b"), everyone("ab"), ((frozenset("a"),),), everyone("ab"))


def test_a_group_is_named_the_same_in_whatever_order_tasks_are_written():
    assert group_name(frozenset(["sts", "para"])) == "para+sts"
    one, other = (make_plan(names, layers=1, encoder="S") for names in (TASKS, TASKS[::-1]))
    assert group_name(one.layers[0][0]) == group_name(other.layers[0][0])


def test_places_are_named_from_the_input_upwards():
    plan = make_plan(TASKS, layers=2, encoder="S I", neck="S-I", pooled_norm="S")
    assert [place for place, _ in plan.partitions()] == [
        *("embeddings", "layers.0", "layers.1", "pooler", "pooled_norm", "neck.0", "neck.1")
    ]


def test_one_task_shares_with_nobody_whatever_is_written():
    assert parse_partitions("S", ["a"], place="plan") == parse_partitions("I", ["a"], place="plan")
