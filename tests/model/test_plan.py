"""The grammar of plans, and what it refuses."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import named
from cotrunk.model.sharing.partition import alone, everyone, group_name, parse_partitions
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.places import layer_place, trunk_places
from cotrunk.model.sharing.plan import Plan

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
        ("S0", "a count must be in 1..1000; found 0"),
        ("S99999999999999999999", "a count must be in 1..1000"),
        ("()", "() has an empty group"),
        ("(para|)", "(para|) has an empty group"),
        ("(para+stss)", "'stss' is not a task"),
        ("(para+sts|sts)", "names 'sts' twice"),
        ("(para+para)", "names 'para' twice"),
    ],
)
def test_what_is_not_a_plan_is_refused_with_what_was_found(text, finding):
    with pytest.raises(UserError) as error:
        groups(text)
    (line,) = error.value.lines
    assert line.startswith(f"plan = {text!r}: ")
    assert finding in line


def test_an_unknown_task_is_refused_with_the_names_that_are_known():
    with pytest.raises(UserError, match=r"'paar' is not a task.*; tasks are sst, para, sts"):
        groups("I (paar+sts)")


def places(layers: int = 2, tasks: Sequence[str] = TASKS, **words: str) -> dict[str, Place]:
    shape = replace(named("tiny", "test"), layers=layers)
    return {place.name: place for place in trunk_places(tasks, shape, **words)}


def test_embeddings_follow_the_first_layer_and_the_pooler_the_last():
    found = places(encoder="S I")
    assert found["embeddings"].partition == everyone(TASKS)
    assert found["pooler"].partition == alone(TASKS)
    found = places(encoder="S I", embeddings="I", pooler="(para+sts)")
    assert found["embeddings"].partition == alone(TASKS)
    assert set(found["pooler"].partition) == shared("para+sts", "sst")


def test_a_plan_for_another_number_of_layers_is_refused_with_one_that_fits():
    with pytest.raises(UserError, match=r"covers 12 layers, but the encoder has 6.*'S3 I3'"):
        places(6, encoder="S6 I6")


@pytest.mark.parametrize("key", ["embeddings", "pooler", "pooled_norm"])
def test_a_single_module_takes_a_single_token(key):
    with pytest.raises(UserError, match=rf"sharing.{key} = 'S2': must be one token.*found 2"):
        places(1, encoder="S", **{key: "S2"})


def test_every_task_has_exactly_one_owner_at_every_place():
    layer = layer_place(named("tiny", "test"), (frozenset("a"),), 0)
    with pytest.raises(ValueError, match=r"layers.0: every task needs exactly one owner"):
        Plan(("a", "b"), (layer,))
    with pytest.raises(ValueError, match=r"layers.0: every task needs exactly one owner"):
        Plan(("a",), (replace(layer, partition=(frozenset("a"), frozenset("a"))),))


def test_places_that_do_not_fit_together_are_refused():
    shape = named("tiny", "test")
    layer = layer_place(shape, everyone("ab"), 0)
    adapter = replace(layer, name="adapter", acts="tokens", depth=1)
    beside = replace(layer, name="beside", acts="beside", depth=None, depths=(0,))
    for wrong, finding in [
        ((layer, layer), "layers.0: two places of a plan cannot have the same name"),
        ((replace(layer, depth=1),), "layers: depths must be 0, 1, 2, ...; found [1]"),
        ((layer, adapter), "adapter acts at layers [1], but the plan has 1 layers"),
        ((layer, replace(adapter, depth=None)), "adapter acts at layers []"),
        ((layer, beside, replace(beside, name="other")), "can act beside a layer"),
    ]:
        with pytest.raises(ValueError, match=re.escape(finding)):
            Plan(("a", "b"), wrong)


def test_a_group_is_named_the_same_in_whatever_order_tasks_are_written():
    assert group_name(frozenset(["sts", "para"])) == "para+sts"
    one, other = (places(1, names, encoder="S")["layers.0"] for names in (TASKS, TASKS[::-1]))
    assert group_name(one.partition[0]) == group_name(other.partition[0])


def test_places_are_named_from_the_input_upwards():
    assert list(places(encoder="S I", neck="S-I", pooled_norm="S")) == [
        *("embeddings", "layers.0", "layers.1", "pooler", "pooled_norm", "neck.0", "neck.1")
    ]


def test_a_new_place_comes_after_the_layer_it_follows():
    trunk = places(encoder="S I", neck="S")
    adapter = replace(trunk["layers.0"], name="adapter", acts="tokens")
    gate = replace(trunk["neck.0"], name="gate")
    plan = Plan(tuple(TASKS), tuple(trunk.values())).with_places([gate, adapter])
    assert [place.name for place in plan.places] == [
        *("embeddings", "layers.0", "adapter", "layers.1", "pooler", "neck.0", "gate")
    ]


def test_one_task_shares_with_nobody_whatever_is_written():
    assert parse_partitions("S", ["a"], place="plan") == parse_partitions("I", ["a"], place="plan")
