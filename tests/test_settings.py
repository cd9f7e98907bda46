"""The config file: what it may say, what is refused, and in which words."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from cotrunk.config.check import ONCE_PER_RUN, check_settings, read_settings
from cotrunk.config.overrides import apply_changes
from cotrunk.config.settings import Method, Pair, Pooling, Sampler, Settings, TaskPart, Train
from cotrunk.data.batches import samplers
from cotrunk.data.reading import formats
from cotrunk.errors import UserError, for_command_line
from cotrunk.learn import combine, optimizer
from cotrunk.learn import loss_weighting as loss_weighting
from cotrunk.learn import regularize as regularize
from cotrunk.model import head_plan

SMALL = {
    "tasks": {"mood": {"kind": "classes", "classes": 3, "text": ["sentence"], "label": "mood"}},
}


def literal(model: type[TaskPart] | type[Train], key: str) -> set[str]:
    """The words that a setting may be."""
    annotation = model.model_fields[key].annotation
    words = [annotation, *get_args(annotation)]
    found = {word for part in words for word in (part, *get_args(part)) if isinstance(word, str)}
    assert found, f"{key} is not a choice of words"
    return found


def findings(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(UserError) as refused:
        check_settings(raw, place="my.toml")
    return list(refused.value.lines)


def changed(*changes: str) -> dict[str, Any]:
    raw: dict[str, Any] = {"tasks": {"mood": dict(SMALL["tasks"]["mood"])}}
    apply_changes(raw, list(changes))
    return raw


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (get_args(Sampler), samplers.SAMPLERS),
        (get_args(Method), combine.COMBINERS),
        ((*get_args(Pooling), "tokens"), get_args(head_plan.Pooling)),
        (get_args(Pair), head_plan.PAIR_PARTS),
        (literal(TaskPart, "quoting"), get_args(formats.Quoting)),
        (literal(Train, "optimizer"), optimizer.OPTIMIZERS),
        (literal(Train, "schedule"), optimizer.SCHEDULES),
        (literal(Train, "loss_weighting"), loss_weighting.LOSS_WEIGHTINGS),
        (literal(Train, "regularize"), regularize.REGULARIZERS),
    ],
    ids=[
        "sampling", "gradients", "pooling", "pair", "quoting", "optimizer",
        "schedule", "loss_weighting", "regularize",
    ],
)  # fmt: skip
def test_a_config_may_name_exactly_what_there_is(words, known):
    assert set(words) == set(known)


def test_a_task_needs_little():
    settings = check_settings(SMALL, place="my.toml")
    assert settings.encoder.weights == "minilm"
    assert settings.sharing.encoder is None
    assert settings.stages_of_training == [settings.train]


def test_settings_survive_json_and_back(toy):
    settings = read_settings(toy)
    again = check_settings(json.loads(json.dumps(settings.model_dump())), place="run.json")
    assert again == settings
    assert list(again.tasks) == ["mood", "same", "alike"]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("train.epohcs=2", "train.epohcs is not a setting; did you mean 'epochs'?"),
        ("trian.epochs=2", "trian is not a setting; did you mean 'train'?"),
        ("tasks.mood.labell=x", "tasks.mood.labell is not a setting; did you mean 'label'?"),
        ("tasks.mood.head.widht=9", "head.widht is not a setting; did you mean 'width'?"),
        ("sharing.soft.tracy=9", "sharing.soft.tracy is not a setting; did you mean 'trace'?"),
        ("sharing.pal.sise=9", "sharing.pal.sise is not a setting; did you mean 'size'?"),
        ("sharing.lora.layers=[0, 0]", "must list every entry once; 0 is there 2 times"),
        ("sharing.soft.zzz=9", "sharing.soft.zzz is not a setting; known: l2, trace"),
        ("train.sampling=togther", "did you mean 'together'?"),
        ("train.schedule=zzz", "must be one of none, linear, cosine, one-cycle"),
        ("train.evaluate=often", "must be one of epoch, never, or a whole number"),
        ("train.evaluate=0", "train.evaluate = 0: must be one of epoch, never, or 1 or more"),
        (
            "tasks.mood.dev=1.0",
            "tasks.mood.dev = 1.0: must be a file, a list of files, or a share between 0 and 1",
        ),
        (
            "tasks.mood.class_weights=balancd",
            "= 'balancd': must be \"balanced\", a list, or a table; did you mean 'balanced'?",
        ),
        ("train.weight_decay=0.1", "weight_decay is not a setting; did you mean 'decay'?"),
        ("train.learning_rate=0.1", "learning_rate is not a setting; did you mean 'lr'?"),
        ("encoder.model=minilm", "encoder.model is not a setting; did you mean 'weights'?"),
        ("train.per_device_train_batch_size=8", "did you mean 'batch'?"),
        ("train.num_train_epochs=8", "did you mean 'epochs'?"),
        ("train.warmup_ratio=0.1", "did you mean 'warmup'?"),
        ("encoder.max_length=8", "did you mean 'max_tokens'?"),
        ("train.max_length=8", "did you mean 'encoder.max_tokens'?"),
        ("learning_rate=0.1", "did you mean 'train.lr'?"),
        (
            "stages=[{learning_rate=0.1}]",
            "stages 1: learning_rate is not a setting; did you mean 'lr'?",
        ),
        (
            "tasks.mood.threshold=0.3",
            "tasks.mood.threshold: kind classes has no threshold; binary and",
        ),
        ("train.epochs=2.5", "train.epochs = 2.5: must be a whole number"),
        ("train.epochs=true", "train.epochs = True: must be a whole number"),
        ("train.lr=inf", "train.lr = inf: must be a finite number"),
        ("train.lr=-1", "train.lr = -1: must be above 0"),
        ("tasks.mood.train=3", "tasks.mood.train = 3: must be a file or a list of files"),
        ("train.warmup=1.0", "train.warmup = 1.0: must be below 1"),
        ("encoder.dropout=1", "encoder.dropout = 1: must be below 1"),
        ("tasks.mood.skip_bad_rows='yes'", "must be true or false"),
        ("tasks.mood.text=sentence", "tasks.mood.text = 'sentence': must be a list"),
        ("tasks.mood.text=[]", "must have 1 or more entries; found 0"),
        ("tasks.mood.label=3", "tasks.mood.label = 3: must be text in quotes"),
        ("tasks.mood.kind=regression", "must be one of classes, binary, score, multilabel"),
        ("tasks.2nd.kind=score", "must start with a letter"),
        ("train.device=gpu", "must be auto, cpu, mps, cuda or cuda:<number>"),
    ],
)
def test_a_finding_names_its_key_and_its_rule(change, finding):
    found = findings(changed(change))
    assert finding in found[0]
    assert all(line.startswith("my.toml: ") for line in found)


def test_all_findings_come_at_once():
    raw = changed("train.lr=fast", "train.epohcs=1", "encoder.max_tokens=1", "tasks.b.kind=score")
    found = findings(raw)
    keys = ["encoder.max_tokens", "tasks.b.text", "tasks.b.label", "train.lr", "train.epohcs"]
    assert [line.split()[1] for line in found] == keys


def test_a_misspelt_column_is_not_missing_too_whatever_the_kind():
    for kind in ("classes", "clases"):
        raw = changed(f"tasks.mood.kind={kind}", "tasks.mood.texts=['a']")
        del raw["tasks"]["mood"]["text"]
        found = findings(raw)
        assert any("tasks.mood.texts is not a setting; did you mean 'text'?" in x for x in found)
        assert not any("is missing" in line for line in found)


@pytest.mark.parametrize(
    ("key", "why"),
    [("kind", "classes"), ("text", "text columns"), ("label", "label column")],
)
def test_what_a_task_must_say_is_asked_for(key, why):
    raw = changed()
    del raw["tasks"]["mood"][key]
    [found] = findings(raw)
    assert f"tasks.mood.{key} is missing: " in found
    assert why in found


def test_stages_change_what_train_says():
    stages = 'stages=[{freeze = "encoder", epochs = 1}, {lr = 0.001}]'
    settings = check_settings(changed("train.epochs=5", stages), place="my.toml")
    first, second = settings.stages_of_training
    assert (first.freeze, first.epochs) == ("encoder", 1)
    assert (second.freeze, second.epochs, second.lr) == ("nothing", 5, 0.001)


def test_a_change_that_every_stage_overrides_is_refused(tmp_path):
    file = tmp_path / "my.toml"
    task = 'kind = "binary"\ntext = ["a"]\nlabel = "b"\n'
    file.write_text(f"[tasks.t]\n{task}[[stages]]\nlr = 1e-3\nepochs = 1\n[[stages]]\nlr = 1e-5\n")
    assert read_settings(file, ["train.epochs=5"]).stages_of_training[1].epochs == 5
    with pytest.raises(UserError) as refused:
        read_settings(file, ["train.lr=1.0"])
    (line,) = map(for_command_line, refused.value.lines)
    assert line.startswith("--set train.lr has no effect: every stage sets its own lr")


def test_findings_in_all_stages_come_at_once():
    stages = "stages=[{epohcs = 1}, {lr = 'fast'}, {device = 'cpu'}]"
    assert findings(changed(stages)) == [
        "my.toml: stages 1: epohcs is not a setting; did you mean 'epochs'?",
        "my.toml: stages 2: lr = 'fast': must be a number",
        "my.toml: stages 3: device applies to the whole run; move it to [train]",
    ]


@pytest.mark.parametrize("key", ONCE_PER_RUN)
def test_what_holds_for_the_whole_run_stands_outside_of_stages(key):
    value = check_settings(SMALL, place="my.toml").model_dump()["train"][key] or 1
    raw = {**SMALL, "stages": [{key: "x" if key == "init_from" else value}]}
    [found] = findings(raw)
    assert f"stages 1: {key} applies to the whole run" in found


@pytest.mark.parametrize("keep", ["official", "mean", "sum", "mood"])
def test_a_network_is_kept_by_an_overall_score_or_by_a_task(keep):
    assert check_settings(changed(f"train.keep={keep}"), place="my.toml").train.keep == keep


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("train.key=2", 2),
        ("train.key = 2 ", 2),
        ("train.key=1e-4", 1e-4),
        ("train.key=true", True),
        ("train.key='2'", "2"),
        ("train.key=S6 I6", "S6 I6"),
        ("train.key=(a+b)2", "(a+b)2"),
        ("train.key=random:tiny", "random:tiny"),
        ("train.key=a=b", "a=b"),
        ("train.key=", ""),
        ("train.key=[1, 2]", [1, 2]),
        ("train.key={a = 1}", {"a": 1}),
        ("train.key=[1", "[1"),
    ],
)
def test_a_change_is_toml_or_else_text(change, value):
    raw: dict[str, Any] = {}
    apply_changes(raw, [change])
    assert raw == {"train": {"key": value}}


def test_changes_make_tables_and_later_ones_win():
    raw: dict[str, Any] = {"train": {"epochs": 1, "lr": 0.1}}
    apply_changes(raw, ["train.epochs=2", "sharing.pal.size=12", "train.epochs=3"])
    assert raw == {"train": {"epochs": 3, "lr": 0.1}, "sharing": {"pal": {"size": 12}}}


@pytest.mark.parametrize("change", ["train.epochs", "=2", "train.=2", ".epochs=2", "train..x=2"])
def test_a_change_without_key_or_value_is_refused(change):
    with pytest.raises(UserError, match="write key=value, for example"):
        apply_changes({}, [change])


def test_a_change_inside_a_value_is_refused():
    with pytest.raises(UserError, match="'weights' is a value, not a table"):
        apply_changes({"encoder": {"weights": "minilm"}}, ["encoder.weights.name=x"])


def test_a_file_is_read_with_its_changes(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text('[tasks.mood]\nkind = "binary"\ntext = ["a"]\nlabel = "b"\n')
    settings = read_settings(config, ["train.epochs=7", "tasks.mood.weight=2.0"])
    assert settings.train.epochs == 7
    assert settings.tasks["mood"].weight == 2.0


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (["train.lr=abc"], "--set train.lr = 'abc': must be a number"),
        (["train.epohcs=2"], "--set train.epohcs is not a setting; did you mean 'epochs'?"),
        (["train={lr = 'abc'}"], "--set train.lr = 'abc': must be a number"),
        (["trian.lr=1", "trian.epochs=1"], "--set trian is not a setting; did you mean 'train'?"),
        (["tasks.b.kind=score", "tasks.b.text=['a']"], "--set tasks.b.label is missing: name the"),
        (["train.keep=mod"], "--set train.keep = 'mod': must be one of official, mean, sum, mood"),
        (["stages=[{lr = 'abc'}]"], "--set stages 1: lr = 'abc': must be a number"),
    ],
)
def test_what_is_wrong_with_a_change_is_not_blamed_on_the_file(tmp_path, changes, finding):
    config = tmp_path / "my.toml"
    config.write_text('[tasks.mood]\nkind = "binary"\ntext = ["a"]\nlabel = "b"\n')
    with pytest.raises(UserError) as refused:
        read_settings(config, changes)
    [line] = map(for_command_line, refused.value.lines)
    assert line.startswith(finding)


def test_what_is_wrong_with_the_file_is_not_blamed_on_a_change(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text('[tasks.mood]\nkind = "binary"\ntext = ["a"]\n[train]\nlr = "abc"\n')
    with pytest.raises(UserError) as refused:
        read_settings(config, ["train.epochs=0", "tasks.mood.weight=2"])
    lines = map(for_command_line, refused.value.lines)
    assert [line.split(" is ")[0].split(" = ")[0] for line in lines] == [
        f"{config}: tasks.mood.label",
        "--set train.epochs",
        f"{config}: train.lr",
    ]


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"[tasks", "not valid TOML"),
        (b"a = 1\na = 2", "not valid TOML"),
        (b"caf\xe9 = 1", "a config must be a TOML file in UTF-8"),
    ],
)
def test_a_file_that_is_not_toml_is_refused(tmp_path, content, finding):
    config = tmp_path / "my.toml"
    config.write_bytes(content)
    with pytest.raises(UserError, match=finding) as refused:
        read_settings(config)
    assert str(refused.value).startswith(f"{config}: ")


@pytest.mark.parametrize("path", ["nothing.toml", "."])
def test_what_is_not_a_file_is_refused(tmp_path, path):
    with pytest.raises(UserError, match=r"no such file|is a folder; give a TOML config"):
        read_settings(tmp_path / path)


def test_frozen_settings_cannot_be_changed_by_accident():
    settings = check_settings(SMALL, place="my.toml")
    with pytest.raises(ValueError, match="frozen"):
        settings.train.epochs = 9  # type: ignore[misc]


def test_every_default_is_a_value_that_a_config_may_write():
    settings = check_settings(SMALL, place="my.toml").model_dump()
    for part in ("encoder", "sharing", "train"):
        written = {key: value for key, value in settings[part].items() if value is not None}
        assert getattr(check_settings({**SMALL, part: written}, place="my.toml"), part)


def test_the_record_of_a_run_without_a_rate_for_heads_means_that_of_the_encoder():
    """As runs of earlier versions wrote it; a config cannot."""
    settings = check_settings({**SMALL, "train": {"head_lr": None}}, place="run.json")
    assert settings.train.head_lr == "lr"


def test_the_toy_config_is_read_by_the_same_rules(toy: Path):
    raw = tomllib.loads(toy.read_text())
    assert isinstance(check_settings(raw, place=str(toy)), Settings)
