"""Every command, as a user calls it: what it prints, what it writes, what it refuses."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from cotrunk.cli import main
from cotrunk.runs.folder import RunFolder
from cotrunk.settings import read_settings
from toy import write_rows

COMMANDS = ["demo", "init", "data check", "plan", "train", "evaluate", "predict", "info"]
TASKS = ["mood", "same", "alike"]


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


Cotrunk = Callable[..., Said]


@pytest.fixture
def cotrunk(capsys, monkeypatch, tmp_path) -> Cotrunk:
    """The command, called in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        code = main([str(argument) for argument in arguments])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def run(toy, cotrunk) -> Path:
    """A run of three steps."""
    assert cotrunk("train", toy, "--out", "run", "--set", "train.max_steps=3").code == 0
    return toy.parent / "run"


def files(folder: Path) -> dict[str, bytes]:
    """Everything that lies there, but for the cache."""
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*"))}
    return {
        name: path.read_bytes() if path.is_file() else b"folder"
        for name, path in found.items()
        if not name.startswith("cache")
    }


def in_new_process(*arguments: object, text: str = "") -> Said:
    command = [sys.executable, "-m", "cotrunk.cli", *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_a_command_is_for(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_help_needs_none_of_the_heavy_packages():
    heavy = {"torch", "numpy", "pydantic", "rich", "tokenizers", "scipy"}
    script = (
        "import sys, cotrunk.cli\n"
        "try: cotrunk.cli.main(['train', '--help'])\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "cotrunk.cli", "init", "--list"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    worker.stdout.close()
    worker.stdout = None
    _, said = worker.communicate(timeout=60)
    assert (worker.returncode, said) == (0, "")


@pytest.mark.parametrize("arguments", [[], ["tran"], ["train"], ["data"], ["plan", "--pal", "x"]])
def test_a_command_line_that_cannot_be_read_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "total"),
    [
        (["--encoder", "S12"], 109_482_240),
        (["--encoder", "I12"], 328_446_720),
        (["--encoder", "S6 I6"], 195_717_888),
        (["--encoder", "S9 I3"], 153_190_656),
        (["--encoder", "S12", "--pooler", "I"], 110_663_424),
        (["--encoder", "I12", "--embeddings", "S"], 280_772_352),
    ],
)
def test_plan_counts_every_parameter_of_bert_base(cotrunk, options, total):
    asked = ["plan", "--shape", "bert-base", "--tasks", "sst,para,sts", *options]
    document = cotrunk(*asked, "--json").document
    assert list(document) == ["parameters", "bytes", "owners"]
    counts = document["parameters"]
    assert list(counts) == ["embeddings", "layers", "pooler", "neck", "pal", "heads", "total"]
    assert counts["total"] == total == sum(n for part, n in counts.items() if part != "total")
    assert counts["heads"] == 0
    assert document["bytes"] == {"weights": 4 * total, "checkpoint": 12 * total}
    assert f"{total:,}" in cotrunk(*asked).out


def test_plan_draws_tasks_that_share_a_copy_in_one_box(cotrunk):
    drawn = cotrunk("plan", "--tasks", "a,b,c", "--encoder", "S6 (a+b)6", "--pooler", "I").out
    boxes = [line.split("[", 1)[1].replace(" ", "") for line in drawn.splitlines()[:5]]
    assert boxes == ["a][b][c]", "a][b][c]", "a+b][c]", "a+b+c]", "a+b+c]"]


def test_plan_marks_a_group_that_stands_apart_by_letter(cotrunk):
    drawn = cotrunk("plan", "--tasks", "a,b,c", "--encoder", "(a+c)12").out
    assert drawn.splitlines()[1].split("[", 1)[1].replace(" ", "") == "aa][b][ca]"


def test_plan_counts_heads_when_asked(cotrunk):
    document = cotrunk("plan", "--heads", "5,1,1", "--json").document
    assert document["parameters"]["heads"] == 769 * 7


def test_plan_of_a_config_is_what_training_builds(cotrunk, toy):
    planned = cotrunk("plan", toy, "--json").document["parameters"]["total"]
    built = cotrunk("train", toy, "--dry-run", "--json").document["parameters"]
    assert planned == built


PLANS = [
    ("does not cover the layers", ["--encoder", "S6"], "covers 6 layers, but the encoder has 12"),
    ("is empty", ["--encoder", ""], "covers 0 layers"),
    ("names no task", ["--encoder", "(sst+foo)12"], "'foo' is no task"),
    ("has an empty group", ["--encoder", "(|sst)12"], "empty group"),
    ("has a bad count", ["--encoder", "S0 I12"], "a count lies in 1..1000"),
    ("is no plan", ["--encoder", "twelve"], "cannot read 'twelve'"),
    ("has two poolers", ["--pooler", "S2"], "exactly one token"),
    ("has no shape", ["--shape", "bert-bse"], "no shape is called 'bert-bse'"),
    ("has no tasks", ["--tasks", ""], "'' is no name"),
    ("has a task twice", ["--tasks", "a,a"], "twice"),
    ("has a bad name", ["--tasks", "a+b,c"], "'a+b' is no name"),
    ("does not divide", ["--pal", "100"], "the nearest sizes that are: 96 or 108"),
    ("has no size", ["--pal", "0"], "must be 1 or more"),
    ("has no pal heads", ["--pal", "204", "--pal-heads", "0"], "must be 1 or more"),
    ("lacks a head", ["--heads", "5,1"], "one number of outputs per task"),
]


@pytest.mark.parametrize(("options", "finding"), [p[1:] for p in PLANS], ids=[p[0] for p in PLANS])
def test_plan_refuses_one_that(cotrunk, options, finding):
    said = cotrunk("plan", *options, "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert finding in said.err
    assert said.err.count("\n") == 1


def test_plan_and_data_check_change_settings_as_training_does(cotrunk, toy):
    changed = ["--set", "sharing.encoder=I2", "tasks.mood.dev=mood-train.csv"]
    planned = cotrunk("plan", toy, *changed, "--json").document["parameters"]["total"]
    assert planned == cotrunk("train", toy, *changed, "--dry-run", "--json").document["parameters"]
    assert planned > cotrunk("plan", toy, "--json").document["parameters"]["total"]
    mood = cotrunk("data", "check", toy, *changed, "--json").document["tasks"]["mood"]
    assert mood["dev"]["rows_in_train"] == mood["dev"]["rows"]


def test_plan_refuses_changes_of_no_config(cotrunk):
    said = cotrunk("plan", "--set", "sharing.encoder=I2")
    assert said.code == 2
    assert "--set changes a config, and none is given" in said.err


def test_plan_takes_a_config_or_options_but_not_both(cotrunk, toy):
    said = cotrunk("plan", toy, "--encoder", "S2")
    assert said.code == 2
    assert "--encoder: " in said.err


def test_init_lists_the_presets(cotrunk):
    presets = cotrunk("init", "--list", "--json").document["presets"]
    assert {"1-bert", "3-bert", "hybrid-bert"} <= set(presets)
    shown = cotrunk("init", "--list").out
    assert all(name in shown for name in presets)


@pytest.mark.parametrize("preset", ["1-bert", "3-bert", "hybrid-bert"])
def test_init_writes_a_config_that_can_be_read(cotrunk, preset):
    said = cotrunk("init", "--preset", preset, "-o", "my.toml", "--json")
    assert said.document == {"config": "my.toml", "preset": preset}
    assert list(read_settings(Path("my.toml")).tasks) == ["sst", "para", "sts"]
    assert "#" in Path("my.toml").read_text()


def test_init_writes_run_toml_and_never_over_it(cotrunk):
    assert cotrunk("init").code == 0
    Path("run.toml").write_text("mine")
    said = cotrunk("init")
    assert said.code == 2
    assert "already there" in said.err
    assert Path("run.toml").read_text() == "mine"


COURSE = {
    "sst": ("ids-sst-train.csv", "ids-sst-dev.csv"),
    "para": ("quora-train.csv", "quora-dev.csv"),
    "sts": ("sts-train.csv", "sts-dev.csv"),
}


@pytest.mark.parametrize(
    ("data", "output", "written"),
    [("/course", "run.toml", "/course"), ("course", "run.toml", "course")],
)
def test_init_names_the_files_of_the_course(cotrunk, data, output, written):
    assert cotrunk("init", "--data", data, "-o", output).code == 0
    tasks = read_settings(Path(output)).tasks
    found = {name: (part.train, part.dev) for name, part in tasks.items()}
    assert found == {t: tuple(f"{written}/{file}" for file in two) for t, two in COURSE.items()}


def test_init_writes_paths_as_seen_from_the_config(cotrunk):
    Path("course").mkdir()
    Path("configs").mkdir()
    assert cotrunk("init", "--data", "course", "-o", "configs/a.toml").code == 0
    assert read_settings(Path("configs/a.toml")).tasks["sts"].dev == "../course/sts-dev.csv"


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--preset", "3-brt"], "did you mean '3-bert'?"),
        (["-o", "nowhere/run.toml"], "there is no folder nowhere"),
        (["-o", "."], "already there"),
    ],
)
def test_init_refuses_and_writes_nothing(cotrunk, tmp_path, options, finding):
    said = cotrunk("init", *options)
    assert said.code == 2
    assert finding in said.err
    assert not files(tmp_path)


def test_data_check_counts_what_the_files_hold(cotrunk, toy):
    document = cotrunk("data", "check", toy, "--json").document
    assert list(document["tasks"]) == TASKS
    dev = document["tasks"]["mood"]["dev"]
    assert dev["rows"] == 24
    assert dev["labels"] == {"0": 8, "1": 8, "2": 8}
    assert set(dev["lengths"]) == {"p50", "p90", "p99", "max"}
    assert dev["rows_in_train"] == 0
    shown = cotrunk("data", "check", toy).out
    assert [t for t in TASKS if f"{t}, train" in shown and f"{t}, dev" in shown] == TASKS


def test_data_check_lists_the_bad_cells_of_all_files(cotrunk, toy):
    write_rows(toy.parent / "mood-train.csv", ["id", "sentence", "mood"], [[1, "good", 3]])
    write_rows(toy.parent / "mood-dev.csv", ["id", "sentence", "mood"], [[1, "", 0], [2, "a", "x"]])
    said = cotrunk("data", "check", toy, "--json")
    assert (said.code, said.out) == (2, "")
    assert "mood-train.csv:2:3 (mood): a class must be one of 0..2; found '3'" in said.err
    assert "mood-dev.csv:2:2 (sentence): the text is empty" in said.err
    assert "mood-dev.csv:3:3 (mood)" in said.err


def test_train_makes_a_run_that_can_be_used(cotrunk, toy):
    said = cotrunk("train", toy, "--out", "run", "--json")
    document = said.document
    assert document["run"] == "run"
    assert document["steps"] == 10
    assert list(document["scores"]) == TASKS
    assert "step 10/10" in said.err
    for place in ("best", "final"):
        names = {path.name for path in Path("run", place).iterdir()}
        assert {"model.safetensors", "manifest.json", "settings.json"} <= names
        assert {Path(name).suffix for name in names} == {".safetensors", ".json"}


def test_train_shows_the_tasks_in_the_order_of_the_config(cotrunk, toy):
    shown = cotrunk("train", toy, "--out", "run").out
    rows = [line.split()[0] for line in shown.splitlines()]
    assert [row for row in rows if row in TASKS] == TASKS


def test_train_writes_to_runs_and_the_name_of_the_config_by_default(cotrunk, toy):
    assert cotrunk("train", toy, "--set", "train.max_steps=1").code == 0
    assert Path("runs/toy/run.json").is_file()


def test_a_dry_run_says_what_would_be_trained_and_writes_nothing(cotrunk, toy):
    before = files(toy.parent)
    document = cotrunk("train", toy, "--dry-run", "--json").document
    assert set(document) == {"parameters", "steps", "sampling"}
    assert document["steps"] == 10
    assert [epoch["epoch"] for epoch in document["sampling"]] == [0, 1]
    for epoch in document["sampling"]:
        assert set(epoch) == {"epoch", "probabilities", "batches"}
        assert sum(epoch["probabilities"].values()) == pytest.approx(1)
        assert epoch["batches"] == dict.fromkeys(TASKS, 5)
    assert "10 steps" in cotrunk("train", toy, "--dry-run").out
    assert files(toy.parent) == before


@pytest.mark.parametrize(
    ("changes", "steps", "evaluated"),
    [
        (["train.evaluate=epoch"], 10, [5, 10]),
        (["train.evaluate=never"], 10, []),
        (["train.evaluate=4"], 10, [4, 8, 10]),
        (["train.max_steps=3"], 3, [3]),
        (["train.max_steps=7", "train.evaluate=epoch"], 7, [5, 7]),
    ],
)
def test_train_evaluates_when_it_is_told_to(cotrunk, toy, changes, steps, evaluated):
    document = cotrunk("train", toy, "--out", "run", "--json", "--set", *changes).document
    events = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert document["steps"] == steps == sum(e["event"] == "step" for e in events)
    assert [e["step"] for e in events if e["event"] == "dev"] == evaluated
    assert Path("run/best/model.safetensors").is_file()


def test_train_refuses_a_folder_with_a_run_and_leaves_it_as_it_is(cotrunk, toy, run):
    before = files(run)
    said = cotrunk("train", toy, "--out", run)
    assert said.code == 2
    assert "already holds a run" in said.err
    assert files(run) == before


def test_train_names_the_process_that_holds_a_run(cotrunk, toy, run):
    before = files(run)
    for more in ([], ["--resume"]):
        with RunFolder(run).lock():
            said = cotrunk("train", toy, "--out", run, *more)
        assert said.code == 2
        assert f"process {os.getpid()} on" in said.err
    del before[".lock"]
    assert before.items() <= files(run).items()


def test_resume_without_a_run_begins_one(cotrunk, toy):
    arguments = ["train", toy, "--out", "run", "--resume", "--set", "train.max_steps=1"]
    assert cotrunk(*arguments).code == 0
    assert "going on after step 1" in cotrunk(*arguments).err


def test_train_reads_one_file_with_several_labels_where_some_are_missing(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    rows = [[i, "good plot", f"tea {i}", i % 2 if i % 3 else "", i % 6] for i in range(30)]
    write_rows(toy.parent / "pair-train.csv", header, rows)
    said = cotrunk("train", toy, "--out", "run", "--json", "--set", "train.max_steps=1")
    assert said.document["steps"] == 1
    assert "same train: 10 rows have no label for it" in said.err


CONFIGS = [
    ("unknown key", ["train.epohcs=2"], "train.epohcs is not a setting; did you mean 'epochs'?"),
    ("wrong type", ["train.batch='8'"], "train.batch = '8': must be a whole number"),
    ("number as text", ["train.lr=fast"], "train.lr = 'fast': must be a number"),
    ("no batch", ["train.batch=0"], "train.batch = 0: must be 1 or more"),
    ("not a number", ["train.lr=nan"], "must be a finite number"),
    ("table as value", ["encoder=3"], "encoder = 3: must be a table"),
    ("unknown choice", ["train.gradients=pcgard"], "did you mean 'pcgrad'?"),
    ("bad name", ["tasks.a+b.kind=score"], "must begin with a letter"),
    ("set without value", ["train.epochs"], "write key=value"),
    ("set inside a value", ["encoder.weights.x=1"], "'weights' is a value, not a table"),
    ("plan too long", ["sharing.encoder=S1 I4"], "covers 5 layers, but the encoder has 2"),
    ("plan empty", ["sharing.encoder="], "covers 0 layers"),
    ("plan of others", ["sharing.encoder=(mood+x)2"], "'x' is no task"),
    ("pal not divisible", ["sharing.pal.size=10"], "not divisible"),
    ("no class", ["tasks.mood.classes=['a', 'a']"], "two or more different names"),
    ("range upside down", ["tasks.alike.range=[5, 0]"], "lowest and the highest"),
    ("range too long", ["tasks.alike.range=[0, 5, 6]"], "must have at most 2 entries; found 3"),
    ("same column twice", ["tasks.same.text=['left', 'left']"], "must be different columns"),
    ("label as text", ["tasks.alike.label=left"], "must be different columns"),
    ("loss of another kind", ["tasks.mood.loss=mse"], "does not fit kind classes"),
    ("pair of one text", ["tasks.mood.pair=cosine"], "needs two texts"),
    ("reads itself", ["tasks.mood.reads=['mood']"], "cannot read itself"),
    ("too many tokens", ["encoder.max_tokens=5000"], "the encoder reads at most 512"),
    ("too many resets", ["encoder.reset_layers=3"], "but the encoder has 2 layers"),
    ("unknown shape", ["encoder.weights=random:tni"], "no shape is called 'tni'"),
    ("no such folder", ["encoder.weights=./nowhere"], "is not a folder"),
    ("no such run", ["train.init_from=nowhere"], "is not a run"),
    ("no such device", ["train.device=cudda"], "must be auto, cpu, mps, cuda or cuda:<number>"),
    ("keep by nothing", ["train.keep=moood"], "must be one of official, mean, sum, mood, same"),
    ("unknown option", ["train.gradient_options.x=1"], "sum does not know 'x'"),
    ("unknown option of a stage", ["stages=[{smooth_options = {x = 1}}]"], "does not know 'x'"),
    (
        "unknown option of balance",
        ["train.balance=dwa", "train.balance_options.x=1"],
        "does not know 'x'",
    ),
    ("senseless law", ["train.alpha=0.5"], "alpha is read by power only"),
    ("missing file", ["tasks.mood.train=mood-trian.csv"], "did you mean 'mood-train.csv'?"),
    ("folder as file", ["tasks.mood.train=."], "is a folder; name a file"),
    ("no sample", ["tasks.mood.train=sample:x.csv"], "the samples are paraphrase-dev.csv"),
    ("no column", ["tasks.mood.text=['sentense']"], "did you mean 'sentence'?"),
    ("label out of range", ["tasks.alike.range=[0, 4]"], "a score must lie in 0..4; found '5'"),
    ("no labels file", ["tasks.mood.train=empty.csv"], "empty.csv: the file is empty"),
    ("only a header", ["tasks.mood.train=header.csv"], "header.csv: the file holds no rows"),
    ("not text", ["tasks.mood.train=binary.csv"], "is a binary file, not a table of text"),
]


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


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "tasks is missing: name at least one task"),
        (b"[tasks]", "tasks = a table: must have 1 or more entries"),
        (b"tasks = 3", "tasks = 3: must be a table"),
        (b"[train", "not valid TOML"),
        (b"# caf\xe9", "a config is a TOML file in UTF-8"),
        (b"\xff\xfe\0", "a config is a TOML file in UTF-8"),
        (None, "there is no such file; `cotrunk init -o my.toml` writes one"),
    ],
)
@pytest.mark.parametrize("command", ["train", "plan", "data check"])
def test_a_file_that_is_no_config_is_refused(cotrunk, command, content, finding):
    if content is not None:
        Path("my.toml").write_bytes(content)
    said = cotrunk(*command.split(), "my.toml")
    assert (said.code, said.out) == (2, "")
    assert finding in said.err


def test_a_device_that_is_not_here_is_refused(cotrunk, toy):
    if torch.cuda.is_available():
        pytest.skip("it is here")
    said = cotrunk("train", toy, "--out", "run", "--set", "train.device=cuda")
    assert said.code == 2
    assert "train.device = 'cuda' is not at hand here" in said.err
    assert not Path("run").exists()


@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_run_folder_that_cannot_be_made_is_refused(cotrunk, toy, out):
    Path("file").write_text("mine")
    said = cotrunk("train", toy, "--out", out)
    assert said.code == 2
    assert "cannot be made a run folder" in said.err
    assert Path("file").read_text() == "mine"


def test_evaluate_gives_the_settled_document(cotrunk, run):
    document = cotrunk("evaluate", run, "--json").document
    assert list(document) == ["tasks", "overall"]
    assert list(document["tasks"]) == TASKS
    for score in document["tasks"].values():
        assert list(score) == ["metric", "score", "low", "high", "rows"]
        assert score["low"] <= score["score"] <= score["high"]
        assert score["rows"] == 24
    scores = [document["tasks"][task]["score"] for task in TASKS]
    assert document["overall"] == {
        "official": pytest.approx((scores[0] + scores[1] + (scores[2] + 1) / 2) / 3),
        "mean": pytest.approx(sum(scores) / 3),
    }


def test_evaluate_repeats_what_training_measured(cotrunk, run):
    kept = cotrunk("info", run, "--json").document["scores"]
    again = cotrunk("evaluate", run, "--json").document["tasks"]
    for task in TASKS:
        assert again[task]["score"] == pytest.approx(kept[task]["score"], abs=1e-6)


def test_evaluate_one_task_on_one_split(cotrunk, run):
    document = cotrunk("evaluate", run, "--task", "same", "--split", "train", "--json").document
    assert {task: score["rows"] for task, score in document["tasks"].items()} == {"same": 40}
    shown = cotrunk("evaluate", run, "--task", "same", "--which", "final").out
    assert "same" in shown
    assert "overall, official" in shown


def test_predict_can_leave_bad_rows_without_an_answer(cotrunk, run):
    file = run.parent / "asked.csv"
    rows = [[1, "good plot", "dull"], [2, "", "x"], [3, "bad", "tea"]]
    write_rows(file, ["id", "sentence", "left"], rows)
    refused = cotrunk("predict", run, file, "--task", "mood")
    assert refused.code == 2
    assert f"{file}:3:2 (sentence): the text is empty" in refused.err
    assert "give --skip-bad-rows" in refused.err
    said = cotrunk("predict", run, file, "--task", "mood", "--skip-bad-rows", "--json")
    assert [row["id"] for row in said.document["rows"]] == ["1", "3"]
    assert "note: mood: 1 bad rows have no answer, the first:" in said.err


def test_predict_says_which_tasks_the_file_has_no_columns_for(cotrunk, run):
    said = cotrunk("predict", run, run.parent / "mood-dev.csv", "--json")
    assert "note: same is left out, for " in said.err
    assert "has no column left, right" in said.err
    assert set(said.document["rows"][0]) >= {"id", "mood"}


INT8 = "fbgemm" in torch.backends.quantized.supported_engines
needs_x86 = pytest.mark.skipif(not INT8, reason="this torch has no fbgemm")


@needs_x86
def test_evaluate_int8_says_what_is_lost_and_what_is_gained(cotrunk, run):
    document = cotrunk("evaluate", run, "--int8", "--json").document
    assert list(document) == ["tasks", "overall", "int8"]
    plain = cotrunk("evaluate", run, "--json").document
    assert {key: document[key] for key in plain} == plain
    int8 = document["int8"]
    assert list(int8) == ["tasks", "overall", "cpu_seconds", "times_less"]
    for task, rough in int8["tasks"].items():
        exact = document["tasks"][task]
        assert list(rough) == [*exact, "difference", "changed"]
        assert rough["difference"] == pytest.approx(rough["score"] - exact["score"])
        assert 0 <= rough["changed"] <= (5 if task == "alike" else 1)
    assert int8["tasks"]["alike"]["changed"] > 0
    spent = int8["cpu_seconds"]
    assert int8["times_less"] == pytest.approx(spent["float32"] / spent["int8"])
    shown = cotrunk("evaluate", run, "--int8").out
    assert [line.split()[0] for line in shown.splitlines()[2:5]] == TASKS
    assert "CPU seconds instead of" in shown


@needs_x86
def test_predict_int8_answers_nearly_as_float32(cotrunk, run):
    asked = ["predict", run, run.parent / "pair-dev.csv", "--json"]
    exact, rough = cotrunk(*asked).document["rows"], cotrunk(*asked, "--int8").document["rows"]
    assert [row["id"] for row in rough] == [row["id"] for row in exact]
    assert rough != exact
    alike = [row["alike"] for row in exact]
    assert [row["alike"] for row in rough] == pytest.approx(alike, abs=0.1)


def test_int8_is_refused_where_it_cannot_run_before_anything_is_computed(cotrunk, run, monkeypatch):
    monkeypatch.setattr("cotrunk.model.int8.ENGINE", "abacus")
    monkeypatch.setattr("cotrunk.commands.using.outputs_on", None)
    for command in (["evaluate", run], ["predict", run, run.parent / "mood-dev.csv"]):
        said = cotrunk(*command, "--int8")
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("error: int8 needs torch's abacus")
        assert len(said.err.splitlines()) == 1


def test_a_correlation_that_does_not_exist_is_null_and_a_dash(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    write_rows(toy.parent / "pair-dev.csv", header, [[i, "a", f"b {i}", 1, 2] for i in range(5)])
    settings = ["--set", "train.max_steps=1", "tasks.same.sparse_labels=false"]
    said = cotrunk("train", toy, "--out", "run", "--json", *settings)
    assert said.document["scores"]["alike"]["score"] is None
    assert cotrunk("evaluate", "run", "--json").document["tasks"]["alike"]["score"] is None
    for command in ("info", "evaluate"):
        assert "alike" in cotrunk(command, "run").out


@needs_x86
def test_int8_has_no_difference_of_a_correlation_that_does_not_exist(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    write_rows(toy.parent / "pair-dev.csv", header, [[i, "a", f"b {i}", 1, 2] for i in range(5)])
    settings = ["--set", "train.max_steps=1", "tasks.same.sparse_labels=false"]
    assert cotrunk("train", toy, "--out", "run", *settings).code == 0
    int8 = cotrunk("evaluate", "run", "--int8", "--json").document["int8"]
    assert int8["tasks"]["alike"]["difference"] is None
    assert "- [-, -]" in cotrunk("evaluate", "run", "--int8").out


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--task", "moood"], "--task moood: the run's tasks are mood, same, alike"),
        (["--split", "test"], "tasks.mood.test: the run names no such file"),
    ],
)
def test_evaluate_refuses(cotrunk, run, options, finding):
    said = cotrunk("evaluate", run, *options, "--json")
    assert (said.code, said.out) == (2, "")
    assert finding in said.err


@pytest.mark.parametrize("command", ["info", "evaluate", "predict"])
@pytest.mark.parametrize("folder", [".", "nowhere", "toy.toml"])
def test_what_is_not_a_run_is_refused(cotrunk, toy, command, folder):
    more = [toy.parent / "mood-dev.csv"] if command == "predict" else []
    said = cotrunk(command, folder, *more)
    assert (said.code, said.out) == (2, "")
    assert f"{folder} is not a run" in said.err


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_run_that_has_no_network_yet_is_refused(cotrunk, run, command):
    (run / "best").rename(run / "gone")
    more = [run.parent / "mood-dev.csv"] if command == "predict" else []
    said = cotrunk(command, run, *more)
    assert said.code == 2
    assert "has no best/: its training has not got that far" in said.err


def test_damaged_weights_are_refused(cotrunk, run):
    weights = run / "best" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    said = cotrunk("evaluate", run)
    assert said.code == 2
    assert "damaged: model.safetensors" in said.err
    assert "try --which final" in said.err
    assert cotrunk("evaluate", run, "--which", "final").code == 0


def test_info_says_what_a_run_is_and_how_it_went(cotrunk, run):
    document = cotrunk("info", run, "--json").document
    assert document["tasks"] == {"mood": "classes", "same": "binary", "alike": "score"}
    assert list(document["tasks"]) == list(document["scores"]) == TASKS
    assert document["sharing"] == {"encoder": "S1 I1"}
    assert (document["steps"], document["finished"], document["best_step"]) == (3, True, 3)
    assert document["checkpoints"] == ["step-00000003"]
    assert "encoder S1 I1" in cotrunk("info", run).out


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}', '{"settings": {}}'])
def test_info_refuses_a_run_json_of_something_else(cotrunk, run, content):
    (run / "run.json").write_text(content)
    said = cotrunk("info", run)
    assert said.code == 2
    assert f"{run}/run.json" in said.err


def test_a_new_process_predicts_the_same_from_a_file_and_from_standard_input(cotrunk, run):
    rows = run.parent / "pair-dev.csv"
    here = cotrunk("predict", run, rows).out
    assert in_new_process("predict", run, rows).out == here
    assert in_new_process("predict", run, "-", text=rows.read_text()).out == here


def test_predict_answers_for_every_task_whose_columns_are_there(cotrunk, run):
    document = cotrunk("predict", run, run.parent / "pair-dev.csv", "--json").document
    assert len(document["rows"]) == 24
    assert list(document["rows"][0]) == ["id", "same", "same_probability", "alike"]
    one = cotrunk("predict", run, run.parent / "mood-dev.csv", "--task", "mood").out.splitlines()
    assert one[0] == "id,mood,mood_probability"
    assert [line.split(",")[0] for line in one[1:]] == [f"dev{i}" for i in range(24)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_predict_writes_the_format_that_the_name_asks_for(cotrunk, run, ending):
    said = cotrunk("predict", run, run.parent / "mood-dev.csv", "-o", f"out.{ending}", "--json")
    assert said.document == {"files": {"mood": f"out.{ending}"}}
    lines = Path(f"out.{ending}").read_text().splitlines()
    first = {
        "csv": "id,mood,mood_probability",
        "tsv": "id\tmood\tmood_probability",
        "jsonl": '{"id": "dev0", "mood": {"prediction": ',
    }[ending]
    assert lines[0].startswith(first)
    assert len(lines) == 24 + (ending != "jsonl")
    assert {path.name for path in Path().glob("out*")} == {f"out.{ending}"}


def test_predict_writes_a_course_file_for_each_task(cotrunk, run):
    asked = ["predict", run, run.parent / "pair-dev.csv", "--format", "minbert"]
    document = cotrunk(*asked, "-o", "course", "--json").document
    assert document["files"] == {t: f"course/{t}-output.csv" for t in ("same", "alike")}
    assert cotrunk(*asked, "--task", "same", "-o", "one.csv").code == 0
    assert Path("one.csv").read_bytes() == Path("course/same-output.csv").read_bytes()


PREDICTIONS = [
    ("no such file", "nothing.csv", [], "nothing.csv: no such file"),
    ("a folder", "run", [], "the ending must be one of"),
    ("an unknown format", "toy.toml", [], "the ending must be one of"),
    ("an empty file", "empty.csv", [], "empty.csv: the file is empty"),
    ("a file that is not text", "binary.csv", [], "is a binary file"),
    ("a file without the columns", "other.csv", [], "it has the columns a, b, but mood reads"),
    ("a file without one task's", "mood-dev.csv", ["--task", "same"], "no column 'left'"),
    ("an unknown task", "mood-dev.csv", ["--task", "x"], "--task x: the run's tasks are"),
    ("an empty text", "hole.csv", ["-o", "out.csv"], "hole.csv:3:1 (sentence): the text is empty"),
    ("a missing folder", "mood-dev.csv", ["-o", "no/out.csv"], "there is no folder no"),
    ("a folder to write", "mood-dev.csv", ["-o", "run"], "that is a folder"),
    ("its own input", "mood-dev.csv", ["-o", "mood-dev.csv"], "that is the file to read"),
    ("an ending it cannot write", "mood-dev.csv", ["-o", "x.xls"], "one of .csv, .tsv, .jsonl"),
    (
        "a file for a folder",
        "pair-dev.csv",
        ["-o", "toy.toml", "--format", "minbert"],
        "minbert writes one for each task",
    ),
]


@pytest.mark.parametrize(
    ("file", "options", "finding"), [p[1:] for p in PREDICTIONS], ids=[p[0] for p in PREDICTIONS]
)
def test_predict_refuses_and_writes_nothing(cotrunk, run, file, options, finding):
    Path("empty.csv").touch()
    Path("binary.csv").write_bytes(bytes(range(256)))
    Path("other.csv").write_text("a,b\n1,2\n")
    Path("hole.csv").write_text("sentence\ngood\n \n".replace(" \n", '" "\n'))
    before = files(run.parent)
    said = cotrunk("predict", run, file, *options)
    assert (said.code, said.out) == (2, "")
    assert finding in said.err
    assert files(run.parent) == before


def test_errors_about_standard_input_call_it_that(run):
    said = in_new_process("predict", run, "-", text="a,b\n1,2\n")
    assert said.code == 2
    assert said.err.startswith("error: standard input: it has the columns a, b")


def test_demo_trains_three_plans_and_prints_one_table(cotrunk):
    small = ["encoder.weights=random:tiny", "sharing.encoder=S2", "train.max_steps=1"]
    said = cotrunk("demo", "--out", "demo", "--set", *small)
    assert said.code == 0
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert {"1-bert", "3-bert", "hybrid-bert", "always"} <= set(rows)
    assert rows["plan"].split()[:5] == ["plan", "layers", "sst", "para", "sts"]
    assert all(Path("demo", name, "run.json").is_file() for name in list(rows)[1:4])
    again = cotrunk("demo", "--out", "demo", "--set", *small)
    assert again.code == 2
    assert "is there already" in again.err


def test_demo_gives_a_document(cotrunk):
    small = ["encoder.weights=random:tiny", "sharing.encoder=S2", "train.max_steps=1"]
    said = cotrunk("demo", "--out", "demo", "--json", "--set", *small, "train.evaluate=never")
    runs = said.document["runs"]
    assert [run["plan"] for run in runs] == ["1-bert", "3-bert", "hybrid-bert"]
    assert all(run["parameters"] == runs[0]["parameters"] for run in runs)
