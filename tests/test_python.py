"""Cotrunk in Python: its documentation runs, it speaks Python, and a notebook shows what it is."""

import doctest
import inspect
import json
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import cotrunk
from cotrunk.cli.main import main
from cotrunk.errors import UserError, for_command_line, for_python, option, spelled
from toy import cut, train, write_rows

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run of the toy world, for reading only."""
    from toy import write_toy

    folder = tmp_path_factory.mktemp("python")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COTRUNK_CACHE", str(folder / "cache"))
        assert train(write_toy(folder), folder / "run", "--set", "train.max_steps=2") == 0
    return folder / "run"


@pytest.fixture(scope="module")
def model(trained):
    return cotrunk.load(trained)


@pytest.mark.slow
def test_the_examples_in_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = {"good": ["lovely", "bright", "fine"], "bad": ["dull", "slow", "weak"]}
    rows = [
        [f"A {words[label][i % 3]} film, number {i}.", label]
        for i in range(20)
        for label in ("good", "bad")
    ]
    write_rows(tmp_path / "reviews.csv", ["text", "stars"], rows)
    write_rows(tmp_path / "old.csv", ["text", "opinion"], rows)
    tiny = cotrunk.init

    def init(files, output=None):  # the real weights would take half a minute
        text = tiny(files, output)
        if output:
            small = text.replace('"minilm"', '"random:tiny"').replace("epochs = 3", "epochs = 1")
            Path(output).write_text(small)
        return text

    monkeypatch.setattr(cotrunk, "init", init)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    monkeypatch.setitem(cotrunk.__dict__, "__test__", {"init": tiny})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of guards: a step trains nothing
        found = [t for t in doctest.DocTestFinder(exclude_empty=True).find(cotrunk) if t.examples]
        order = ["cotrunk", "train", "train_events", "load", "compare", "init"]
        found.sort(key=lambda test: order.index(test.name.rpartition(".")[2]))
        runner = doctest.DocTestRunner(optionflags=options)
        for test in found:
            test.globs = {"cotrunk": cotrunk}
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 10


def test_dir_shows_only_what_is_public_and_all_of_it_is_documented():
    assert dir(cotrunk) == sorted(cotrunk.__all__)
    for name in cotrunk.__all__:
        assert hasattr(cotrunk, name)
        if inspect.isfunction(getattr(cotrunk, name)):
            assert inspect.getdoc(getattr(cotrunk, name))
    assert cotrunk.UserError is UserError
    with pytest.raises(AttributeError, match="predict"):
        cotrunk.predict  # noqa: B018


def test_importing_the_package_is_quick_and_its_errors_need_no_torch():
    code = "import sys, cotrunk; cotrunk.UserError; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_message_is_spelled_for_whoever_reads_it():
    text = (
        f"give {option('resume')}, {option('which', 'best')} or {spelled(command='a', python='b')}"
    )
    assert for_command_line(text) == "give --resume, --which best or a"
    assert for_python(text) == "give resume=True, which='best' or b"
    assert str(UserError(text)) == for_python(text)


def test_errors_speak_python_here_and_options_on_the_command_line(toy, tmp_path, capsys):
    run = tmp_path / "run"
    cut(toy, run, ["train.max_steps=2"], after=1)
    calls = {
        "resume=True": (lambda: cotrunk.train(toy, run), ["--out", str(run)]),
        "force=True": (
            lambda: cotrunk.train(toy, run, resume=True, overrides=["train.lr=1"]),
            ["--out", str(run), "--resume", "--set", "train.lr=1"],
        ),
        "overrides=['x']": (lambda: cotrunk.train(toy, run, overrides=["x"]), ["--set", "x"]),
        "overrides: train.lr": (
            lambda: cotrunk.train(toy, run, overrides=["train.lr=0"]),
            ["--set", "train.lr=0"],
        ),
    }
    for said, (call, arguments) in calls.items():
        with pytest.raises(cotrunk.UserError) as refused:
            call()
        assert said in str(refused.value)
        assert "--" not in str(refused.value)
        assert main(["train", str(toy), *arguments]) == 2
        spoken = capsys.readouterr().err
        assert said not in spoken
        assert "--" in spoken
        assert spoken.isascii()


def test_a_missing_network_and_a_wrong_margin_are_refused_in_python_too(trained):
    with pytest.raises(UserError, match="which='worst'"):
        cotrunk.load(trained, which="worst")
    with pytest.raises(UserError, match=r"margin=2"):
        cotrunk.compare(trained, margin=2)


def test_nothing_to_compare_or_look_at_is_refused():
    with pytest.raises(UserError, match="at least one run"):
        cotrunk.compare([])
    with pytest.raises(UserError, match="at least one"):
        cotrunk.init([])


def test_predict_all_gives_what_each_task_gives_alone(model):
    texts = ["good plot", "a slow river of stone", "tea"]
    pairs = [("good plot", "bad plot"), ("tea", "stone")]
    found = model.predict_all([*texts, *pairs])
    assert [list(row) for row in found] == [["mood"]] * 3 + [["same", "alike"]] * 2
    for task, given, rows in (
        ("mood", texts, found[:3]),
        ("same", pairs, found[3:]),
        ("alike", pairs, found[3:]),
    ):
        alone = model.predict(task, given)
        for one, row in zip(alone, rows, strict=True):
            assert row[task].prediction == pytest.approx(one.prediction, abs=1e-5)
            assert row[task].probabilities == pytest.approx(one.probabilities, abs=1e-5)
    assert model.predict_all([]) == []
    assert [list(row) for row in model.predict_all(pairs, tasks=["alike"])] == [["alike"]] * 2


def test_predict_all_passes_once_over_what_the_tasks_share(model):
    """The first layer belongs to all tasks, the second to each."""
    calls: list[str] = []
    network = model.model.network
    hooks = [
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
        for name, module in network.named_modules()
        if name.count(".") == 2 and name.startswith("layers.")
    ]
    try:
        model.predict_all([("good plot", "bad plot")])
    finally:
        for hook in hooks:
            hook.remove()
    assert sorted(calls) == ["layers.0.alike+mood+same", "layers.1.alike", "layers.1.same"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ("good plot", "texts must be a list"),
        (["good plot", ""], r"texts\[1\]"),
        (["good plot", ("a", "b", "c")], r"texts\[1\].*one text or a pair.*3 values"),
        (["good plot", 3], r"texts\[1\]"),
    ],
)
def test_predict_all_refuses_what_no_task_reads(model, texts, said):
    with pytest.raises(UserError, match=said):
        model.predict_all(texts)
    with pytest.raises(UserError, match="did you mean 'mood'"):
        model.predict_all(["good"], tasks=["moods"])


def test_embed_gives_the_vectors_that_the_heads_read(model):
    with pytest.raises(UserError, match="task='mood'"):
        model.embed(["good plot"])
    both = model.embed(["good plot", "tea"], task="mood")
    assert both.shape == (2, model.model.network.shape.width)
    np.testing.assert_allclose(model.embed(["tea"], task="mood")[0], both[1], atol=1e-5)
    assert not np.allclose(model.embed(["tea"], task="same")[0], both[1])
    assert model.embed([], task="mood").shape == (0, both.shape[1])
    with pytest.raises(UserError, match=r"texts\[0\]"):
        model.embed([""], task="mood")


def test_evaluate_gives_the_scores_of_the_command(model, trained, capsys):
    assert main(["evaluate", str(trained), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = model.evaluate()
    assert {task: score.score for task, score in found.items()} == {
        task: score["score"] for task, score in document["tasks"].items()
    }
    assert found.overall["mean"] == document["overall"]["mean"]


def test_a_file_is_scored_by_the_tasks_whose_columns_it_has(model, trained):
    dev = trained.parent / "mood-dev.csv"
    found = model.evaluate(dev)
    assert list(found) == ["mood"]
    assert found["mood"] == model.evaluate()["mood"]
    with pytest.raises(UserError, match="column"):
        model.evaluate(dev, tasks=["same"])
    other = trained.parent / "other.csv"
    write_rows(other, ["words"], [["good"]])
    with pytest.raises(UserError, match="columns are words"):
        model.evaluate(other)
    with pytest.raises(UserError, match="split='tests'"):
        model.evaluate(split="tests")
    with pytest.raises(UserError, match=r"tasks\.mood\.test.*: not set"):
        model.evaluate(split="test")


def test_another_label_column_is_scored_as_the_tasks_own(model, trained, tmp_path):
    own = (trained.parent / "mood-dev.csv").read_text()
    (tmp_path / "old.csv").write_text(own.replace("sentence,mood", "sentence,feeling", 1))
    found = model.evaluate(tmp_path / "old.csv", tasks=["mood"], label="feeling")
    assert found["mood"] == model.evaluate()["mood"]
    with pytest.raises(UserError, match=r"tasks=\['mood'\], label='COLUMN'"):
        model.evaluate(tmp_path / "old.csv")


def test_several_files_are_scored_at_once_and_what_is_left_out_is_noted(model, trained):
    mood, pair = (trained.parent / f"{name}-dev.csv" for name in ("mood", "pair"))
    assert dict(model.evaluate([mood, pair])) == dict(model.evaluate())
    alone = model.evaluate([mood])
    assert [note.split(" ")[0] for note in alone.notes] == ["same", "alike"]
    assert all(note in repr(alone) for note in alone.notes)
    assert not model.evaluate([mood, pair]).notes


@pytest.mark.slow
def test_scores_are_shown_with_a_constant_answer_and_a_threshold(toy, tmp_path):
    change = ['tasks.same.threshold="dev-f1"', "tasks.same.class_weights=[6.0, 1.0]"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of guards: two steps train nothing
        run = cotrunk.train(toy, tmp_path / "run", overrides=[*change, "train.max_steps=2"])
    found = run.load().evaluate()
    (chosen,) = found["same"].thresholds.values()
    assert chosen != 0.5
    assert found["mood"].baseline == pytest.approx(1 / 3)
    for shown in (repr(found), found._repr_html_()):
        assert "constant answer" in shown
        assert "0.333" in shown
        assert f"above a probability of {chosen:.3g}" in shown


def test_detail_is_that_of_the_command(model, trained, capsys):
    assert main(["evaluate", str(trained), "--detail", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["detail"]
    found = model.evaluate(detail=True).detail
    as_json = {task: json.loads(json.dumps(one.document())) for task, one in found.items()}
    assert as_json["mood"] == document["mood"]
    assert list(as_json) == list(document)
    assert not model.evaluate().detail


def test_bad_rows_can_be_skipped_and_other_encodings_read(model, tmp_path):
    latin = tmp_path / "latin.csv"
    latin.write_bytes("sentence,mood\ncafé,1\ngood,7\nplot,2\n".encode("latin-1"))
    with pytest.raises(UserError) as refused:
        model.evaluate(latin)
    assert "encoding='latin-1'" in str(refused.value)
    with pytest.raises(UserError) as refused:
        model.evaluate(latin, encoding="latin-1")
    assert "skip_bad_rows=True" in str(refused.value)
    assert "--" not in str(refused.value)
    found = model.evaluate(latin, encoding="latin-1", skip_bad_rows=True)
    assert found["mood"].rows == 2
    assert "skipped 1 bad row" in found.notes[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "mood"}, "label='mood': names a column of a file; name the file"),
        ({"encoding": "latin-1"}, "encoding='latin-1': is only for files; name the file"),
        ({"files": "mood-dev.csv", "label": "mood"}, "with tasks=['T']"),
        ({"files": "mood-dev.csv", "split": "dev"}, "split='dev': names files of the config"),
        ({"files": "mood-dev.csv", "encoding": "latin-one"}, "encoding='latin-one'"),
        ({"files": "mood-dev.csv", "tasks": ["mood", "same"]}, "tasks=['same']: no file has"),
        ({"files": "moood-dev.csv"}, "did you mean 'mood-dev.csv'"),
        ({"files": []}, "name at least one file"),
        ({"tasks": "mood"}, "tasks=['mood']"),
        ({"tasks": ["moood"]}, "did you mean 'mood'"),
    ],
)
def test_wrong_options_of_evaluate_are_refused_in_python(
    model, trained, monkeypatch, options, said
):
    monkeypatch.chdir(trained.parent)
    with pytest.raises(UserError) as refused:
        model.evaluate(**options)
    assert said in str(refused.value)
    assert "--" not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


class Tags(HTMLParser):
    """Checks that every tag that is opened is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_what_is_shown_says_tasks_plan_scores_and_size(model, several_runs):
    compared = cotrunk.compare(several_runs / "shared", several_runs / "apart")
    for shown in (model, model.evaluate(), compared):
        html = Tags()
        html.feed(shown._repr_html_())
        assert not html.open
        assert {"table", "td"} <= html.seen
        for text in (repr(shown), shown._repr_html_()):
            assert all(task in text for task in ("mood", "same", "alike"))
    for said in (repr(model), model._repr_html_()):
        assert "S I" in said
        assert f"{model.parameters:,} parameters" in said
        assert "MB" in said
        assert "accuracy" in said
    assert "baseline" in repr(compared)


def test_names_are_escaped_in_html():
    from cotrunk.notebook import html_table

    assert "<b>" not in html_table(["<b>"], [["<b>"]], caption="<b>")


def test_init_returns_the_config_and_writes_it_only_where_nothing_is(tmp_path):
    rows = [[f"a {word} stone, number {i}", word] for i in range(20) for word in ("good", "bad")]
    write_rows(tmp_path / "a.csv", ["text", "mood"], rows)
    text = cotrunk.init(tmp_path / "a.csv", tmp_path / "run.toml")
    assert (tmp_path / "run.toml").read_text() == text
    assert "[tasks.mood]" in text
    with pytest.raises(UserError, match="already exists"):
        cotrunk.init([tmp_path / "a.csv"], tmp_path / "run.toml")
    assert main(["init", str(tmp_path / "a.csv"), "-o", str(tmp_path / "other.toml")]) == 0
    assert (tmp_path / "other.toml").read_text() == text


NOTEBOOK = ROOT / "docs/tour.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_in_a_fresh_process():
    command = [sys.executable, "-m", "tools.notebook", str(NOTEBOOK), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_notebook_shows_what_its_cells_gave_and_no_path_of_a_machine():
    text = NOTEBOOK.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("text/html" in out.get("data", {}) for cell in cells for out in cell["outputs"]) >= 3
    assert "/src/" not in text
    assert "site-packages" not in text
    assert "Traceback" not in text
