"""Counts by arithmetic, against the reports' numbers and against the tensors of real networks."""

import json
from itertools import product

import pytest
from schemes import SCHEMES, network_of

from cotrunk.build.plan import projected_plan
from cotrunk.cli.main import main
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import named
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.parameter_table import ParameterTable, parameter_table
from cotrunk.model.sharing.partition import alone
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.places import head_places, trunk_places
from cotrunk.model.sharing.plan import Plan

BERT = named("bert-base", "test")
THREE = ["sst", "para", "sts"]
REGIMES = ["".join(layers) for layers in product("SI", repeat=3)]
HYBRID = {  # shared layers: parameters, with shared embeddings and a pooler for each task
    0: 280_772_352, 1: 266_596_608, 2: 252_420_864, 3: 238_245_120, 4: 224_069_376,
    5: 209_893_632, 6: 195_717_888, 7: 181_542_144, 8: 167_366_400, 9: 153_190_656,
    10: 139_014_912, 11: 124_839_168, 12: 110_663_424,
}  # fmt: skip
CHECKPOINTS = {  # shared neck layers: KiB as printed by MOPS, frozen and tuned
    0: (497_051, 1_352_503),
    1: (483_205, 1_338_657),
    2: (469_359, 1_324_811),
    3: (455_513, 1_310_966),
}
TOTALS = {0: 115_392_774, 1: 114_211_590, 2: 113_030_406, 3: 111_849_222}


def table_of(trunk: list[Place], tasks: list[str] = THREE) -> ParameterTable:
    return parameter_table(Plan(tuple(tasks), tuple(trunk)))


def counted(encoder: str, **more: str) -> dict[str, int]:
    return table_of(trunk_places(THREE, BERT, encoder=encoder, **more)).parameters


def with_pal(
    size: int, *, tasks: list[str] = THREE, heads: int = 12, bias: bool = False
) -> ParameterTable:
    depths = tuple(range(12))
    pal = projected_plan(alone(tasks), size, heads, depths, BERT, bias=bias)
    return table_of(trunk_places(tasks, BERT, encoder="S12", projected=pal), tasks)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, int]]:
    assert main(["plan", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("encoder", "more", "expected"),
    [
        ("S12", {}, 109_482_240),
        ("I12", {}, 328_446_720),
        ("S6 I6", {}, 195_717_888),
        ("S12", {"pooler": "I"}, 110_663_424),
        ("I12", {"embeddings": "S"}, 280_772_352),
    ],
)
def test_bert_base_has_as_many_parameters_as_the_reports_systems(encoder, more, expected):
    assert counted(encoder, **more)["total"] == expected


def test_bert_base_part_by_part():
    parts = counted("S12")
    assert parts["embeddings"] == 23_837_184
    assert parts["layers"] == 12 * 7_087_872
    assert parts["pooler"] == 590_592


@pytest.mark.parametrize(("depth", "expected"), HYBRID.items())
def test_hybrid_bert_at_every_depth(depth, expected):
    encoder = f"S{depth} I{12 - depth}" if 0 < depth < 12 else ("S12" if depth else "I12")
    assert counted(encoder, embeddings="S", pooler="I")["total"] == expected


def test_hybrid_bert_is_not_half_of_three():
    """The report says half; that takes nine shared layers."""
    assert round(HYBRID[6] / 328_446_720, 4) == 0.5959
    assert HYBRID[8] / 328_446_720 > 0.5 > HYBRID[9] / 328_446_720


def neck_of(regime: str) -> int:
    return counted("S12", neck="-".join(regime))["neck"]


@pytest.mark.parametrize("regime", REGIMES)
def test_a_neck_has_590_592_parameters_per_copy(regime):
    copies = sum(1 if layer == "S" else 3 for layer in regime)
    assert neck_of(regime) == 590_592 * copies


def test_the_necks_of_mops():
    assert neck_of("III") == 5_315_328
    assert neck_of("SSS") == 1_771_776
    assert counted("S12", neck="I (para+sts)2")["neck"] == 590_592 * 7


def test_projected_attention_of_the_report():
    assert with_pal(204).parameters["pal"] == 5_434_560 == 3 * 1_811_520
    assert with_pal(204, bias=True).parameters["pal"] == 3 * 1_819_836
    assert with_pal(324).parameters["pal"] == 12_830_400
    assert round(with_pal(204).parameters["total"] / 109_482_240, 4) == 1.0496


def test_eight_tasks_with_projected_attention_are_1_13_of_one_bert():
    eight = with_pal(204, tasks=list("abcdefgh")).parameters["total"]
    assert 1.132 < eight / 109_482_240 < 1.134


@pytest.mark.parametrize(
    ("task", "pair", "expected"),
    [
        (Task("sst", 1, Classes(tuple("01234"))), "joined", 263_941),
        (Task("para", 2, Binary()), "joined", 262_913),
        (Task("para", 2, Binary()), "concat", 459_521),
        (Task("para", 2, Binary()), "hadamard", 656_129),
    ],
)
def test_the_heads_of_hybrid_bert(task, pair, expected):
    head = HeadPlan(pair=pair, depth=3, width=256)
    (place,) = head_places([task], {task.name: head}, BERT)
    assert place.size == expected


@pytest.mark.parametrize("regime", REGIMES)
def test_the_checkpoints_of_mops_within_a_thousandth(regime, capsys):
    arguments = ["--neck", "-".join(regime), "--heads", "5,1,768"]
    shared = regime.count("S")
    for context, printed in zip(([], ["--freeze"]), CHECKPOINTS[shared][::-1], strict=True):
        found = planned(capsys, *arguments, *context)["bytes"]
        assert found["checkpoint"] / 1024 == pytest.approx(printed, rel=1e-3)
        assert found["weights"] == 4 * TOTALS[shared]


def test_a_subset_of_mops_is_as_large_as_one_shared_layer(capsys):
    found = planned(capsys, "--neck", "I (para+sts)2", "--heads", "5,1,768")
    assert found["bytes"]["checkpoint"] / 1024 == pytest.approx(1_338_657, rel=1e-3)


def test_the_command_counts_projected_attention(capsys):
    found = planned(capsys, "--pal", "204", "--pal-heads", "12")["parameters"]
    assert (found["pal"], found["total"]) == (5_434_560, 114_916_800)
    shared = planned(capsys, "--pal", "204", "--pal-who", "(para+sts)")["parameters"]
    assert shared["pal"] == 2 * 1_811_520


def test_a_size_that_heads_do_not_divide_is_refused_with_the_nearest(capsys):
    assert main(["plan", "--pal", "326", "--pal-heads", "12"]) == 2
    assert "the nearest divisible sizes are 324 or 336" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_the_table_counts_what_a_network_has(name):
    scheme = SCHEMES[name]
    network = network_of(scheme, device="meta")
    made = parameter_table(scheme.plan())
    assert made.parameters["total"] == sum(p.numel() for p in network.parameters())
    for place in made.plan.places:
        found = sum(
            parameter.numel()
            for parameter_name, parameter in network.named_parameters()
            if parameter_name.startswith(f"{place.name}.")
        )
        assert found == place.total, place.name
        assert found == sum(
            p.numel() for m in network.owned[place.name].values() for p in m.parameters()
        )


def test_owners_are_listed_in_the_order_of_the_tasks():
    made = table_of(trunk_places(THREE, BERT, encoder="S6 (sts+para)6")).document()
    groups = {owner["place"]: owner["groups"] for owner in made["owners"]}
    assert groups["layers.0"] == [["sst", "para", "sts"]]
    assert sorted(groups["layers.6"]) == [["para", "sts"], ["sst"]]
