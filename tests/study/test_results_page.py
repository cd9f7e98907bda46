"""Our results: what is collected from a study's folder, and the page that is made of it."""

import json
import re
import shutil
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from cotrunk.cli.main import main as cotrunk
from cotrunk.errors import UserError
from cotrunk.study.definition import read_study
from cotrunk.study.plan import Choices
from cotrunk.study.study import conclude
from tools.results.__main__ import ROOT, main
from tools.results.collect import Trial, collected, without_paths
from tools.results.documents import STUDIES, Result, Results, ZeroShot, read_results
from tools.results.headline import headline_of
from tools.results.page import SEEN, page, paraphrase_note
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
    scores = dict.fromkeys(("sst", "para", "sts", "official", "mean"), score)
    return Trial(sweep, plan, {}, seed, scores, 1000 * (10 - shared), 40, 100.0, 180.0)


def compared(verdict: str) -> dict:
    found = {"comparison": "one - other", "on": "official", "p": 0.5, "claimed": [0.0, None]}
    numbers = {"found": 0.004, "low": -0.01, "high": 0.02}
    return {**found, **numbers, "seeds": [3, 2], "verdict": verdict}


def document_of(name: str, tmp_path: Path, *, finished: int = 14) -> dict:
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
    found["skipped"] = {"reviews": f"ids-cfimdb-train.csv: not in {DATA}"}
    found["broken"] = [{"run": f"{FOLDER}/plans/x", "why": f"{FOLDER}/plans/x/run.json: no file"}]
    found["failed"] = [{"trial": "plans/y", "why": "No space left on device: '/var/tmp/a b'"}]
    plans = ["I6", "S1 I5", "S2 I4", "S3 I3", "S4 I2", "S5 I1", "S6"]
    trials = [trial(plan, seed) for seed in (0, 1) for plan in plans][:finished]
    asked = {"study": name, "budget": "quick", "data": str(DATA), "seeds": 2}
    asked |= {"weights": "/home/someone/weights/mini", "set": ["train.epochs=2"]}
    return collected(found, asked, trials, {"plans": 14}, machine=[FOLDER, DATA])


def headline_document(tmp_path: Path, seeds: int = 3) -> dict:
    found = conclude(read_study("headline", "quick"), Choices(), tmp_path).document()
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
    text = json.dumps(document_of(name, tmp_path))
    assert not re.search(r"/home|/mnt|/var|someone|my studies", text)
    assert str(tmp_path) not in text
    assert "ids-cfimdb-train.csv" in text


def test_collecting_keeps_what_a_reader_needs_to_trust_a_verdict(tmp_path):
    document = document_of("hybrid", tmp_path)
    claim = document["claims"][0]
    assert {"id", "claim", "test", "margin", "verdict", "evidence", "n"} <= set(claim)
    assert claim["n"] == 2  # the smaller side
    assert {"budget", "version", "skipped", "broken", "failed", "command"} <= set(document)
    assert (document["planned"], document["finished"]) == (14, 14)
    assert document["cpu_seconds"] == 14 * 180.0
    row = document["tables"][0]["rows"][0]
    assert {"seeds", "ours", "spread", "printed"} <= set(row)


def test_more_seeds_than_planned_in_one_sweep_do_not_hide_what_another_lacks(tmp_path):
    found = conclude(read_study("hybrid", "quick"), Choices(), tmp_path).document()
    asked = {"study": "hybrid", "budget": "quick", "data": None}
    trials = [trial("S6", seed) for seed in range(9)]
    document = collected(found, asked, trials, {"plans": 2, "apart": 2}, machine=[])
    assert (document["planned"], document["finished"]) == (4, 2)


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_is_on_the_page_with_its_verdict_and_number_of_seeds(name, tmp_path):
    document = document_of(name, tmp_path)
    text = section(written(results_of(document)), TEXTS[name].heading)
    for claim in document["claims"]:
        (line,) = [line for line in text.splitlines() if line.startswith(f"- `{claim['id']}` ")]
        assert f"**{claim['verdict']}**" in line
        assert "n = 2 seeds" in line or claim["test"] == "none"


def test_a_study_that_was_cut_short_says_so_and_so_do_its_open_claims(tmp_path):
    document = document_of("hybrid", tmp_path, finished=5)
    text = section(written(results_of(document)), TEXTS["hybrid"].heading)
    assert "5 of its 14 trials" in text
    lines = [line for line in text.splitlines() if line.startswith("- `")]
    assert {"cut short" in line for line in lines if "**undecided**" in line} == {True}
    assert {"cut short" in line for line in lines if "**confirmed**" in line} == {False}
    assert "authors" not in text


def test_a_complete_study_does_not_call_itself_cut_short(tmp_path):
    text = written(results_of(document_of("hybrid", tmp_path)))
    assert "Cut short" not in text
    assert "cut short)" not in text


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


def test_scores_without_training_are_not_invented_before_they_are_measured():
    assert not re.search(r"0\.\d", paraphrase_note(None))
    assert "0.785" in paraphrase_note(ZeroShot(0.785, 0.838, 0.7))


def test_sentences_to_the_authors_appear_only_under_their_verdicts(tmp_path):
    document = document_of("hybrid", tmp_path)
    texts = TEXTS["hybrid"]
    for advice in texts.advice:
        for claim in document["claims"]:
            claim["verdict"] = advice.when.get(claim["id"], "not testable here")
        assert advice.text in advice_for(Result("hybrid", document), texts)
        cut_short = {**document, "finished": 1}
        assert advice_for(Result("hybrid", cut_short), texts) == []
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


def test_the_page_says_how_often_the_headline_was_tried_and_what_selection_explains(tmp_path):
    document = headline_document(tmp_path, seeds=2)
    text = written(results_of(headline=document))
    assert "7 tries" in text
    assert f"{0.76 - document['dev']['official']:+.3f}" in text
    assert "2 of its 3 runs" in text


def test_plans_are_ordered_by_how_much_they_share(tmp_path):
    points = points_of(Result("hybrid", document_of("hybrid", tmp_path)))
    assert [point.shared for point in points] == [0, 1, 2, 3, 4, 5, 6]
    assert {point.layers for point in points} == {6}
    assert all(len(point.scores["official"]) == 2 for point in points)


def test_a_picture_is_drawn_of_each_study_that_has_run_and_of_the_question_on_top(tmp_path):
    drawn = pictures(results_of(document_of("hybrid", tmp_path)), TEXTS)
    assert set(drawn) == {"sharing", "hybrid"}
    assert all(svg.startswith("<svg") and "#ffffff" in svg for svg in drawn.values())


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
    """There is none before a study has been collected."""
    results = read_results(ROOT / "results")
    drawn = {file.stem.removeprefix("results-") for file in ROOT.glob("docs/pictures/results-*")}
    file = ROOT / "docs/results.md"
    text = file.read_text(encoding="utf-8") if file.exists() else None
    expected = page(results, TEXTS, drawn) if results.studies or results.headline else None
    assert text == expected, "run: make results"


def test_a_folder_that_is_no_study_is_refused_in_one_line(tmp_path, capsys):
    assert main(["collect", str(tmp_path)], root=tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "study.json" in line


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
    assert (document["planned"], document["finished"]) == (2, 2)
    assert [seed["seed"] for seed in document["seeds"]] == [11711, 11712]
    assert document["tables"][0]["rows"][0]["spread"]["official"] is not None
    assert main(["zero-shot", "--data", str(course / "nowhere")], root=tmp_path) == 2
    assert main([], root=tmp_path) == 0
    assert "3 tries" in (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")

    (tmp_path / "out" / "results.json").unlink()  # as if it had been killed after the first run
    shutil.rmtree(next((tmp_path / "out" / "headline").glob("*seed=11712")))
    assert main(["collect", "out", "--tries", "3"], root=tmp_path) == 0
    document = json.loads((tmp_path / "results" / "headline.json").read_text(encoding="utf-8"))
    assert (document["planned"], document["finished"]) == (2, 1)
    assert document["spread"]["official"] is None


@pytest.mark.slow
def test_the_encoder_is_measured_before_any_training(course):
    found = zero_shot(course, weights="random:tiny")
    assert 0.5 <= found["para"]["accuracy"] <= 1
    assert -1 <= found["sts"]["pearson"] <= 1
    assert (found["para"]["rows"], found["sts"]["rows"]) == (24, 24)
