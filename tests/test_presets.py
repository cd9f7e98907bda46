"""Every preset trains on the sample data as it is, and says what the reports say."""

import json
import math
import tomllib
from itertools import product
from pathlib import Path

import pytest

from cotrunk.cli.main import main
from cotrunk.config import presets
from toy import prepared

STEPS = 20
REGIMES = ["".join(layers) for layers in product("is", repeat=3)]
TINY = {"S6": "S2", "I6": "I2", "S3 I3": "S1 I1"}
FAST = [
    *("encoder.weights=random:tiny", "encoder.max_tokens=24", "train.threads=1"),
    *(f"train.max_steps={STEPS}", "train.batch=8", "train.evaluate=never"),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all: every preset reads the same rows."""
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path_factory.getbasetemp() / "presets"))


def tiny(name: str) -> list[str]:
    """The preset on two random layers: same plan, fewer depths."""
    sharing = tomllib.loads(presets.text(name))["sharing"]
    changes = [*FAST, f"sharing.encoder={TINY[sharing['encoder']]}"]
    if "pal" in sharing:
        changes += ["sharing.pal.size=8", "sharing.pal.heads=4"]
    return changes


def written(name: str, folder: Path) -> Path:
    path = folder / f"{name}.toml"
    assert main(["init", "--preset", name, "-o", str(path)]) == 0
    return path


def losses(run: Path) -> list[dict[str, float]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if record["event"] == "step"]


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_trains_on_the_sample_data(name, tmp_path):
    path = written(name, tmp_path)
    stages = len(tomllib.loads(path.read_text()).get("stages", [{}]))
    run = tmp_path / "run"
    assert main(["train", str(path), "--out", str(run), "--set", *tiny(name)]) == 0
    found = losses(run)
    assert len(found) == STEPS * stages
    assert all(math.isfinite(loss) for step in found for loss in step.values())
    assert set().union(*found) == {"sst", "para", "sts"}
    assert (run / "final" / "model.safetensors").exists()


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_introduces_itself_and_can_read_the_course_files(name):
    first = presets.text(name).splitlines()[0]
    assert first.startswith(f"# {name}: ")
    assert len(presets.summaries()[name]) <= 60
    tasks = tomllib.loads(presets.text(name, data="course"))["tasks"]
    assert {part["train"] for part in tasks.values()} == {
        "course/ids-sst-train.csv",
        "course/quora-train.csv",
        "course/sts-train.csv",
    }
    assert not any("sample:" in part["dev"] for part in tasks.values())


def test_all_systems_of_the_reports_are_there():
    assert set(presets.names()) == {
        *(f"mops-{regime}" for regime in REGIMES),
        *("1-bert", "3-bert", "hybrid-bert", "baseline", "progressive"),
        *("mops-subset", "mops-leaderboard"),
        *("pals-annealed", "pals-round-robin", "pals-proportional", "pals-late"),
        *("mastery-method-1", "mastery-method-2", "mastery-method-3", "mastery-pcgrad"),
    }


@pytest.mark.parametrize("regime", REGIMES)
def test_a_mops_preset_has_the_neck_of_its_name(regime):
    sharing = presets.settings(f"mops-{regime}", changes=[]).sharing
    assert sharing.neck == "-".join(regime.upper())


def test_the_necks_named_in_mops_subset_are_the_nine_of_the_report():
    comment = [line for line in presets.text("mops-subset").splitlines() if line.startswith("# ")]
    quoted = [neck for line in comment for neck in line.split('"')[1::2]]
    necks = [neck for neck in quoted if "+" in neck]
    assert len(set(necks)) == 9
    for neck in necks:
        assert presets.settings("mops-subset", changes=[f"sharing.neck={neck}"])


def test_pals_can_be_added_to_a_trained_run_of_1_bert_and_keep_its_outputs(tmp_path):
    trained, late = written("1-bert", tmp_path), written("pals-late", tmp_path)
    run = tmp_path / "1-bert"
    assert main(["train", str(trained), "--out", str(run), "--set", *tiny("1-bert")]) == 0
    changes = [*tiny("pals-late"), "train.init_from=1-bert"]
    met, fresh = prepared(late, *changes).notes
    assert met == (
        "started from a trained run; outputs for sst, para, sts match the source run "
        "(max difference 0)"
    )
    _, _, names = fresh.partition("initialised afresh: ")
    assert all(name.startswith("projected.") for name in names.split(", "))
