"""compare: the settled document, differences, what is left blank, what is refused."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from calling import files

import cotrunk as door
from cotrunk.runs.checkpoint import read_arrays
from cotrunk.study.tm import memory_bytes

TASKS = ["mood", "same", "alike"]


@pytest.fixture
def shared(several_runs) -> Path:
    return several_runs / "shared"


@pytest.fixture
def document(cotrunk, several_runs, shared):
    return cotrunk("compare", shared, several_runs / "apart", "--json").document


@pytest.mark.slow
def test_compare_gives_the_settled_document(document, several_runs):
    assert {"runs", "groups", "differences"} <= set(document)
    assert [run["run"] for run in document["runs"]] == [
        str(several_runs / name) for name in ("shared/1", "shared/2", "apart")
    ]
    for run in document["runs"]:
        assert list(run["scores"]) == TASKS
        for score in run["scores"].values():
            assert list(score) == ["metric", "score", "low", "high", "rows"]
        assert list(run["overall"]) == ["official", "mean"]
        assert list(run["tm"]) == ["defined", "printed"]
        assert list(run["bytes"]) == ["weights", "checkpoint"]
        assert {"prepare", "train", "evaluate"} <= set(run["seconds"]) == set(run["cpu_seconds"])
        assert run["parameters"] > 0
    for group in document["groups"]:
        assert list(group)[:4] == ["choices", "runs", "mean", "sd"]
    settled = {"run", "task", "difference", "low", "high", "p", "verdict"}
    for difference in document["differences"]:
        assert settled <= set(difference)
        assert difference["verdict"] in ("better", "worse", "equivalent", "undecided")
    assert [found["task"] for found in document["differences"]] == TASKS


def test_groups_have_the_mean_and_spread_of_their_seeds(document, several_runs):
    shared, apart = document["groups"]
    assert shared["choices"] == {"sharing.encoder": "S1 I1"}
    assert apart["choices"] == {"sharing.encoder": "I2"}
    assert shared["runs"] == [str(several_runs / "shared" / seed) for seed in "12"]
    ones = [run for run in document["runs"] if run["run"] in shared["runs"]]
    for task in TASKS:
        scores = [run["scores"][task]["score"] for run in ones]
        assert shared["mean"][task] == pytest.approx(np.mean(scores))
        assert shared["sd"][task] == pytest.approx(np.std(scores, ddof=1))
        assert apart["sd"][task] is None
    for key in ("official", "mean"):
        assert shared["mean"][key] == pytest.approx(np.mean([run["overall"][key] for run in ones]))


def test_a_difference_is_that_of_the_means_inside_its_interval(document):
    shared, apart = document["groups"]
    both = [*document["differences"], *document["overall_differences"]]
    assert [found["task"] for found in both] == [*TASKS, "official", "mean"]
    for found in both:
        expected = apart["mean"][found["task"]] - shared["mean"][found["task"]]
        assert found["difference"] == pytest.approx(expected)
        assert found["low"] <= found["difference"] <= found["high"]
        assert 0 <= found["p"] <= 1


def test_two_runs_are_tested_row_by_row_on_their_kept_predictions(cotrunk, several_runs):
    """McNemar's test, from the files themselves."""
    from scipy.stats import chi2

    one, other = several_runs / "shared" / "1", several_runs / "apart"
    found = cotrunk("compare", one, other, "--json").document["differences"]
    right = []
    for run in (other, one):
        dev = read_arrays(run / "best", "dev")
        right.append(dev["mood.output"].argmax(1) == dev["mood.target"])
    gained, lost = (right[0] & ~right[1]).sum(), (right[1] & ~right[0]).sum()
    assert found[0]["difference"] == pytest.approx((gained - lost) / 24)
    p = chi2.sf((gained - lost) ** 2 / (gained + lost), 1) if gained + lost else 1.0
    assert found[0]["p"] == pytest.approx(p)


def test_p_is_corrected_for_the_number_of_plans(cotrunk, several_runs, shared, tmp_path):
    alone = cotrunk("compare", shared, several_runs / "apart", "--json").document
    doubled = tmp_path / "again"
    shutil.copytree(several_runs / "apart", doubled)
    record = json.loads((doubled / "run.json").read_text())
    record["settings"]["train"]["lr"] = 0.5
    (doubled / "run.json").write_text(json.dumps(record))
    both = cotrunk("compare", shared, several_runs / "apart", doubled, "--json").document
    for found in both["differences"]:
        before = next(old for old in alone["differences"] if old["task"] == found["task"])
        assert found["p"] == pytest.approx(min(1, 2 * before["p"]))


def test_the_tm_relative_score_is_recomputed_from_the_other_columns(document):
    base = [run for run in document["runs"] if "shared" in run["run"]]

    def parts(run):
        memory = memory_bytes(run["parameters"], run["trained_parameters"])
        return run["overall"]["mean"], run["cpu_seconds"]["train"], memory

    score, seconds, memory = np.mean([parts(run) for run in base], axis=0)
    for run in document["runs"]:
        mine = parts(run)
        printed = mine[0] * seconds / mine[1] * memory / mine[2]
        assert run["tm"]["printed"] == pytest.approx(printed, rel=0.05)  # seconds are rounded
        assert run["tm"]["defined"] == pytest.approx(run["tm"]["printed"] / score)


def test_every_score_of_a_group_has_an_interval(cotrunk, several_runs, shared, document):
    names = [*TASKS, "official", "mean"]
    for group in document["groups"]:
        for name in names:
            assert group["low"][name] < group["mean"][name] < group["high"][name]
    runs = shared, several_runs / "apart"
    for row, group in zip(
        csv_rows(cotrunk("compare", *runs, "--format", "csv").out), document["groups"], strict=True
    ):
        for bound in ("low", "high"):
            assert float(row[f"overall official {bound}"]) == group[bound]["official"]
    for form in ([], ["--format", "markdown"], ["--format", "latex"]):
        shown = cotrunk("compare", *runs, *form).out
        for group in document["groups"]:
            for name in names:
                assert f"[{group['low'][name]:.3f}, {group['high'][name]:.3f}]" in shown


def csv_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_baseline_is_the_first_run_or_the_one_named(cotrunk, several_runs, shared):
    runs = [shared / "1", several_runs / "apart"]
    assert cotrunk("compare", *runs, "--json").document["baseline"] == [str(runs[0])]
    named = cotrunk("compare", runs[0], "--baseline", runs[1], "--json").document
    assert named["baseline"] == [str(runs[1])]
    assert [found["run"] for found in named["differences"]] == [str(runs[0])] * 3
    assert named["runs"][0]["tm"]["defined"] == pytest.approx(1)
    seeds = cotrunk("compare", several_runs / "apart", "--baseline", shared, "--json").document
    assert seeds["baseline"] == [str(shared / seed) for seed in "12"]


def test_a_baseline_is_found_however_its_path_is_written(cotrunk, several_runs, monkeypatch):
    runs = [several_runs / "shared" / "1", several_runs / "apart"]
    monkeypatch.chdir(several_runs)
    document = cotrunk("compare", *runs, "--baseline", "apart", "--json").document
    assert document["baseline"] == ["apart"]
    assert len(document["runs"]) == 2


def test_a_broken_baseline_is_refused_however_its_path_is_written(cotrunk, several_runs, tmp_path):
    shutil.copytree(several_runs / "apart", tmp_path / "broken")
    (tmp_path / "broken" / "run.json").write_text("[]")
    runs = [several_runs / "apart", tmp_path / "broken"]
    said = cotrunk("compare", *runs, "--baseline", "broken")
    assert said.code == 2
    assert "--baseline broken" in said.err


def test_a_copy_of_a_run_is_counted_once_and_noted(cotrunk, several_runs, tmp_path):
    shutil.copytree(several_runs / "apart", tmp_path / "copy")
    runs = [several_runs / "apart", several_runs / "shared", tmp_path / "copy"]
    document = cotrunk("compare", *runs, "--json").document
    assert [len(group["runs"]) for group in document["groups"]] == [1, 2]
    assert any("copy" in note and "counted once" in note for note in document["notes"])


@pytest.mark.slow
def test_transfer_is_the_difference_to_runs_with_one_task(cotrunk, several_runs, toy):
    """Numbers against those of a plain comparison with the single-task run."""
    mood = toy.with_name("mood.toml")
    head, rest = toy.read_text().split("[tasks.same]")
    mood.write_text(head + "[train]" + rest.partition("[train]")[2])
    changes = ("train.seed=1", "train.max_steps=2", "train.epochs=2")
    alone = [word for change in changes for word in ("--set", change)]
    assert cotrunk("train", mood, "--out", "alone", *alone).code == 0
    assert cotrunk("train", mood, "--out", "faster", *alone, "--set", "train.lr=0.01").code == 0
    together = several_runs / "shared" / "1"
    document = cotrunk("compare", "alone", together, "faster", "--json").document
    (found,) = document["negative_transfer"]
    assert (found["runs"], found["alone"], found["task"]) == ([str(together)], ["alone"], "mood")
    assert (found["steps"], found["steps_alone"]) == (3, 2)
    plain = cotrunk("compare", "alone", together, "--json").document["differences"][0]
    assert {key: found[key] for key in ("difference", "low", "high", "p")} == {
        key: plain[key] for key in ("difference", "low", "high", "p")
    }
    assert any("faster" in note and "train.lr" in note for note in document["notes"])
    for form in ([], *(["--format", form] for form in ("markdown", "latex", "csv"))):
        assert "transfer" in cotrunk("compare", "alone", together, *form).out
    assert cotrunk("compare", together, "--json").document["negative_transfer"] == []


def test_other_tasks_are_compared_where_they_meet_and_have_no_overall(cotrunk, several_runs):
    runs = [several_runs / name for name in ("apart", "pairs")]
    document = cotrunk("compare", *runs, "--json").document
    apart, pairs = document["runs"]
    assert list(pairs["scores"]) == ["same", "alike"]
    assert pairs["overall"] == {"official": None, "mean": None}
    assert pairs["tm"] == {"defined": None, "printed": None}
    assert None not in apart["overall"].values()
    assert [found["task"] for found in document["differences"]] == ["same", "alike"]
    assert document["overall_differences"] == []


def test_runs_that_are_scored_by_different_metrics_keep_their_settings(cotrunk, toy):
    short = ["--unset", "tasks.same", "tasks.alike", "--set", "train.max_steps=1"]
    for name, *changes in (
        ("one", "sharing.encoder=S2", "tasks.mood.metric=accuracy"),
        ("other", "sharing.encoder=I2", "tasks.mood.metric=macro-f1"),
    ):
        assert cotrunk("train", toy, "--out", name, *short, *changes).code == 0
    said = cotrunk("compare", "one", "other")
    assert said.code == 0
    assert "sharing.encoder = I2" in said.out


def test_runs_with_other_dev_rows_are_refused_and_the_difference_named(cotrunk, several_runs):
    said = cotrunk("compare", several_runs / "apart", several_runs / "other")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert "the dev rows of mood are not those of" in said.err
    assert "fewer-dev.csv has 20 rows, mood-dev.csv 24, of which 20 have the same texts" in said.err


def test_a_broken_run_is_shown_and_the_rest_goes_on(cotrunk, several_runs, tmp_path):
    folder = tmp_path / "runs"
    for name in ("shared/1", "apart"):
        shutil.copytree(several_runs / name, folder / name)
    (folder / "shared/1/run.json").unlink()
    said = cotrunk("compare", folder, "--json")
    assert said.code == 0
    assert [run["run"] for run in said.document["runs"]] == [str(folder / "apart")]
    (broken,) = said.document["broken"]
    assert broken["run"] == str(folder / "shared/1")
    assert "has no run.json" in broken["why"]
    shown = cotrunk("compare", folder)
    assert shown.err.startswith(f"warning: {folder / 'shared/1'} is left out: ")
    assert "has no run.json" not in shown.out
    assert "has no run.json" in cotrunk("compare", folder, "--format", "markdown").out


def test_a_baseline_that_is_left_out_is_replaced_only_with_a_word(cotrunk, several_runs, tmp_path):
    broken, apart = tmp_path / "broken", several_runs / "apart"
    shutil.copytree(several_runs / "shared/1", broken)
    (broken / "run.json").write_text("{")
    shown = cotrunk("compare", broken, apart)
    moved = f"the baseline is {apart}, because {broken} is left out"
    assert f"warning: {moved}\n" in shown.err
    assert f"{moved}\n" in shown.out
    assert "because" not in cotrunk("compare", apart, broken).err
    assert "because" not in cotrunk("compare", tmp_path, apart).err  # it was found, not named
    refused = cotrunk("compare", apart, "--baseline", broken)
    assert refused.code == 2
    assert f"--baseline {broken}: " in refused.err


def test_runs_without_a_task_in_common_are_said_to_be_so_first(cotrunk, toy, several_runs):
    alone = ["--unset", "tasks.same", "tasks.alike", "--set", "train.max_steps=1"]
    assert cotrunk("train", toy, "--out", "mood", *alone).code == 0
    pairs = several_runs / "pairs"
    shown = cotrunk("compare", "mood", pairs).out
    assert shown.startswith(f"{pairs} has no task in common with the baseline, mood\n")
    for word in ("train.max_steps = ", "Holm", "equivalent"):
        assert word not in shown


def test_a_run_that_is_given_twice_is_noted(cotrunk, several_runs):
    apart = several_runs / "apart"
    note = f"{apart}: given 2 times, counted once"
    assert cotrunk("compare", apart, apart, "--json").document["notes"] == [note]
    assert cotrunk("compare", apart, apart).out.count(note) == 1
    assert not cotrunk("compare", apart, "--baseline", apart, "--json").document["notes"]


def test_a_run_that_was_never_evaluated_is_shown_as_broken(cotrunk, toy, several_runs):
    settings = ["--set", "train.max_steps=1", 'train.evaluate="never"']
    assert cotrunk("train", toy, "--out", "run", *settings).code == 0
    document = cotrunk("compare", several_runs / "apart", "run", "--json").document
    assert document["broken"] == [{"run": "run", "why": "has no dev scores: never evaluated"}]
    assert cotrunk("compare", "run").code == 2


REFUSED = [
    (["nothing"], "nothing: there is no such folder"),
    (["apart", "--margin", "0"], "--margin 0: must be between 0 and 1"),
    (["apart", "--margin", "nan"], "--margin nan: must be between 0 and 1"),
    (["apart", "--baseline", "."], "has runs of 4 different settings"),
    (["apart", "--baseline", "nowhere"], "nowhere: there is no such folder"),
    (["apart", "--json", "--format", "csv"], "--json and --format csv exclude each other"),
    (["apart", "-o", "table.xls"], "must end in one of .md, .tex, .csv, .json"),
    (["apart", "-o", "no/table.md"], "no such folder"),
]


@pytest.mark.parametrize(("options", "finding"), REFUSED, ids=[r[1] for r in REFUSED])
def test_compare_refuses(cotrunk, several_runs, monkeypatch, options, finding):
    monkeypatch.chdir(several_runs)
    before = files(several_runs)
    said = cotrunk("compare", *options)
    assert (said.code, said.out) == (2, "")
    assert finding in said.err
    assert files(several_runs) == before


def test_the_table_has_scores_differences_and_costs(cotrunk, several_runs, shared):
    shown = cotrunk("compare", shared, several_runs / "apart").out
    for word in [*TASKS, "official", "TM (baseline = 1)", "TM (as MOPS prints it)", "train CPU s"]:
        assert word in shown
    assert "official: the mean over tasks, in which a correlation r counts as (r + 1) / 2" in shown
    assert "against the baseline" in shown
    assert "and 1 more seed (baseline)" in shown


def test_markdown_is_a_table_with_equal_rows(cotrunk, several_runs, shared):
    lines = cotrunk("compare", shared, several_runs / "apart", "--format", "markdown").out
    rows = [line for line in lines.splitlines() if line.startswith("|")]
    assert len(rows) == 5  # header, rule, two groups, one line of differences
    assert len({row.count(" | ") for row in rows}) == 1
    assert "± " in rows[2]


def test_latex_is_a_tabular_with_equal_rows_and_nothing_unescaped(cotrunk, several_runs, shared):
    lines = cotrunk("compare", shared, several_runs / "apart", "--format", "latex").out.splitlines()
    columns = next(line for line in lines if line.startswith(r"\begin{tabular}"))
    rows = [line for line in lines if line.endswith(r"\\")]
    assert {row.count(" & ") + 1 for row in rows} == {
        columns.count("r") - 1 + columns.count("l") - 1
    }
    assert r"$\pm$" in "".join(rows)
    assert not any("%" in row or "±" in row for row in rows)


def test_csv_has_the_numbers_of_the_document(cotrunk, several_runs, shared, document):
    text = cotrunk("compare", shared, several_runs / "apart", "--format", "csv").out
    rows = csv_rows(text)
    for row, group in zip(rows, document["groups"], strict=True):
        assert row["run"] == group["runs"][0]
        assert row["sharing.encoder"] == group["choices"]["sharing.encoder"]
        for task in TASKS:
            assert float(row[f"{task} mean"]) == group["mean"][task]
    for found in document["differences"]:
        assert float(rows[1][f"{found['task']} difference"]) == found["difference"]
        assert rows[1][f"{found['task']} verdict"] == found["verdict"]
        assert rows[0][f"{found['task']} verdict"] == ""


@pytest.mark.parametrize("ending", ["md", "tex", "csv", "json"])
def test_compare_writes_the_format_that_the_name_asks_for(cotrunk, several_runs, shared, ending):
    runs = [shared, several_runs / "apart"]
    said = cotrunk("compare", *runs, "-o", f"out.{ending}")
    assert (said.code, said.out) == (0, "")
    forms = {"md": "markdown", "tex": "latex", "csv": "csv"}
    option = ["--format", forms[ending]] if ending in forms else ["--json"]
    assert Path(f"out.{ending}").read_text() == cotrunk("compare", *runs, *option).out


def test_the_python_door_returns_what_the_command_prints(document, several_runs, shared):
    found = door.compare([shared, str(several_runs / "apart")])
    assert found.to_json() == document
    assert found.tasks == TASKS
    alone = door.compare(str(several_runs / "apart"))
    assert alone.differences == ()


@pytest.mark.slow
def test_compare_does_not_import_torch(several_runs):
    code = "import sys, cotrunk; cotrunk.compare(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    runs = [str(several_runs / name) for name in ("shared", "apart")]
    assert subprocess.run([sys.executable, "-c", code, *runs], check=False).returncode == 0


def test_info_shows_seconds_and_sizes(cotrunk, several_runs):
    document = cotrunk("info", several_runs / "apart", "--json").document
    compared = cotrunk("compare", several_runs / "apart", "--json").document["runs"][0]
    for key in ("parameters", "trained_parameters", "bytes", "seconds", "cpu_seconds", "epochs"):
        assert document[key] == compared[key]
    shown = cotrunk("info", several_runs / "apart").out
    for word in ("CPU seconds", "peak memory", "checkpoint"):
        assert word in shown
