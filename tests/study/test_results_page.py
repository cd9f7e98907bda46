"""Our results: what is collected from a study's folder, and the page that is made of it."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from made_up import made_up_run

from cotrunk.cli.main import main as cotrunk
from cotrunk.errors import UserError
from cotrunk.study.claims import judge
from cotrunk.study.definition import read_study, selections_of
from cotrunk.study.layout import filled
from cotrunk.study.plan import Choices, planned_specs, trial_counts
from cotrunk.study.records import RunRecord
from cotrunk.study.results import write_identity
from cotrunk.study.study import conclude
from cotrunk.study.sweep.sweep import run_sweep
from tools.results.__main__ import ROOT, main
from tools.results.collect import Trial, collect, collected, without_paths
from tools.results.documents import STUDIES, Result, Results, ZeroShot, read_results
from tools.results.drawn import OURS, PRINTED, description, records_of
from tools.results.headline import headline_of
from tools.results.page import page
from tools.results.parts import SEEN
from tools.results.pictures import pictures
from tools.results.sharing import depths, points_of
from tools.results.tables import UNTRAINED
from tools.results.texts import FILE, advice_for, read_texts
from tools.results.zero_shot import best_threshold, zero_shot

FOLDER = Path("/home/someone/my studies/hybrid")
DATA = Path("/mnt/course")
TEXTS = read_texts()
VERDICTS = ("confirmed", "refuted", "undecided")


def trial(plan: str, seed: int, *, sweep: str = "plans") -> Trial:
    shared, _ = depths(plan)
    score = 0.75 - 0.002 * shared + 0.001 * seed
    return Trial(
        sweep=sweep,
        plan=plan,
        choices={},
        seed=seed,
        scores=dict.fromkeys(("sst", "para", "sts", "official", "mean"), score),
        parameters=1000 * (10 - shared),
        weights="minilm",
        epochs=6,
        steps=180,
        best_step=40,
        seconds=100.0,
        cpu_seconds=180.0,
    )


def trials_of(name: str) -> list[Trial]:
    """Two seeds of each plan of ``hybrid``, and of one trial in every other sweep."""
    plans = {"apart": ["I6"], "plans": ["S1 I5", "S2 I4", "S3 I3", "S4 I2", "S5 I1", "S6"]}
    return [
        trial(plan, seed, sweep=sweep)
        for sweep in read_study(name, "quick").sweeps
        for plan in plans.get(sweep, ["S3 I3"])
        for seed in (0, 1)
    ]


def compared(verdict: str) -> dict:
    found = {"comparison": "one - other", "on": "official", "p": 0.5, "claimed": [0.0, None]}
    shown = {"measure": "official", "shown": "+0.004 [-0.010, +0.020] (3 and 2 seeds)"}
    numbers = {"found": 0.004, "low": -0.01, "high": 0.02}
    return {**found, **shown, **numbers, "seeds": [3, 2], "verdict": verdict}


def document_of(
    name: str, tmp_path: Path, *, trials: list[Trial] | None = None, weights: str = ""
) -> dict:
    """A study as it would be collected, with values that no run has measured."""
    found = conclude(read_study(name, "quick"), Choices(), tmp_path).document()
    turns = cycle(VERDICTS)
    for claim in found["claims"]:
        if claim["test"] != "none":
            claim["verdict"] = next(turns)
            claim["evidence"] = {"why": "", "comparisons": [compared(claim["verdict"])]}
    for row in (row for table in found["tables"] for row in table["rows"]):
        row["seeds"] = 2
        row["ours"] = dict.fromkeys(row["ours"], 0.5)
        row["spread"] = dict.fromkeys(row["ours"], 0.01)
    found["dev_rows"] = 2000
    found["skipped"] = {"reviews": f"ids-cfimdb-train.csv: not in {DATA}"}
    found["broken"] = [{"run": "lost/x", "why": f"{FOLDER}/lost/x/run.json: no file"}]
    found["failed"] = [{"trial": "lost/y", "why": "No space left on device: '/var/tmp/a b'"}]
    asked = {"study": name, "budget": "quick", "data": str(DATA), "seeds": 2}
    asked |= {"weights": weights or None, "set": ["train.epochs=2"]}
    planned = Counter(trial.sweep for trial in trials_of(name))
    done = trials_of(name) if trials is None else trials
    return collected(found, asked, done, planned, machine=[FOLDER, DATA])


def partial(name: str, tmp_path: Path, *sweeps: str) -> dict:
    """The study when only some of its sweeps have run."""
    trials = [trial for trial in trials_of(name) if trial.sweep in sweeps]
    return document_of(name, tmp_path, trials=trials)


def headline_document(tmp_path: Path, seeds: int = 3) -> dict:
    found = conclude(read_study("headline", "quick"), Choices(data=DATA), tmp_path).document()
    found |= {"failed": [{"trial": "headline/z", "why": "out of memory"}], "dev_rows": None}
    trials = [trial("S3 I3", seed, sweep="headline") for seed in range(seeds)]
    asked = {"study": "headline", "budget": "quick", "data": str(DATA)}
    document = collected(found, asked, trials, {"headline": 3}, machine=[DATA])
    return headline_of(document, tries=7, chosen_at=0.76)


def results_of(*documents: dict, headline: dict | None = None) -> Results:
    return Results(
        studies={d["study"]: Result(d["study"], d) for d in documents},
        headline=Result("headline", headline) if headline else None,
        zero_shot=ZeroShot(para=0.785, sts=0.838, threshold=0.7),
    )


def written(results: Results) -> str:
    return page(results, TEXTS, drawn=())


def section(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{DATA}/quora-dev.csv: no rows", "quora-dev.csv: no rows"),
        (f"x: not in {DATA}", "x: not in course"),
        (f"{FOLDER}/plans/lr=1e-4: damaged", "plans/lr=1e-4: damaged"),
        ("see '/etc/motd' and ~/notes/a.txt", "see 'motd' and a.txt"),
        ("(cos+1)/2, 1/3, and/or, sst/para", "(cos+1)/2, 1/3, and/or, sst/para"),
        ("https://example.org/a/b", "https://example.org/a/b"),
    ],
)
def test_absolute_paths_are_cut_and_nothing_else(text, kept):
    assert without_paths({"a": [text]}, [FOLDER, DATA]) == {"a": [kept]}


@pytest.mark.parametrize("name", STUDIES)
def test_no_path_of_the_machine_survives_collecting(name, tmp_path):
    text = json.dumps(document_of(name, tmp_path, weights="/home/someone/weights/mini"))
    assert not re.search(r"/home|/mnt|/var|someone|my studies", text)
    assert str(tmp_path) not in text
    assert "ids-cfimdb-train.csv" in text


def test_collecting_keeps_what_a_reader_needs_to_trust_a_verdict(tmp_path):
    document = document_of("hybrid", tmp_path)
    claim = document["claims"][0]
    assert {"id", "claim", "test", "margin", "verdict", "evidence", "n"} <= set(claim)
    assert claim["n"] == 2  # the smaller side
    assert {"budget", "set", "version", "skipped", "broken", "failed", "command"} <= set(document)
    assert document["sweeps"]["plans"] == {"planned": 12, "finished": 12, "failed": 0, "broken": 0}
    assert document["cpu_seconds"] == len(trials_of("hybrid")) * 180.0
    row = document["tables"][0]["rows"][0]
    assert {"seeds", "runs", "ours", "spread", "printed"} <= set(row)


def test_more_seeds_than_planned_in_one_sweep_do_not_hide_what_another_lacks(tmp_path):
    found = conclude(read_study("hybrid", "quick"), Choices(), tmp_path).document()
    asked = {"study": "hybrid", "budget": "quick", "data": None}
    trials = [trial("S6", seed) for seed in range(9)]
    planned = {"plans": 2, "apart": 2}
    document = collected(found | {"failed": []}, asked, trials, planned, machine=[])
    progress = Result("hybrid", document).progress()
    assert (progress.planned, progress.finished, progress.not_run) == (4, 2, 2)


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_is_on_the_page_with_its_verdict_and_number_of_seeds(name, tmp_path):
    document = document_of(name, tmp_path)
    text = section(written(results_of(document)), TEXTS[name].heading)
    for claim in document["claims"]:
        (line,) = [line for line in text.splitlines() if line.startswith(f"- `{claim['id']}` ")]
        assert f"**{claim['verdict']}**" in line
        assert "n = 2 seeds" in line or claim["test"] == "none"


def test_a_study_that_was_cut_short_says_so_and_so_do_the_claims_that_lack_trials(tmp_path):
    document = partial("hybrid", tmp_path, "apart", "plans")
    result = Result("hybrid", document)
    text = section(written(results_of(document)), TEXTS["hybrid"].heading)
    count = len(trials_of("hybrid"))
    assert f"**Cut short:** 14 of {count} trials have finished." in text
    for claim in document["claims"]:
        (line,) = [line for line in text.splitlines() if line.startswith(f"- `{claim['id']}` ")]
        assert ("not all trials have finished" in line) != result.has_all_trials_of(claim)
    assert {result.has_all_trials_of(claim) for claim in document["claims"]} == {True, False}


def test_a_study_whose_trials_failed_was_not_cut_short(tmp_path):
    document = document_of("hybrid", tmp_path, trials=trials_of("hybrid")[:-2])
    last = trials_of("hybrid")[-1].sweep
    document["sweeps"][last] |= {"failed": 1, "broken": 1}
    text = written(results_of(document))
    count = len(trials_of("hybrid"))
    ended = f"{count - 2} of {count} trials have finished, 1 failed, 1 cannot be read."
    assert f"**Incomplete:** {ended}" in text
    assert "Cut short" not in text


def test_a_complete_study_does_not_call_itself_cut_short(tmp_path):
    text = written(results_of(document_of("hybrid", tmp_path)))
    assert "Cut short" not in text
    assert "not all trials" not in text


def test_the_page_says_how_long_a_trial_was_and_what_was_changed(tmp_path):
    document = partial("hybrid", tmp_path, "apart", "plans")
    text = section(written(results_of(document)), TEXTS["hybrid"].heading)
    assert "budget `quick`, `--set train.epochs=2`" in text
    assert "| `plans` | 12 of 12 | 2 | 6 | 180 | 3.0 |" in text
    assert "| `heads` | not run |" in text


def _made_up(score: float, seed: int) -> RunRecord:
    return made_up_run(dict.fromkeys(("sst", "para", "sts"), score), seed)


def test_a_study_of_which_some_sweeps_have_run_shows_them_and_leaves_the_others_empty(tmp_path):
    """As collected from a folder in which ``apart`` and two plans have runs, with ``--set``."""
    study = read_study("hybrid", "quick")
    names = {"3-bert": ("I6", 0.78), "hybrid-bert": ("S3 I3", 0.77), "1-bert": ("S6", 0.75)}
    groups = {name: [] for name in selections_of(study)} | {
        name: [_made_up(score + seed / 1000, seed) for seed in (0, 1, 2)]
        for name, (_, score) in names.items()
    }
    outcome = replace(
        conclude(study, Choices(), tmp_path),
        groups=groups,
        tables=tuple(filled(table, groups) for table in study.tables),
        judged=tuple(judge(claim, groups, {}) for claim in study.claims),
    )
    trials = [
        trial(plan, seed, sweep="apart" if plan == "I6" else "plans")
        for plan, _ in names.values()
        for seed in (0, 1, 2)
    ]
    asked = {"study": "hybrid", "budget": "quick", "data": str(DATA), "seeds": 3}
    asked |= {"set": ["train.steps_per_epoch=200"]}
    planned = trial_counts(planned_specs(study, Choices(seeds=3)))
    found = outcome.document() | {"failed": [], "dev_rows": 2000}
    results = results_of(collected(found, asked, trials, planned, machine=[]))
    assert set(pictures(results, TEXTS)) == {"sharing", "hybrid"}
    text = written(results)
    top = section(text, TEXTS["sharing"].heading)
    assert "Of 3 plans" in top
    assert "**Cut short:** 9 of 21 trials have finished." in top
    below = section(text, TEXTS["hybrid"].heading)
    assert re.search(r"^\| 3-bert \(dev\) \| 3 \| 0\.781 ± 0\.001 ", below, re.M)
    assert re.search(r"^\| half, Hadamard product \| not run \| - \| - ", below, re.M)
    assert re.search(r"^\| hybrid-bert \(test, .*\) \| - \| - \(0\.526\)", below, re.M)
    assert "\n- `A20-1-bert` **confirmed** (n = 3 seeds; not all trials have finished): " in below
    assert re.search(r"^- `A24` \*\*not run yet\*\*: .*no finished run of unified", below, re.M)
    assert "`--set train.steps_per_epoch=200`" in below


def test_one_plan_answers_nothing_about_sharing(tmp_path):
    results = results_of(partial("hybrid", tmp_path, "apart"))
    assert "Not answered yet" in section(written(results), TEXTS["sharing"].heading)
    assert "sharing" not in pictures(results, TEXTS)


def test_studies_that_have_not_run_are_listed(tmp_path):
    text = written(results_of(document_of("mops", tmp_path)))
    for name in STUDIES:
        lines = [line for line in text.splitlines() if line.startswith(f"| `{name}` ")]
        assert [("not run yet" in line) for line in lines] == [name != "mops"]
    assert "Not answered yet" in text
    assert "study headline" in section(text, "The headline: one small model for all three tasks")


@pytest.mark.parametrize("name", STUDIES)
def test_paraphrase_scores_never_stand_without_what_the_encoder_has_seen(name, tmp_path):
    results = results_of(document_of(name, tmp_path), headline=headline_document(tmp_path))
    parts = written(results).split("\n## ")[1:]
    shown = [part for part in parts if re.search(r"^\|.*\bpara\b", part, re.M)]
    assert len(shown) >= 2
    assert all(SEEN in part for part in shown)
    assert all(UNTRAINED in part for part in shown[1 if name == "hybrid" else 0 :])


@pytest.mark.parametrize("change", [{"weights": "bert-base-uncased"}, {"data": "sample"}])
def test_scores_without_training_stand_beside_the_same_encoder_and_data_alone(change, tmp_path):
    text = written(results_of(document_of("hybrid", tmp_path) | change))
    assert UNTRAINED not in text
    assert "0.785" not in text
    assert (SEEN in text) == ("data" in change)


def test_scores_without_training_are_not_invented_before_they_are_measured(tmp_path):
    results = replace(results_of(document_of("hybrid", tmp_path)), zero_shot=None)
    text = written(results)
    assert SEEN in text
    assert UNTRAINED not in text
    assert "Without any training" not in text


def test_sentences_to_the_authors_appear_only_under_their_verdicts(tmp_path):
    document = document_of("hybrid", tmp_path)
    texts = TEXTS["hybrid"]
    for advice in texts.advice:
        for claim in document["claims"]:
            claim["verdict"] = advice.when.get(claim["id"], "not testable here")
        assert advice.text in advice_for(Result("hybrid", document), texts)
        cut_short = {name: each | {"finished": 0} for name, each in document["sweeps"].items()}
        said = advice_for(Result("hybrid", document | {"sweeps": cut_short}), texts)
        assert (advice.text in said) == (advice.when == {"A20-parameters": "refuted"})  # counted
        document["claims"] = [c for c in document["claims"] if c["id"] not in advice.when]
        assert advice.text not in advice_for(Result("hybrid", document), texts)
        document = document_of("hybrid", tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        ('"A28" = "confirmed"', '"A99" = "confirmed"', "no claim 'A99'"),
        ('"A28" = "confirmed"', '"A28" = "proven"', "'proven' is not a verdict"),
        ("tables = [2, 3]", "tables = [2, 9]", "no table 9"),
        ('columns = ["sst", "para", "sts", "mean"]', 'columns = ["sat"]', "no column 'sat'"),
    ],
)
def test_a_sentence_about_a_claim_that_does_not_exist_is_refused(before, after, finding, tmp_path):
    text = FILE.read_text(encoding="utf-8")
    assert before in text
    changed = tmp_path / "reports.toml"
    changed.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_texts(changed)
    assert any(finding in line for line in error.value.lines)


def test_the_headline_has_the_keys_that_were_settled(tmp_path):
    document = headline_document(tmp_path)
    assert set(document["dev"]) == {"sst", "para", "sts", "official"}
    assert len(document["seeds"]) == 3
    assert all(
        {"seed", "sst", "para", "sts", "official"} <= set(seed) for seed in document["seeds"]
    )
    officials = [seed["official"] for seed in document["seeds"]]
    assert document["dev"]["official"] == pytest.approx(np.mean(officials))
    assert document["parameters"] == 7000
    assert document["seconds"] == 100.0
    assert document["tries"] == 7
    assert document["command"] == "cotrunk study headline --data DIR -o OUT"


def test_the_page_says_how_often_the_headline_was_tried_and_what_is_missing(tmp_path):
    document = headline_document(tmp_path, seeds=2)
    text = written(results_of(headline=document))
    assert "7 tries" in text
    again = document["dev"]["official"]
    assert f"with 2 seeds it has {again:.3f}, a difference of {again - 0.76:+.3f}" in text
    assert "2 of 3 trials have finished, 1 failed" in text
    assert "- Failed: headline/z: out of memory" in text
    assert f"- {document['notes'][0]}" in text


def test_plans_are_ordered_by_how_much_they_share(tmp_path):
    points = points_of(Result("hybrid", document_of("hybrid", tmp_path)))
    assert [point.shared for point in points] == [0, 1, 2, 3, 4, 5, 6]
    assert {point.layers for point in points} == {6}
    assert all(len(point.scores["official"]) == 2 for point in points)


def test_a_picture_is_drawn_of_each_study_that_has_run_and_of_the_question_on_top(tmp_path):
    drawn = pictures(results_of(document_of("hybrid", tmp_path)), TEXTS)
    assert set(drawn) == {"sharing", "hybrid"}
    assert all(svg.startswith("<svg") and "#ffffff" in svg for svg in drawn.values())


def test_rows_that_tables_share_are_drawn_with_the_printed_values_of_both(tmp_path):
    result = Result("mastery", document_of("mastery", tmp_path))
    records = records_of(result, TEXTS["mastery"])
    pair = [r for r in records if r["row"] == "SST + STS" and r["column"] == "sst"]
    assert [r["score"] for r in pair if r["whose"] == PRINTED] == [0.489, 0.512]
    assert len([r for r in pair if r["whose"] == OURS]) == 1


def test_the_description_of_a_picture_names_what_is_drawn(tmp_path):
    said = {
        name: description(Result(name, document_of(name, tmp_path)), TEXTS[name])
        for name in STUDIES
    }
    assert all(OURS in text for text in said.values())
    assert {name for name, text in said.items() if PRINTED not in text} == {"hybrid"}


def test_the_page_is_written_from_the_files_alone_with_all_pictures_that_it_shows(tmp_path):
    (tmp_path / "results").mkdir()
    old = tmp_path / "docs" / "pictures" / "results-gone.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    for name in ("hybrid", "pals"):
        file = tmp_path / "results" / f"{name}.json"
        file.write_text(json.dumps(document_of(name, tmp_path)), encoding="utf-8")
    assert main([], root=tmp_path) == 0
    text = (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\((pictures/[^)]+)\)", text)
    assert len(shown) == 3
    assert all((tmp_path / "docs" / picture).is_file() for picture in shown)
    assert not old.exists()


def test_the_page_of_the_documentation_is_what_the_results_say():
    results = read_results(ROOT / "results")
    drawn = {file.stem.removeprefix("results-") for file in ROOT.glob("docs/pictures/results-*")}
    text = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    assert text == page(results, TEXTS, drawn), "run: make results"


def test_a_folder_that_is_no_study_is_refused_in_one_line(tmp_path, capsys):
    assert main(["collect", str(tmp_path)], root=tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "study.json" in line


@pytest.mark.parametrize("study", ["sharing", "/home/someone/hybrid.toml"])
def test_only_the_studies_of_the_package_can_be_collected(study, tmp_path, capsys):
    write_identity(tmp_path, {"study": study, "budget": "quick", "data": None})
    assert main(["collect", str(tmp_path)], root=tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"has runs of the study {study}; only the package's own can be collected" in line


def test_nothing_is_collected_before_the_headline_says_how_many_recipes_were_tried(
    tmp_path, capsys
):
    for name in ("hybrid", "headline"):
        write_identity(tmp_path / name, {"study": name, "budget": "quick", "data": None})
    folders = [str(tmp_path / name) for name in ("hybrid", "headline")]
    (tmp_path / "results").mkdir()
    assert main(["collect", *folders], root=tmp_path) == 2
    assert "--tries" in capsys.readouterr().err
    assert not list((tmp_path / "results").iterdir())


def test_a_page_that_cannot_be_drawn_leaves_the_old_pictures(tmp_path):
    old = tmp_path / "docs" / "pictures" / "results-hybrid.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "hybrid.json").write_text('{"study": "hybrid"}', encoding="utf-8")
    with pytest.raises(KeyError):
        main([], root=tmp_path)
    assert old.exists()


def test_the_best_threshold_is_that_of_trying_all():
    random = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        score = random.integers(0, 6, size) / 5
        is_one = random.random(size) < 0.5
        threshold, accuracy = best_threshold(score, is_one)
        tried = [((score > t) == is_one).mean() for t in np.linspace(-0.1, 1.1, 61)]
        assert accuracy == pytest.approx(max(tried))
        assert ((score > threshold) == is_one).mean() == pytest.approx(accuracy)


@pytest.fixture
def course(tmp_path):
    """A few rows in the format of the course."""
    folder = tmp_path / "course"
    folder.mkdir()
    pair = "\tid\tsentence1\tsentence2\t"
    headers = {"ids-sst": "\tid\tsentence\tsentiment", "quora": f"{pair}is_duplicate"}
    for stem, header in {**headers, "sts": f"{pair}similarity"}.items():
        for split in ("train", "dev"):
            rows = [_row(stem, split, number) for number in range(24)]
            text = "\n".join([header, *("\t".join(map(str, row)) for row in rows)]) + "\n"
            (folder / f"{stem}-{split}.csv").write_text(text, encoding="utf-8")
    return folder


def _row(stem: str, split: str, number: int) -> list[object]:
    one, other = f"{split} text {number}", f"{split} other {number * 7 % 24}"
    if stem == "ids-sst":
        return [number, f"id{number}", one, number % 5]
    return [number, f"id{number}", one, other, float(number % 2)]


@pytest.mark.slow
def test_the_headline_is_trained_collected_and_shown_by_commands(course, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--weights", "random:tiny", "--seeds", "2", "--engine", "local"]
    short = ["--set", "train.epochs=1", "train.steps_per_epoch=36", "train.batch=4"]
    command = ["study", "headline", "--data", str(course), "-o", "out", *small, *short]
    assert cotrunk(command) == 0
    assert main(["collect", "out"], root=tmp_path) == 2  # without --tries
    (tmp_path / "results").mkdir()
    assert main(["collect", "out", "--tries", "3"], root=tmp_path) == 0
    text = (tmp_path / "results" / "headline.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    document = json.loads(text)
    assert document["sweeps"]["headline"] == {"planned": 2, "finished": 2, "failed": 0, "broken": 0}
    assert document["weights"] == "random:tiny"
    assert {(each["epochs"], each["steps"]) for each in document["trials"]} == {(1, 36)}
    assert [seed["seed"] for seed in document["seeds"]] == [11711, 11712]
    assert document["tables"][0]["rows"][0]["spread"]["official"] is not None
    assert main(["zero-shot", "--data", str(course / "nowhere")], root=tmp_path) == 2
    assert main([], root=tmp_path) == 0
    assert "3 tries" in (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")

    (tmp_path / "out" / "results.json").unlink()  # as if it had been killed after the first run
    shutil.rmtree(next((tmp_path / "out" / "headline").glob("*seed=11712")))
    assert main(["collect", "out", "--tries", "3"], root=tmp_path) == 0
    document = json.loads((tmp_path / "results" / "headline.json").read_text(encoding="utf-8"))
    assert document["sweeps"]["headline"] == {"planned": 2, "finished": 1, "failed": 0, "broken": 0}
    assert document["spread"]["official"] is None


@pytest.mark.slow
def test_a_study_can_be_collected_after_its_first_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    set_options = ["train.steps_per_epoch=2"]
    study = read_study("progressive", "quick")
    chosen = Choices(weights="random:tiny", seeds=2, changes={"train.steps_per_epoch": 2})
    specs = planned_specs(study, chosen)
    asked = {"study": "progressive", "budget": "quick", "data": None, "config": None}
    asked |= {"weights": "random:tiny", "seeds": 2, "set": set_options}
    write_identity(tmp_path / "out", asked | {"planned": trial_counts(specs)})
    run_sweep(specs["baseline"], tmp_path / "out" / "baseline", engine="local")
    result = Result("progressive", collect(tmp_path / "out"))
    assert result.progress(["baseline"]).is_complete
    assert result.progress().not_run == result.progress().planned - 2
    text = section(written(results_of(result.document)), TEXTS["progressive"].heading)
    assert "| `baseline` | 2 of 2 | 2 | 6 | 12 |" in text
    assert "| `shared` | not run |" in text
    assert re.search(r"^\| Baseline \| 2 \| 0\.\d+ ", text, re.M)
    assert re.search(r"^\| Shared Layer \| not run \| - ", text, re.M)
    assert "`C11-sts` **not run yet**" in text
    assert "`--set train.steps_per_epoch=2`" in text


@pytest.mark.slow
def test_the_encoder_is_measured_before_any_training(course):
    found = zero_shot(course, weights="random:tiny")
    assert 0.5 <= found["para"]["accuracy"] <= 1
    assert -1 <= found["sts"]["pearson"] <= 1
    assert (found["para"]["rows"], found["sts"]["rows"]) == (24, 24)
