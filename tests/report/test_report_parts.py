"""What the sections of a report are computed from."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotrunk.kinds.classes import Classes
from cotrunk.kinds.outcomes import Certainty
from cotrunk.kinds.reliability import reliability
from cotrunk.kinds.score import Scores
from cotrunk.model.sharing.levels import levels_of
from cotrunk.runs.cost import Cost
from cotrunk.study.compare import compare_groups
from cotrunk.study.records import RunRecord, TaskRecord, group_runs
from cotrunk.study.report import formats
from cotrunk.study.report.drawing import draw
from cotrunk.study.report.html import breakable
from cotrunk.study.report.sections.cost import front
from cotrunk.study.report.sections.scores import scores
from cotrunk.study.report.sections.settings import settings
from cotrunk.study.report.subject import run_names, subject_of
from cotrunk.study.report.summary import OVERALL, PLAIN_MEAN, Summaries
from cotrunk.study.report.verdict import verdict_lines

ROWS = 400
GOLD = np.arange(ROWS) % 2
LABELS = Classes(classes=("no", "yes"))


def made(
    name: str, wrong: int, *, after: int = 0, parameters: int = 100, seed: int = 1
) -> RunRecord:
    """A run of one task with so many wrong answers in a row."""
    number = np.arange(ROWS)
    answer = np.where((after <= number) & (number < after + wrong), 1 - GOLD, GOLD)
    output = np.eye(2)[answer].astype(np.float32)
    score = dataclasses.asdict(LABELS.scores(output, GOLD.astype(float)))
    task = TaskRecord(
        name="mood",
        labels=LABELS,
        output=output,
        target=GOLD.astype(float),
        counts=None,
        rows=np.arange(ROWS),
        dev="same",
        file="dev.csv",
        score=score,
    )
    return RunRecord(
        path=Path("runs") / name,
        settings={
            "sharing": {"encoder": name.partition("-")[0]},
            "train": {"seed": seed},
            "tasks": {},
        },
        seed=seed,
        state="finished",
        tasks={"mood": task},
        overall={"official": score["score"], "mean": score["score"]},
        parameters=parameters,
        trained_parameters=parameters,
        bytes={"weights": 4 * parameters, "checkpoint": 12 * parameters},
        cost=Cost(),
        steps=10,
        best_step=10,
        history=[],
        digests={},
    )


def verdict(*records: RunRecord) -> list[str]:
    groups = group_runs(records)
    subject = subject_of(groups, [])
    compared = compare_groups(groups, subject.series[0].group) if len(groups) > 1 else None
    return verdict_lines(subject, Summaries(subject), compared)


def test_a_plan_that_is_clearly_better_is_recommended():
    lines = verdict(made("small", 150), made("large", 20))
    assert "take large." in lines[0]
    assert "worse" in lines[1]


def test_a_smaller_plan_that_is_as_good_is_recommended():
    lines = verdict(made("large", 20, parameters=300), made("small", 20, parameters=100))
    assert "take small." in lines[0]
    assert "33 %" in lines[0]


def test_a_difference_within_noise_recommends_nothing():
    lines = verdict(made("small", 40, parameters=100), made("large", 30, after=100, parameters=300))
    assert lines[0].startswith("large has the highest")
    assert "do not show" in lines[0]
    assert "undecided" in lines[1]
    assert "small" in lines[2]


def test_runs_without_a_common_task_are_named_in_the_notes_of_a_comparison():
    mood, other = made("one", 30), made("two", 30)
    topic = dataclasses.replace(other, tasks={"topic": other.tasks["mood"]})
    groups = group_runs([mood, topic])
    (note,) = compare_groups(groups, groups[0]).notes
    assert "no task in common" in note
    alike = group_runs([mood, other])
    assert not compare_groups(alike, alike[0]).notes


def test_equal_scores_are_not_called_a_lead():
    lines = verdict(made("one", 30), made("two", 30, after=100))
    assert "same overall score" in lines[0]
    assert "highest" not in lines[0]


def test_a_plan_with_one_seed_is_taken_as_a_network_only():
    small = [made(f"small-{seed}", 150 + seed, seed=seed) for seed in (1, 2)]
    assert verdict(*small, made("large-1", 20))[0].startswith("Of these networks, take large.")


def test_a_plan_that_was_not_compared_is_not_called_worse():
    groups = group_runs([made("large", 20), made("small", 150), made("other", 150)])
    subject = subject_of(groups, [])
    compared = compare_groups(groups, subject.series[0].group)
    first = compared.overall_differences[0].group
    kept = [each for each in compared.overall_differences if each.group is first]
    part = dataclasses.replace(compared, overall_differences=tuple(kept))
    assert "every other one" not in verdict_lines(subject, Summaries(subject), part)[0]


def test_a_task_that_no_plan_learned_is_named():
    lines = verdict(made("one", 195), made("other", 201))
    assert any("constant answer" in line and "mood (0.500)" in line for line in lines)


def test_two_seeds_that_both_learned_a_task_have_learned_it_however_much_they_differ():
    seeds = [made(f"one-{seed}", wrong, seed=seed) for seed, wrong in ((1, 20), (2, 130))]
    assert not any("constant answer" in line for line in verdict(*seeds))


def test_the_luckiest_of_many_networks_has_not_learned_a_task():
    lucky = made("plan-1", 178)
    assert not any("constant answer" in line for line in verdict(lucky))
    others = [made(f"plan-{seed}", 200, seed=seed) for seed in range(2, 21)]
    assert any("mood (0.500)" in line for line in verdict(lucky, *others))


def test_runs_that_have_not_finished_are_named_in_the_verdict():
    stopped = dataclasses.replace(made("one", 30), state="stopped", planned_steps=120)
    for records in ([stopped], [stopped, made("other", 60)]):
        assert any("one (stopped at step 10 of 120)" in line for line in verdict(*records))
    assert not any("stopped" in line for line in verdict(made("one", 30)))


def test_both_overall_scores_have_an_interval():
    subject = subject_of(group_runs([made("one", 30)]), [])
    for name in (OVERALL, PLAIN_MEAN):
        found = Summaries(subject).of(subject.series[0], name)
        assert found.low < 0.925 < found.high
    (row,) = scores(subject, Summaries(subject), None).tables[0].rows
    assert [cell.text for cell in row] == ["one", "0.925", "0.925", "0.925"]
    assert len({cell.note for cell in row[1:]}) == 1


def with_task(run: RunRecord, name: str) -> RunRecord:
    """Runs of different tasks have no overall score in common."""
    return dataclasses.replace(run, tasks={**run.tasks, name: run.tasks["mood"]})


def of_task(name: str, *records: RunRecord) -> str:
    (line,) = [line for line in verdict(*records) if line.startswith(f"{name}: ")]
    return line


def test_plans_with_equal_scores_in_a_task_tie():
    one, two, three = made("one", 30), made("two", 30, after=100), made("three", 60)
    line = of_task("mood", with_task(one, "topic"), two, three)
    assert "one and two tie" in line
    assert "three" not in line
    assert "highest" not in line


def test_a_plan_leads_a_task_only_if_another_one_has_it():
    records = with_task(made("one", 30), "topic"), made("two", 60)
    assert "one is highest" in of_task("mood", *records)
    assert "highest" not in of_task("topic", *records)


def test_a_task_without_a_constant_score_is_not_compared_with_one():
    labels = Scores(range=(0.0, 1.0))
    run = made("one", 30)
    target = np.linspace(0, 1, ROWS)
    output = np.random.default_rng(0).random((ROWS, 1)).astype(np.float32)
    score = dataclasses.asdict(labels.scores(output, target))
    changes = {"labels": labels, "output": output, "target": target, "score": score}
    alike = dataclasses.replace(run.tasks["mood"], name="alike", **changes)
    lines = verdict(dataclasses.replace(run, tasks={**run.tasks, "alike": alike}))
    assert any("above 0: alike" in line for line in lines)
    assert not any("constant answer: " in line for line in lines)


def test_seeds_of_a_plan_are_one_series_with_their_mean_and_spread():
    records = [made("a-1", 20, seed=1), made("a-2", 40, seed=2), made("b-1", 30, seed=1)]
    subject = subject_of(group_runs(records), [])
    both = next(series for series in subject.series if len(series.runs) == 2)
    assert both.name == "a"
    found = Summaries(subject).of(both, "mood")
    assert found.score == pytest.approx(0.925)
    assert found.sd == pytest.approx(np.std([0.95, 0.9], ddof=1))
    assert found.low < 0.9 < 0.95 < found.high
    overall = Summaries(subject).of(both, OVERALL)
    assert overall.score == pytest.approx(found.score)


def test_a_run_with_a_score_of_zero_leads_one_without_a_score():
    none, zero = (
        dataclasses.replace(made(f"a-{seed}", 20, seed=seed), overall={"official": score})
        for seed, score in ((1, None), (2, 0.0))
    )
    (series,) = subject_of(group_runs([none, zero]), []).series
    assert series.runs == (zero, none)


def test_runs_are_named_by_what_tells_them_apart():
    paths = [Path("x/a/1"), Path("x/a/2"), Path("x/b/1")]
    assert list(run_names(paths).values()) == ["a/1", "a/2", "b/1"]
    assert list(run_names(paths[:1]).values()) == ["1"]


def test_settings_that_some_runs_lack_are_listed_as_not_set():
    records = [
        dataclasses.replace(run, settings={**run.settings, "tasks": {"mood": keys}})
        for run, keys in [
            (made("a-1", 20), {"kind": "classes"}),
            (made("b-1", 30), {"kind": "classes", "id": None}),
        ]
    ]
    section = settings(subject_of(group_runs(records), []))
    (differ,) = section.tables
    assert differ.columns == ["plan", "sharing.encoder"]
    common = {row[0].text: row[1].text for row in section.more[0].rows}
    assert common["tasks.mood.id"] == "not set"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_nothing_beats_the_pareto_front(points):
    expected = {
        (cost, score)
        for cost, score in points
        if not any(c <= cost and s >= score and (c, s) != (cost, score) for c, s in points)
    }
    assert front(points) == expected


def test_the_calibration_error_equals_its_definition():
    random = np.random.default_rng(1)
    sure = random.uniform(0.5, 1, 500)
    right = random.random(500) < sure - 0.2
    found = reliability(Certainty(sure, right))
    expected = 0.0
    for low in np.arange(10) / 10:
        inside = (sure >= low) & (sure < low + 0.1)
        if inside.any():
            expected += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    assert found.error == pytest.approx(expected)
    assert found.error > found.by_chance
    assert sum(each.rows for each in found.bins) == 500
    assert reliability(Certainty(np.zeros(0), np.zeros(0, bool))) is None


@pytest.mark.slow
def test_a_calibrated_network_is_rarely_blamed():
    random = np.random.default_rng(2)
    blamed = 0
    for seed in range(100):
        sure = random.uniform(0.5, 1, 200)
        found = reliability(Certainty(sure, random.random(200) < sure), seed=seed)
        blamed += found.error > found.by_chance
    assert blamed <= 12


def test_a_drawing_has_a_box_for_every_copy(plan_of):
    plan = plan_of("S2 (para+sts)2 I2")
    drawn = draw(plan, {"sts": ["sst"]})
    boxes = {row.label: [box.label for box in row.boxes] for row in drawn.rows}
    assert boxes["layers 1-2"] == ["sst + para + sts"]
    assert boxes["layers 3-4"] == ["sst", "para + sts"]
    assert boxes["layers 5-6"] == ["sst", "para", "sts"]
    assert [row.label for row in drawn.rows] == [level.name for level in reversed(levels_of(plan))]
    assert drawn.says.endswith("sts reads sst")
    edges = [box.x + box.width for row in drawn.rows for box in row.boxes]
    assert max(edges) <= drawn.width


@pytest.fixture
def plan_of():
    from cotrunk.model.encoder.shape import named
    from cotrunk.model.sharing.places import trunk_places
    from cotrunk.model.sharing.plan import Plan

    tasks = ["sst", "para", "sts"]

    def plan(encoder: str) -> Plan:
        return Plan(
            tuple(tasks), tuple(trunk_places(tasks, named("minilm", "test"), encoder=encoder))
        )

    return plan


def test_names_break_after_dots_and_numbers_do_not():
    assert breakable("train.head_lr") == "train.<wbr>head_<wbr>lr"
    assert breakable("[0.153, 0.242]") == "[0.153, 0.242]"
    assert breakable("a.<b>") == "a.&lt;b&gt;"


def test_numbers_are_written_alike_everywhere():
    assert formats.score(-0.1234) == "\N{MINUS SIGN}0.123"
    assert formats.score(float("nan")) == formats.score(None) == formats.NONE
    assert formats.interval(0.1, float("nan")) == ""
    assert [formats.p_value(p) for p in (0.0001, 0.02)] == ["< 0.001", "0.020"]
    assert [formats.count(n) for n in (950, 22_862_855)] == ["950", "22.9 M"]
    assert [formats.seconds(s) for s in (8.21, 95, 750, 12_000)] == [
        "8.2 s",
        "95 s",
        "12.5 min",
        "3.3 h",
    ]
    assert formats.listed(["a", "b", "c"]) == "a, b and c"
