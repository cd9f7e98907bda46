"""The studies of the package are complete before anything runs: settings, names, claims."""

import re
import tomllib
from pathlib import Path

import pytest

from cotrunk.errors import UserError
from cotrunk.study.claims import judge
from cotrunk.study.definition import BUDGETS, check_study, names, read_study, selections_of
from cotrunk.study.measures import OVERALL, TM, is_number
from cotrunk.study.plan import Choices, planned_specs, planned_trials, why_skipped
from cotrunk.study.study import check, conclude, with_dev_part
from cotrunk.study.sweep.trials import raw_of

COURSE = ("ids-sst", "quora", "sts", "ids-cfimdb")
BERT_BASE = "random:bert-base"
INVENTORY = {
    "hybrid": [f"A{number}" for number in (20, 21, 22, 23, 24, 25, 26, 27)],
    "mops": [f"conclusion-{number}" for number in range(1, 6)],
    "progressive": [f"C{number}" for number in (14, 15, 16, 17, 18)],
    "pals": ["D11", "D6"],
    "mastery": ["E10", "E11", "E16", "E2"],
    "headline": [],  # nobody's report
}
NEEDS_DATA = {"headline"}
"""Studies that no sample data can stand for."""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The names of the course's files; a check reads none of them but the dev pairs."""
    folder = tmp_path / "course"
    folder.mkdir()
    for stem in COURSE:
        for split in ("train", "dev"):
            header = "\tid\tsentence1\tsentence2\tis_duplicate\n"
            rows = "".join(f"{n}\tid{n}\tone\ttwo\t0.0\n" for n in range(20))
            (folder / f"{stem}-{split}.csv").write_text(header + rows)
    return folder


def choices_at(budget: str, data: Path | None = None) -> Choices:
    return Choices(data=data, weights=BERT_BASE if budget == "full" else None)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    "budget", [pytest.param("full", marks=pytest.mark.slow), pytest.param("quick")]
)
def test_every_trial_can_be_trained_and_every_name_stands_for_some(name, budget, course):
    data = course if name in NEEDS_DATA else None
    assert check(read_study(name, budget), choices_at(budget, data))


def test_all_other_studies_can_run_on_the_sample_data():
    runnable = {name for name in names() if planned_specs(read_study(name, "quick"), Choices())}
    assert runnable == set(names()) - NEEDS_DATA


@pytest.mark.parametrize("name", NEEDS_DATA)
def test_a_study_of_which_nothing_can_run_is_refused_in_one_line(name):
    with pytest.raises(UserError) as error:
        check(read_study(name, "quick"), Choices())
    (line,) = error.value.lines
    assert "--data" in line


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("budget", BUDGETS)
def test_with_the_course_files_nothing_is_skipped(name, budget, course):
    study = read_study(name, budget, with_data=True)
    specs = planned_specs(study, choices_at(budget, course))
    assert list(specs) == list(study.sweeps)
    for spec in specs.values():
        tasks = raw_of(spec, planned_trials(spec)[0])["tasks"].values()
        files = [task["train"] for task in tasks if "train" in task]
        assert all(Path(file).parent == course for file in files)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_claim_and_column_is_about_something_that_is_measured(name, budget):
    study = read_study(name, budget)
    tasks = {"sst", "para", "sts", "cfimdb"}
    columns = [column for table in study.tables for column in table.columns]
    claimed = [
        on
        for claim in study.claims
        for on in ([claim.on] if isinstance(claim.on, str) else claim.on)
    ]
    for measure in [*columns, *claimed]:
        assert measure in {*tasks, *OVERALL, *TM} or is_number(measure), measure
    for claim in study.claims:
        assert claim.on or claim.test == "none"
        assert claim.margin > 0 or claim.test not in ("equivalent", "not-worse")
        assert claim.between or claim.test != "ratio"
        assert claim.why or claim.test != "none"
    assert not re.findall(r"'\$[\w-]+'", str(study.model_dump()))  # no value left to fill in


@pytest.mark.parametrize("name", names())
def test_the_claims_of_the_inventory_are_in_the_study_of_their_report(name):
    ids = [claim.id for claim in read_study(name, "quick").claims]
    for wanted in INVENTORY[name]:
        assert any(re.match(rf"{wanted}(-|$)", found) for found in ids), wanted


@pytest.mark.parametrize("name", names())
def test_both_budgets_ask_the_same(name):
    quick, full = (read_study(name, budget) for budget in BUDGETS)
    assert [claim.id for claim in quick.claims] == [claim.id for claim in full.claims]
    assert [table.rows for table in quick.tables] == [table.rows for table in full.tables]


def test_the_full_budget_has_the_settings_of_the_report():
    study = read_study("hybrid", "full")
    spec = planned_specs(study, Choices())["plans"]
    raw = raw_of(spec, planned_trials(spec)[0])
    assert raw["encoder"]["weights"] == "bert-base-uncased"
    assert (raw["train"]["lr"], raw["train"]["epochs"], raw["train"]["gradients"]) == (
        1e-5,
        20,
        "pcgrad",
    )
    assert len(spec.axes[0].grid()) == 12


def test_without_the_reviews_their_claim_is_not_testable_here(tmp_path):
    study = read_study("mastery", "quick")
    assert "sample data" in why_skipped(study.sweeps["reviews"], None)
    found = conclude(study, Choices(), tmp_path)
    verdicts = {judged.claim.id: judged for judged in found.judged}
    assert verdicts["E2"].verdict == "not testable here"
    assert "ids-cfimdb-train.csv" in verdicts["E2"].why


def test_counted_networks_settle_the_claims_about_bert_base(tmp_path):
    """195.7 of 328.4 million is 60 %, not half; PALs for three tasks add 5 %, not 13 %."""
    for name, claim in (("hybrid", "A20-parameters"), ("pals", "D11-parameters")):
        found = conclude(read_study(name, "quick"), Choices(), tmp_path)
        (judged,) = [each for each in found.judged if each.claim.id == claim]
        assert judged.verdict == "refuted"
        assert judged.parts[0].estimate.value == pytest.approx(
            {"hybrid": 0.596, "pals": 1.05}[name], abs=0.002
        )


def test_a_part_of_the_dev_rows_is_always_the_same(course, tmp_path):
    study = read_study("mops", "quick", with_data=True)
    chosen = with_dev_part(study, Choices(data=course), tmp_path)
    assert chosen.paraphrase_dev.read_text().count("\n") == 21  # fewer rows than wanted: all
    spec = planned_specs(study, chosen)["frozen"]
    assert raw_of(spec, planned_trials(spec)[0])["tasks"]["para"]["dev"] == str(
        chosen.paraphrase_dev
    )


SMALL = {
    "title": "x",
    "report": "x",
    "budgets": {"quick": {"seeds": 1}},
    "sweeps": {"plans": {"preset": "hybrid-bert", "axes": {"sharing.encoder": ["S6"]}}},
    "runs": {"shared": {"sweep": "plans", "where": {"sharing.encoder": "S6"}}},
    "claims": [{"id": "a", "claim": "x", "test": "none", "why": "x"}],
}


def claim(test, **more):
    said = {"id": "a", "claim": "x", "one": "shared", "other": "shared", "on": "sst", **more}
    return {"claims": [{"test": test, **said}]}


def axis(**more):
    part = {"preset": "hybrid-bert", "axes": {"train.lr": {"best_of": "later", **more}}}
    return {"sweeps": {"plans": part, "later": {"preset": "hybrid-bert"}}}


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"runs": {"shared": {"sweep": "plan"}}}, "no sweep 'plan'; did you mean 'plans'?"),
        ({"claims": [{"id": "a", "claim": "x", "test": "better", "one": "shred"}]}, "'shared'?"),
        ({"claims": [{"id": "a", "claim": "x", "test": "best"}]}, "claims.0.test"),
        ({"claims": SMALL["claims"] * 2}, "the id is used twice"),
        ({"sweeps": {"plans": {"axes": {}}}}, "either a preset or a base"),
        ({"budgets": {}}, "budget.seeds"),
        ({"budgets": 3}, "budgets: must be a table"),
        ({"budgets": {"quick": 3}}, "budgets.quick: must be a table"),
        ({"sweeps": {"plans": {"quick": 3}}}, "sweeps.plans.quick: must be a table"),
        (axis(count=1), "best_of needs by"),
        (axis(by="mean"), "best_of needs count"),
        (axis(count=1, by="mean"), "no earlier sweep 'later'"),
        (claim("better", other=[]), "better needs other"),
        (claim("better", on=[]), "better needs on"),
        (claim("order"), "order needs one"),
        (claim("effect"), "effect needs than"),
        (claim("ratio"), "ratio needs between"),
        (claim("count"), "count needs least"),
        (claim("equivalent"), "equivalent needs margin"),
    ],
)
def test_a_mistake_in_a_study_file_is_named(change, finding):
    with pytest.raises(UserError) as error:
        check_study({**SMALL, **change}, "quick", Path("mine.toml"))
    assert any(finding in line for line in error.value.lines)
    assert all(line.startswith("mine: ") for line in error.value.lines)


def test_the_study_in_the_documentation_is_valid():
    text = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    assert check_study(tomllib.loads(block), "quick", Path("mine.toml")).claims


def test_a_name_that_no_trial_answers_to_is_refused_before_anything_starts():
    runs = {"shared": {"sweep": "plans", "where": {"sharing.encoder": "S5 I1"}}}
    study = check_study({**SMALL, "runs": runs}, "quick", Path("mine.toml"))
    with pytest.raises(UserError, match="no trial of the sweep plans has these settings"):
        check(study, Choices())


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (claim("better", on="stt"), "claim a: on 'stt': no such task or measure; did you mean"),
        (claim("better", on="parameters:sst"), "no such task or measure"),
        (claim("ratio", on="sst", between=[1, 2]), "sst is a score"),
        (
            {
                "tables": [
                    {
                        "title": "x",
                        "columns": ["offical"],
                        "rows": [{"name": "x", "runs": "shared"}],
                    }
                ]
            },
            "column 'offical'",
        ),
    ],
)
def test_a_misspelt_measure_is_refused_before_anything_starts(change, finding):
    study = check_study({**SMALL, **change}, "quick", Path("mine.toml"))
    with pytest.raises(UserError) as error:
        check(study, Choices())
    assert any(finding in line for line in error.value.lines), error.value.lines


def test_a_name_for_several_settings_is_refused_if_it_is_used():
    sweeps = {"plans": {"preset": "hybrid-bert", "axes": {"sharing.encoder": ["S6", "I6"]}}}
    runs = {"shared": {"sweep": "plans"}}
    unused = check_study({**SMALL, "sweeps": sweeps, "runs": runs}, "quick", Path("mine.toml"))
    assert check(unused, Choices())
    changed = {**SMALL, "sweeps": sweeps, "runs": runs, **claim("better")}
    study = check_study(changed, "quick", Path("mine.toml"))
    with pytest.raises(UserError, match=r"'shared': settings differ in sharing\.encoder"):
        check(study, Choices())


def test_the_number_of_seeds_is_the_users_except_in_searches():
    specs = planned_specs(read_study("mops", "quick"), Choices(seeds=5))
    seeds = {name: len(spec.seeds) for name, spec in specs.items()}
    searches = {"frozen-rates", "tuned-rates", "frozen-weights"}
    assert {seeds[name] for name in searches} == {1}
    assert {seeds[name] for name in seeds if name not in searches} == {5}


def test_a_folder_without_the_course_files_is_refused_in_one_line(tmp_path):
    with pytest.raises(UserError) as error:
        check(read_study("mops", "quick"), Choices(data=tmp_path))
    (line,) = error.value.lines
    assert "quora-train.csv" in line


def test_claims_without_runs_are_not_run_yet_rather_than_wrong():
    study = read_study("mops", "quick")
    groups = {name: [] for name in selections_of(study)}
    assert {judge(claim, groups).verdict for claim in study.claims} == {"not run yet"}
