"""Every preset trains on the sample data as it is, and says what the reports say."""

import json
import math
import tomllib
from itertools import product
from pathlib import Path

import pytest

from cotrunk.cli.main import main
from cotrunk.config import presets
from cotrunk.config.check import check_settings
from cotrunk.config.presets.depth import fit_plan
from cotrunk.config.presets.layers import read_layer
from cotrunk.model.sharing.partition import parse_partitions
from toy import prepared

STEPS = 12
QUICK = ("hybrid-bert", "mops-iii", "pals-annealed", "progressive")
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
    if presets.settings(name, changes=[]).train.sampling == "sequential":
        changes += [
            f"train.batches_per_epoch={STEPS // 6}",
            "train.epochs=20",
        ]  # so that all tasks have their turn
    return changes


def written(name: str, folder: Path) -> Path:
    path = folder / f"{name}.toml"
    assert main(["init", "--preset", name, "-o", str(path)]) == 0
    return path


def own_lines(name: str) -> list[str]:
    return (presets.FOLDER / f"{name}.toml").read_text().splitlines()


def merged(before: dict, changes: dict) -> dict:
    """Nested tables changed key by key; but what stands in braces is one value."""
    result = dict(before)
    for key, value in changes.items():
        nested = isinstance(value, dict) and key not in ("head", "reading")
        result[key] = merged(before.get(key, {}), value) if nested else value
    return result


def losses(run: Path) -> list[dict[str, float]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if record["event"] == "step"]


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in presets.names()
    ],
)
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
        *("hybrid-sequential", "hybrid-pcgrad", "progressive-baseline"),
        *("mops-subset", "mops-leaderboard"),
        *("minbert-annealed", "minbert-round-robin", "minbert-proportional"),
        *("pals-annealed", "pals-round-robin", "pals-proportional", "pals-large", "pals-late"),
        *("mastery-method-1", "mastery-method-2", "mastery-method-3", "mastery-pcgrad"),
        "headline",
    }


@pytest.mark.parametrize("regime", REGIMES)
def test_a_mops_regime_is_three_lines_and_has_the_neck_of_its_name(regime):
    name = f"mops-{regime}"
    neck = "-".join(regime.upper())
    assert presets.settings(name, changes=[]).sharing.neck == neck
    if regime != "iii":
        assert len(own_lines(name)) == 3
        other = presets.settings("mops-iii", changes=[f"sharing.neck={neck}"])
        assert presets.settings(name, changes=[]) == other


@pytest.mark.parametrize("name", presets.names())
def test_the_file_of_a_preset_names_only_what_it_changes(name):
    assert len([line for line in own_lines(name) if not line.startswith("#")]) <= 25
    assert all(len(line) <= 120 for line in own_lines(name))
    own = tomllib.loads((presets.FOLDER / f"{name}.toml").read_text())
    extended = own.pop("extends", presets.BASE)
    before = tomllib.loads((presets.FOLDER / "base.toml").read_text())
    if extended != presets.BASE:
        before = tomllib.loads(presets.text(extended))
    written = tomllib.loads(presets.text(name))
    assert written == merged(before, own)
    assert written != before


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_one_complete_config_with_comments(name):
    written = presets.text(name)
    assert "extends" not in tomllib.loads(written)
    assert list(tomllib.loads(written)) == ["encoder", "sharing", "tasks", "train"] + (
        ["stages"] if "[[stages]]" in written else []
    )
    for table in tomllib.loads(written)["tasks"].values():
        assert {"kind", "text", "label", "train", "dev", "head"} <= set(table)
    commented = [line for line in written.splitlines() if " # " in line]
    assert len(commented) >= 15
    assert all(len(line) <= 120 for line in written.splitlines())


@pytest.mark.parametrize(
    ("line", "value", "comment"),
    [
        ('a = "x"', '"x"', ""),
        ('a = "x"  # why', '"x"', "# why"),
        ('a = "#1"   # why # not', '"#1"', "# why # not"),
        ("a = ['#', 2] # x", "['#', 2]", "# x"),
    ],
)
def test_a_comment_ends_a_value_but_a_hash_in_quotes_does_not(line, value, comment):
    entry = read_layer(f"[t]\n{line}\n").entries["t.a"]
    assert (entry.value, entry.comment) == (value, comment)


def test_comments_stay_unless_a_change_brings_its_own():
    base = read_layer("# base: x\n# more\n\n# A table.\n[t]\na = 1  # one\nb = 2  # two\nc = 3\n")
    changed = read_layer("# new: y\nt.a = 5\nt.d = 4  # four\n# above\nt.b = 6  # six\nt.u.e = 7\n")
    assert changed.over(base).text().splitlines() == [
        *("# new: y", "# more", "", "# A table.", "[t]"),
        f"{'a = 5':<30} # one",
        f"{'d = 4':<30} # four",
        *("# above", f"{'b = 6':<30} # six", "c = 3", "", "[t.u]", "e = 7"),
    ]


def test_the_necks_named_in_mops_subset_are_the_nine_of_the_report():
    comment = [line for line in presets.text("mops-subset").splitlines() if line.startswith("# ")]
    quoted = [neck for line in comment for neck in line.split('"')[1::2]]
    necks = [neck for neck in quoted if "+" in neck]
    assert len(set(necks)) == 9
    for neck in necks:
        assert presets.settings("mops-subset", changes=[f"sharing.neck={neck}"])


@pytest.mark.slow
def test_pals_can_be_added_to_a_trained_run_of_1_bert_and_keep_its_outputs(tmp_path):
    trained, late = written("1-bert", tmp_path), written("pals-late", tmp_path)
    run = tmp_path / "1-bert"
    assert main(["train", str(trained), "--out", str(run), "--set", *tiny("1-bert")]) == 0
    changes = [*tiny("pals-late"), "train.init_from=1-bert"]
    notes = prepared(late, *changes).notes
    met, fresh = (note for note in notes if not note.startswith("passes"))
    assert met == (
        "started from a trained run; outputs for sst, para, sts match the source run "
        "(max difference 0)"
    )
    _, _, names = fresh.partition("initialised at random: ")
    assert all(name.startswith("projected.") for name in names.split(", "))


REPORTED = [name for name in presets.names() if name not in presets.NOT_REPORTED]


@pytest.mark.parametrize("name", REPORTED)
def test_the_settings_of_a_report_are_those_of_bert_base(name):
    written = presets.text(name, as_reported=True)
    assert "# Settings as in the report" in written
    assert all(len(line) <= 120 for line in written.splitlines())
    settings = check_settings(tomllib.loads(written), place=name)
    assert settings.encoder.weights == "bert-base-uncased"
    assert len(parse_partitions(settings.sharing.encoder, list(settings.tasks), place=name)) == 12
    frozen = settings.train.freeze == "encoder"
    assert settings.stages_of_training[-1].lr == (1e-3 if frozen else 1e-5)
    assert settings.train.head_lr in ("lr", settings.train.lr)
    assert {part.head.dropout or part.head.output_dropout for part in settings.tasks.values()} == {
        0.3
    }
    assert (settings.train.schedule, settings.train.optimizer) == ("none", "course")


@pytest.mark.parametrize(
    ("plan", "layers", "fitted"),
    [
        ("S3 I3", 12, "S6 I6"),
        ("S3 I3", 2, "S1 I1"),
        ("S6", 24, "S24"),
        ("S2 (a+b)2 I2", 12, "S4 (a+b)4 I4"),
        ("S3 I3", 6, "S3 I3"),
        ("S3 I3", 1, "S1"),
    ],
)
def test_a_plan_is_fitted_to_the_depth_of_an_encoder(plan, layers, fitted):
    assert fit_plan(plan, layers) == fitted


def test_init_fits_the_plan_to_the_encoder_that_is_asked_for(tmp_path):
    path = tmp_path / "run.toml"
    assert main(["init", "--weights", "random:tiny", "-o", str(path)]) == 0
    assert tomllib.loads(path.read_text())["sharing"]["encoder"] == "S1 I1"
    assert prepared(path, "train.max_steps=1").network.plan


@pytest.mark.parametrize("name", presets.NOT_REPORTED)
def test_a_preset_that_no_report_trained_has_no_reported_settings(name, tmp_path, capsys):
    command = ["init", "--preset", name, "--as-reported", "-o", str(tmp_path / "x.toml")]
    assert main(command) == 2
    assert "no report has trained it" in capsys.readouterr().err
