"""Which plans `study sharing` tries, and what it recommends."""

import pytest
from made_up import seeds_of

from cotrunk.errors import UserError
from cotrunk.study.plan import Choices, planned_trials
from cotrunk.study.sharing import depth_plans, grouping_plans, recommend, sharing_study
from cotrunk.study.study import check


def test_every_number_of_shared_layers_is_tried():
    assert depth_plans(3) == ["I3", "S1 I2", "S2 I1", "S3"]
    assert len(depth_plans(24)) == 13
    assert depth_plans(24)[::12] == ["I24", "S24"]


def test_three_tasks_have_three_groupings_and_two_have_none():
    assert sorted(grouping_plans(["a", "b", "c"], 6)) == ["S3 (a+b)3", "S3 (a+c)3", "S3 (b+c)3"]
    assert grouping_plans(["a", "b"], 6) == []


def test_many_tasks_are_grouped_in_pairs_only():
    plans = grouping_plans(list("abcdef"), 4)
    assert len(plans) == 15
    assert all(plan.count("+") == 1 for plan in plans)


@pytest.mark.parametrize(("tasks", "tried"), [(3, None), (4, 6)])
def test_a_study_that_leaves_groupings_out_says_so(toy, tasks, tried):
    text = toy.read_text(encoding="utf-8")
    more = text[text.index("[tasks.mood]") : text.index("[tasks.same]")]
    config = toy.with_name("more.toml")
    config.write_text(text + more.replace("mood]", "more]") * (tasks == 4), encoding="utf-8")
    notes = sharing_study(config, "quick").notes
    assert [f"only {tried} are tried" in note for note in notes] == [True] * (tasks == 4)


@pytest.mark.slow
def test_the_plans_of_a_config_can_be_trained(toy):
    text = toy.read_text(encoding="utf-8").replace("[train]", '[train]\ngradients = "pcgrad"')
    toy.write_text(text, encoding="utf-8")
    study = sharing_study(toy, "quick")
    specs = check(study, Choices())
    plans = {trial.choices["variant"] for trial in planned_trials(specs["plans"])}
    assert {"I2", "S1 I1", "S2"} < plans


def test_one_task_has_nothing_to_share(toy):
    text = toy.read_text(encoding="utf-8")
    first, *rest = text.split("[tasks.")
    toy.write_text(f"{first}[tasks.{rest[0]}[train]\nepochs = 1\n", encoding="utf-8")
    with pytest.raises(UserError, match="nothing to share"):
        sharing_study(toy, "quick")


def test_the_smallest_plan_that_is_not_worse_is_recommended():
    groups = {
        "I6": seeds_of(0.90, parameters=300),
        "S3 I3": seeds_of(0.902, parameters=200),
        "S6": seeds_of(0.80, parameters=100),
    }
    found = recommend(groups)
    assert (found.plan, found.best, found.worse) == ("S3 I3", "S3 I3", ("S6",))
    groups["S5 I1"] = seeds_of(0.899, parameters=150)
    found = recommend(groups)
    assert (found.plan, found.best) == ("S5 I1", "S3 I3")
    assert found.is_sure
    assert 0 < found.difference.low < 0.003 < found.difference.high < 0.01
    assert "S5 I1" in found.document()["sentence"]


def test_noise_rules_no_plan_out_but_is_said():
    groups = {
        "I6": seeds_of(0.85, parameters=300, spread=0.05),
        "S6": seeds_of(0.84, parameters=100, spread=0.05),
    }
    found = recommend(groups)
    assert (found.plan, found.best, found.worse) == ("S6", "I6", ())
    assert not found.is_sure
    assert "more seeds" in found.document()["sentence"]


def test_the_best_plan_is_not_certain_if_another_may_be_better():
    groups = {
        "I6": seeds_of(0.84, parameters=300, spread=0.05),
        "S6": seeds_of(0.85, parameters=100, spread=0.05),
    }
    found = recommend(groups)
    assert (found.plan, found.best, found.rival) == ("S6", "S6", "I6")
    assert not found.is_sure
    assert found.may_lose > 0.01
    assert "confidence" not in found.document()["sentence"]


def test_one_seed_makes_nothing_certain():
    groups = {
        "I6": seeds_of(0.70, parameters=300, count=1),
        "S6": seeds_of(0.90, parameters=100, count=1),
    }
    found = recommend(groups)
    assert found.plan == "S6"
    assert not found.is_sure
    assert "one seed" in found.document()["sentence"]


def test_without_runs_nothing_is_recommended():
    assert recommend({"S6": []}) is None


def test_tasks_that_no_plan_has_learned_are_named():
    groups = {"I6": seeds_of(0.45, parameters=300), "S6": seeds_of(0.44, parameters=100)}
    found = recommend(groups)
    assert found.unlearned == ("a", "b")
    assert "constant answer" in found.document()["sentence"]
    groups["S3 I3"] = seeds_of(0.9, parameters=200)
    assert recommend(groups).unlearned == ()


def test_tasks_with_very_few_dev_rows_are_named():
    few = {"S6": seeds_of(0.9, rows=20), "I6": seeds_of(0.9, rows=20, parameters=300)}
    assert recommend(few).few_rows == ("a", "b")
    assert "dev rows: a, b" in recommend(few).document()["sentence"]
    assert recommend({"S6": seeds_of(0.9)}).few_rows == ()


def test_smaller_plans_are_called_worse_only_if_there_are_any():
    smallest = {
        "I6": seeds_of(0.84, parameters=300, spread=0.05),
        "S6": seeds_of(0.85, parameters=100, spread=0.05),
    }
    assert "worse" not in recommend(smallest).document()["sentence"]
    larger = {"I6": seeds_of(0.95, parameters=300), "S6": seeds_of(0.70, parameters=100)}
    assert "every smaller plan" in recommend(larger).document()["sentence"]
