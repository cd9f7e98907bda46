"""Configs, files and settings that cannot be trained on: each is named, and nothing is written."""

from pathlib import Path

import pytest
from calling import files

MAX_TOKENS = "encoder.max_tokens"
CONFIGS = [
    ("unknown key", ["train.epohcs=2"], "train.epohcs is not a setting; did you mean 'epochs'?"),
    ("wrong type", ["train.batch='8'"], "train.batch = '8': must be a whole number"),
    ("number as text", ["train.lr=fast"], "train.lr = 'fast': must be a number"),
    ("no batch", ["train.batch=0"], "train.batch = 0: must be 1 or more"),
    ("not a number", ["train.lr=nan"], "must be a finite number"),
    ("table as value", ["encoder=3"], "encoder = 3: must be a table"),
    ("unknown choice", ["train.gradients=pcgard"], "did you mean 'pcgrad'?"),
    ("bad name", ["tasks.a+b.kind=score"], "must start with a letter"),
    ("set without value", ["train.epochs"], "write key=value"),
    ("set inside a value", ["encoder.weights.x=1"], "'weights' is a value, not a table"),
    ("plan too long", ["sharing.encoder=S1 I4"], "covers 5 layers, but the encoder has 2"),
    ("plan empty", ["sharing.encoder="], "covers 0 layers"),
    ("plan of others", ["sharing.encoder=(mood+x)2"], "'x' is not a task"),
    ("pal not divisible", ["sharing.pal.size=10"], "not divisible"),
    ("no class", ["tasks.mood.classes=['a', 'a']"], "two or more different names"),
    ("range upside down", ["tasks.alike.range=[5, 0]"], "lowest and the highest"),
    ("range too long", ["tasks.alike.range=[0, 5, 6]"], "must have at most 2 entries; found 3"),
    (
        "a name that rows have",
        ["tasks.id={kind='binary', text=['sentence'], label='mood'}"],
        "a task cannot be called id, ",
    ),
    ("same column twice", ["tasks.same.text=['left', 'left']"], "must be different columns"),
    ("label as text", ["tasks.alike.label=left"], "must be different columns"),
    ("loss of another kind", ["tasks.mood.loss=mse"], "loss = 'mse': must be cross-entropy"),
    ("pair of one text", ["tasks.mood.pair=cosine"], "needs two texts"),
    ("reads itself", ["tasks.mood.reads=['mood']"], "cannot read itself"),
    ("too many tokens", ["encoder.max_tokens=5000"], "the encoder reads at most 512"),
    ("too many resets", ["encoder.reset_layers=3"], "but the encoder has 2 layers"),
    ("unknown shape", ["encoder.weights=random:tni"], "'tni' is not a shape"),
    ("no such folder", ["encoder.weights=./nowhere"], "is not a folder"),
    ("no such run", ["train.init_from=nowhere"], "is not a run"),
    ("no such device", ["train.device=cudda"], "must be auto, cpu, mps, cuda or cuda:<number>"),
    ("keep by nothing", ["train.keep=moood"], "must be one of official, mean, sum, mood, same"),
    ("unknown option", ["train.gradient_options.x=1"], "sum has no option 'x'"),
    ("unknown option of a stage", ["stages=[{regularize_options = {x = 1}}]"], "has no option 'x'"),
    (
        "unknown option of loss weighting",
        ["train.loss_weighting=dwa", "train.loss_weighting_options.x=1"],
        "has no option 'x'",
    ),
    ("senseless law", ["train.alpha=0.5"], 'train.alpha = 0.5: only used if sampling = "power"'),
    ("missing file", ["tasks.mood.train=mood-trian.csv"], "did you mean 'mood-train.csv'?"),
    ("folder as file", ["tasks.mood.train=."], "is a folder; name a file"),
    ("no sample", ["tasks.mood.train=sample:x.csv"], "the samples are paraphrase-dev.csv"),
    ("no column", ["tasks.mood.text=['sentense']"], "did you mean 'sentence'?"),
    ("label out of range", ["tasks.alike.range=[0, 4]"], "a score must lie in 0..4; found '5'"),
    ("no labels file", ["tasks.mood.train=empty.csv"], "empty.csv: the file is empty"),
    ("only a header", ["tasks.mood.train=header.csv"], "header.csv: the file has no rows"),
    ("not text", ["tasks.mood.train=binary.csv"], "is a binary file, not a table of text"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "finding"), [c[1:] for c in CONFIGS], ids=[c[0] for c in CONFIGS]
)
def test_train_refuses_bad_input_and_leaves_everything_as_it_was(cotrunk, toy, changes, finding):
    (toy.parent / "empty.csv").touch()
    (toy.parent / "header.csv").write_text("id,sentence,mood\n")
    (toy.parent / "binary.csv").write_bytes(bytes(range(256)))
    (toy.parent / "mine").mkdir()
    (toy.parent / "mine" / "notes.txt").write_text("not to be lost")
    before = files(toy.parent)
    for out in ("new/run", "mine"):
        said = cotrunk("train", toy, "--out", out, "--set", *changes)
        assert (said.code, said.out) == (2, "")
        assert all(line.startswith("error: ") for line in said.err.splitlines())
        assert finding in said.err
    assert files(toy.parent) == before


def keys_of(said):
    """The settings that an answer is about."""
    lines = [line.removeprefix("error: ").removeprefix("--set ") for line in said.err.splitlines()]
    return [line.split(" ")[0].rstrip(":") for line in lines]


SEVERAL = [
    (
        ["tasks.mood.class_weights=balanced", "tasks.mood.train=gone", "sharing.pal.size=5"],
        {"plan": ["tasks.mood.train", "sharing.pal.size"], "data check": ["tasks.mood.train"]},
    ),
    (
        ["train.keep=nope", "tasks.mood.loss=mse", "sharing.encoder=S1 I4", "train.alpha=0.5"],
        {"plan": ["train.keep", "tasks.mood.loss", "sharing.encoder"]},
    ),
    (
        ["tasks.mood.loss=mse", "sharing.lora.layers=[9]", "encoder.reset_layers=9"],
        {"plan": ["tasks.mood.loss", "sharing.lora.layers", "encoder.reset_layers"]},
    ),
    (
        ["train.keep=nope", "tasks.same.train=gone.csv", "encoder.max_tokens=5000"],
        {"plan": ["train.keep"], "data check": ["train.keep", "tasks.same.train", MAX_TOKENS]},
    ),
    (
        ["tasks.mood.encoding=latin-99", "tasks.id.kind=mlm", "encoder.max_tokens=5000"],
        {"data check": ["tasks.mood.encoding", "tasks.id", MAX_TOKENS]},
    ),
]


@pytest.mark.parametrize(("changes", "told"), SEVERAL, ids=[case[0][0] for case in SEVERAL])
def test_plan_and_data_check_say_at_once_all_that_they_can_know(cotrunk, toy, changes, told):
    for command, keys in told.items():
        said = cotrunk(*command.split(), toy, "--set", *changes)
        assert (said.code, said.out) == (2, "")
        assert keys_of(said) == keys, command


def test_a_plan_needs_no_data_files(cotrunk, toy):
    for file in toy.parent.glob("*.csv"):
        file.unlink()
    assert cotrunk("plan", toy).code == 0


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "my.toml: no task is defined"),
        (b"[tasks]", "my.toml: no task is defined"),
        (b"tasks = 3", "tasks = 3: must be a table"),
        (b"[train", "not valid TOML"),
        (b"# caf\xe9", "a config must be a TOML file in UTF-8"),
        (b"\xff\xfe\0", "a config must be a TOML file in UTF-8"),
        (None, "no such file; `cotrunk init -o my.toml` creates one"),
    ],
)
@pytest.mark.parametrize("command", ["train", "plan", "data check"])
def test_a_file_that_is_no_config_is_refused(cotrunk, command, content, finding):
    if content is not None:
        Path("my.toml").write_bytes(content)
    said = cotrunk(*command.split(), "my.toml")
    assert (said.code, said.out) == (2, "")
    assert finding in said.err


def test_a_missing_config_is_not_said_to_be_one_with_an_unlike_name(cotrunk):
    for name in ("ner.toml", "several.toml"):
        Path(name).write_text("")
    assert "did you mean" not in cotrunk("train", "nope.toml").err
    assert "did you mean 'several.toml'" in cotrunk("train", "severl.toml").err


def test_an_unknown_key_to_unset_is_answered_with_what_the_config_sets(cotrunk, toy):
    assert "tasks.mood" in cotrunk("plan", toy, "--unset", "tasks.nope").err
    assert "did you mean 'tasks.mood'" in cotrunk("plan", toy, "--unset", "tasks.moood").err


def test_what_the_toml_parser_says_continues_the_sentence(cotrunk):
    Path("my.toml").write_text("a = 1 2")
    assert "not valid TOML; expected" in cotrunk("train", "my.toml").err


def test_a_data_file_in_place_of_a_config_is_refused_with_the_way_to_make_one(cotrunk):
    Path("a.csv").write_text("text,label\nA film,1\n")
    said = cotrunk("train", "a.csv")
    assert (said.code, said.out) == (2, "")
    assert "cotrunk init a.csv -o run.toml" in said.err
