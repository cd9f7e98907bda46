"""Starting from a trained run of another plan."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from schemes import (
    NAMES,
    SHAPE,
    TASKS,
    TEMPLATE,
    Lora,
    Pal,
    Scheme,
    filled,
    network_of,
    pooled,
    reading,
)

from cotrunk.errors import UserError
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.task import Task
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.initial import initialise
from cotrunk.model.weights.warm_start import difference, have_same_heads, warm_start

POOLED = pooled(*["pooler"] * 4)
FINER = [  # from a plan to one that shares less: outputs must be met exactly
    ("1-bert to hybrid", Scheme("S3"), Scheme("S2 I")),
    ("1-bert to 3-bert", Scheme("S3"), Scheme("I3")),
    ("1-bert to a subset", Scheme("S3"), Scheme("S (para+sts) I")),
    ("hybrid to 3-bert", Scheme("S2 I"), Scheme("I3")),
    ("subset to hybrid", Scheme("S2 (para+sts)"), Scheme("S I2")),
    ("to itself", Scheme("S2 I"), Scheme("S2 I")),
    ("poolers", Scheme(heads=POOLED), Scheme(pooler="I", heads=POOLED)),
    ("neck", Scheme(neck="S-S"), Scheme(neck="S-I")),
    ("norm", Scheme(pooled_norm="S"), Scheme(pooled_norm="I")),
    ("pals", Scheme(pal=Pal("S", bias=True)), Scheme(pal=Pal("I", bias=True))),
    ("lora", Scheme(lora=Lora("S")), Scheme("S2 I", lora=Lora("I"))),
    ("reads", Scheme(heads=reading()), Scheme("S2 I", heads=reading(gradient="stop"))),
]


def trained(scheme: Scheme, tasks: Sequence[Task] = TASKS) -> Network:
    """Copies that differ, as after training."""
    network = network_of(scheme, tasks)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return network


def fresh(scheme: Scheme, tasks: Sequence[Task] = TASKS) -> Network:
    network = network_of(scheme, tasks)
    initialise(network, {}, seed=9)
    return network


def apart(one: Network, other: Network, scheme: Scheme) -> float:
    shared = [task for task in TASKS if task.name in one.tasks and task.name in other.tasks]
    pair_formats = {
        t.name: scheme.pair_format(t) for t in shared if have_same_heads(one, other, t.name)
    }
    assert pair_formats, "nothing is compared"
    return difference(one, other, list(pair_formats), TEMPLATE, pair_formats)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), [p[1:] for p in FINER], ids=[p[0] for p in FINER])
def test_a_plan_that_shares_less_starts_with_the_same_outputs(source, target):
    old, new = trained(source), fresh(target)
    assert apart(new, old, target) > 1e-3
    assert warm_start(new, old) == []
    assert apart(new, old, target) < 1e-12


def test_projected_attention_added_to_a_trained_run_keeps_its_outputs():
    old, new = trained(Scheme("S2 I")), fresh(Scheme("S2 I", pal=Pal("I")))
    added = warm_start(new, old)
    assert {name.split(".")[0] for name in added} == {"projected"}
    assert apart(new, old, Scheme()) == 0


@pytest.mark.parametrize(
    ("source", "target", "copies"),
    [
        (
            Scheme("I3"),
            Scheme("S3"),
            "para+rude+sst+sts share embeddings, but in the run it has 4 copies",
        ),
        (
            Scheme("S2 I"),
            Scheme("S2 (para+sts)"),
            "layers.2, but in the run it has 2 copies (para, sts)",
        ),
        (Scheme(neck="I"), Scheme(neck="S"), "share neck.0, but in the run it has 4 copies"),
    ],
)
def test_copies_cannot_be_merged(source, target, copies):
    new = fresh(target)
    with pytest.raises(UserError) as error:
        warm_start(new, trained(source))
    assert copies in str(error.value)
    assert "start from a run that shares more" in str(error.value)


@pytest.mark.parametrize(
    ("source", "lost"),
    [
        (Scheme(neck="S-S"), "the run has neck.0, neck.1"),
        (Scheme(pooled_norm="S"), "the run has pooled_norm"),
        (Scheme(pal=Pal()), "the run has projected"),
        (Scheme(lora=Lora(depths=(1,))), "the run has lora.1"),
    ],
)
def test_parts_that_would_be_thrown_away_are_refused(source, lost):
    with pytest.raises(UserError, match=f"{lost}, but this plan does not"):
        warm_start(fresh(Scheme()), trained(source))


@pytest.mark.parametrize(
    "change", [{"heads": 4}, {"size": 12}, {"gelu": True}, {"bias": True}, {"depths": (0, 1)}]
)
def test_projected_attention_of_another_kind_is_refused(change):
    new = fresh(Scheme(pal=replace(Pal(), **change)))
    with pytest.raises(UserError, match=r"pal of the run has size = 8, heads = 2"):
        warm_start(new, trained(Scheme(pal=Pal())))


def test_a_new_task_starts_from_the_trunk_the_others_share():
    old = trained(Scheme("S3"), TASKS[:2])
    new = fresh(Scheme("S2 I"))
    assert {name.split(".")[1] for name in warm_start(new, old)} == {"para", "sts"}
    assert apart(new, old, Scheme()) < 1e-12
    for name, parameter in old.owned["layers.2"]["rude+sst"].named_parameters():
        assert torch.equal(new.owned["layers.2"]["sts"].get_parameter(name), parameter)


def test_a_head_of_another_size_starts_afresh_and_is_not_compared():
    more = [Task("sst", 1, Classes(("1", "2", "3", "4", "5"))), *TASKS[1:]]
    old, new = trained(Scheme()), fresh(Scheme(), more)
    assert warm_start(new, old) == ["heads.sst"]
    assert [name for name in NAMES if not have_same_heads(new, old, name)] == ["sst"]
    assert apart(new, old, Scheme()) < 1e-12


def test_a_task_that_puts_its_texts_together_otherwise_is_not_compared():
    apart_now = Scheme(heads={"para": HeadPlan(pair="sum")})
    old, new = trained(Scheme()), fresh(apart_now)
    assert warm_start(new, old) == []
    assert [name for name in NAMES if not have_same_heads(new, old, name)] == ["para"]
    assert apart(new, old, apart_now) < 1e-12


def test_what_is_drawn_depends_on_the_place_alone():
    """Neither other tasks nor the number of copies change where a parameter starts."""
    many, few = fresh(Scheme("I3")), fresh(Scheme("S3"), TASKS[:2])
    kept = few.owned["layers.0"]["rude+sst"]
    for name in NAMES:
        for parameter, value in many.owned["layers.0"][name].named_parameters():
            assert torch.equal(kept.get_parameter(parameter), value)
    assert not torch.equal(many.heads["sst"].layers[0].weight, many.heads["rude"].layers[0].weight)


def test_pretrained_tensors_fill_every_copy():
    network = network_of(Scheme("S2 I"))
    given = {"layers.2.up.bias": torch.arange(SHAPE.inner, dtype=torch.float64)}
    drawn = initialise(network, given, seed=1)
    assert "layers.2.up.bias" not in drawn
    assert "layers.2.down.bias" in drawn
    for copy in network.owned["layers.2"].values():
        assert torch.equal(copy.up.bias, given["layers.2.up.bias"])


def test_the_difference_sees_a_change_in_any_head_that_is_read():
    scheme = Scheme(heads=reading(gradient="flow"))
    one, other = filled(network_of(scheme)), filled(network_of(scheme))
    with torch.no_grad():
        other.heads["sst"].layers[0].weight += 0.1
    pair_formats = {"sts": scheme.pair_format(TASKS[3])}
    assert difference(one, other, ["sts"], TEMPLATE, pair_formats) > 1e-6
