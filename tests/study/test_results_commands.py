"""Commands that collect studies, measure the encoder and write the page of results."""

import json
import re
import shutil

import numpy as np
import pytest
from collected import TEXTS, results_of, section, written

from cotrunk.cli.main import main as cotrunk
from cotrunk.errors import UserError
from cotrunk.study.definition import read_study
from cotrunk.study.plan import Choices, planned_specs, trial_counts
from cotrunk.study.results import write_identity
from cotrunk.study.sweep.sweep import run_sweep
from tools.results.__main__ import main
from tools.results.collect import collect
from tools.results.documents import Result
from tools.results.zero_shot import best_threshold, zero_shot


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

    shutil.rmtree(next((tmp_path / "out" / "headline").glob("*seed=11712")))
    assert main(["collect", "out", "--tries", "3"], root=tmp_path) == 0
    again = json.loads((tmp_path / "results" / "headline.json").read_text(encoding="utf-8"))
    assert again == document  # a run counts after its folder is gone


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
    kept, document = collect(tmp_path / "out")
    result = Result("progressive", document)
    assert result.progress(["baseline"]).is_complete
    assert result.progress().not_run == result.progress().planned - 2
    text = section(written(results_of(result.document)), TEXTS["progressive"].heading)
    assert "| `baseline` | 2 of 2 | 2 | 6 | 12 |" in text
    assert "| `shared` | not run |" in text
    assert re.search(r"^\| Baseline \| 2 \| 0\.\d+ ", text, re.M)
    assert re.search(r"^\| Shared Layer \| not run \| - ", text, re.M)
    assert "`C11-sts` **not run yet**" in text
    assert "`--set train.steps_per_epoch=2`" in text

    shutil.rmtree(tmp_path / "out" / "baseline")  # as if the rest ran on another machine
    run_sweep(specs["shared"], tmp_path / "out" / "shared", engine="local")
    _, document = collect(tmp_path / "out", kept)
    finished = {name for name, each in document["sweeps"].items() if each["finished"]}
    assert finished == {"baseline", "shared"}
    claims = {claim["id"]: claim["evidence"]["comparisons"] for claim in document["claims"]}
    assert claims["C11-sts"], "runs of both folders are compared"
    for other in ("budget", "data", "weights", "set"):
        with pytest.raises(UserError, match=f"{other} was other and is .*; delete it"):
            collect(tmp_path / "out", kept | {other: "other"})


@pytest.mark.slow
def test_the_encoder_is_measured_before_any_training(course):
    found = zero_shot(course, weights="random:tiny")
    assert 0.5 <= found["para"]["accuracy"] <= 1
    assert -1 <= found["sts"]["pearson"] <= 1
    assert (found["para"]["rows"], found["sts"]["rows"]) == (24, 24)
