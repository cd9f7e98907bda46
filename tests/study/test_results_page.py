"""Our results: what is collected from a study, and the page that is made of it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from collected import (
    DATA,
    FOLDER,
    TEXTS,
    document_of,
    headline_document,
    partial,
    results_of,
    section,
    trial,
    trials_of,
    written,
)
from made_up import made_up_run

from cotrunk.errors import UserError
from cotrunk.study.claims import judge
from cotrunk.study.definition import read_study, selections_of
from cotrunk.study.layout import filled
from cotrunk.study.plan import Choices, planned_specs, trial_counts
from cotrunk.study.records import RunRecord
from cotrunk.study.study import conclude
from tools.results.__main__ import ROOT, main
from tools.results.collect import collected, without_paths
from tools.results.documents import STUDIES, Result, read_results
from tools.results.drawn import OURS, PRINTED, description, records_of
from tools.results.page import page
from tools.results.parts import SEEN
from tools.results.pictures import pictures
from tools.results.sharing import points_of
from tools.results.tables import UNTRAINED
from tools.results.texts import FILE, advice_for, read_texts


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
