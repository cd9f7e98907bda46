"""``cotrunk export`` as a user calls it: what it writes, what it says, what it refuses."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shipping import SHORT, needs_peers, train, write_world

import cotrunk
from cotrunk.cli.main import main
from cotrunk.export import check
from toy import write_toy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of guards, and of other libraries
    needs_peers,
]


@pytest.fixture
def run(pooled_run) -> Path:
    return pooled_run


@pytest.fixture
def call(capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def test_one_task_is_the_folder_itself_and_several_have_one_each(run, call, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert call("export", run, "--to", "transformers", "--task", "mood", "-o", one)[0] == 0
    assert (one / "model.safetensors").is_file()
    code, out, _ = call(
        "export", run, "--to", "transformers", "--task", "mood", "same", "-o", two, "--json"
    )
    assert code == 0
    assert sorted(path.name for path in two.iterdir()) == ["mood", "same"]
    entry = json.loads(out)["tasks"]["same"]
    assert entry["folder"] == str(two / "same")
    assert entry["difference"] < check.TOLERANCE


LONG = "Tea's bright river, and a dull plot. " * 100
"""Of many more tokens than the runs read, and than their encoders can."""


@pytest.fixture
def run_card(monkeypatch, capsys):
    """Runs the lines of a model card on texts of ours; the line that they print."""

    def run_card(folder: Path, *texts: str) -> str:
        card = (folder / "README.md").read_text(encoding="utf-8")
        code = card.split("```python\n")[1].split("```")[0]
        for text in texts:
            code = code.replace('"..."', repr(text), 1)
        monkeypatch.chdir(folder.parent)
        exec(compile(code, "README.md", "exec"), {})
        return capsys.readouterr().out.splitlines()[-1]

    return run_card


@pytest.mark.parametrize("text", ["tea", LONG])
def test_the_lines_of_a_card_answer_what_the_run_answers(run, call, run_card, tmp_path, text):
    folder, predictor = tmp_path / "out", cotrunk.load(run)
    chosen = ["--task", "mood", "same", "names"]
    assert call("export", run, "--to", "transformers", *chosen, "-o", folder)[0] == 0
    (found,) = ast.literal_eval(run_card(folder / "mood", text))
    (mood,) = predictor.predict("mood", [text])
    assert found["score"] == pytest.approx(max(mood.probabilities), abs=1e-5)
    found = ast.literal_eval(run_card(folder / "same", text, "a river"))
    (same,) = predictor.predict("same", [(text, "a river")])
    assert found["score"] == pytest.approx(same.probabilities[0], abs=1e-5)
    run_card(folder / "names", text)  # an untrained network may find nothing


@pytest.mark.parametrize("text", ["tea", LONG])
def test_the_card_of_a_kept_adapter_shows_how_to_use_it(call, run_card, tmp_path, text):
    lora = ["sharing.lora.who=I", "sharing.encoder=S2", "encoder.pooling=pooler"]
    run, folder = train(write_world(tmp_path), *lora), tmp_path / "out"
    export = ("export", run, "--to", "transformers", "--keep-lora", "-o", folder)
    assert call(*export)[0] == 0
    predictor = cotrunk.load(run)
    (found,) = ast.literal_eval(run_card(folder / "mood", text))
    assert found == pytest.approx(predictor.predict("mood", [text])[0].probabilities, abs=1e-5)
    ((score,),) = ast.literal_eval(run_card(folder / "alike", text, "a river"))
    assert score == pytest.approx(predictor.predict("alike", [(text, "a river")])[0].prediction)
    (tags,) = ast.literal_eval(run_card(folder / "names", "tea", text))
    assert {len(probabilities) for probabilities in tags} == {3}


def test_an_exported_folder_can_be_trained_from_again(run, call, tmp_path):
    folder = tmp_path / "exported"
    assert call("export", run, "--to", "transformers", "--task", "mood", "-o", folder)[0] == 0
    config = write_toy(tmp_path)
    again = [*SHORT, f"encoder.weights={folder}", "encoder.pooling=pooler", "sharing.encoder=S2"]
    cotrunk.train(config, tmp_path / "again", overrides=[*again, "train.lr=1e-12"])
    answers = [cotrunk.load(path).model.network for path in (run, tmp_path / "again")]
    old, new = (network.owned["layers.0"].copy_of("mood").up.weight for network in answers)
    assert (old - new).abs().max() < 1e-6


def test_the_example_of_a_graph_needs_neither_torch_nor_cotrunk(run, call, tmp_path):
    folder = tmp_path / "graph"
    assert call("export", run, "--to", "onnx", "-o", folder)[0] == 0
    example = folder / "example.py"
    assert len(example.read_text().splitlines()) <= 40
    code = "import runpy, sys; sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__'); "
    code += "sys.exit(bool({'torch', 'cotrunk', 'transformers'} & sys.modules.keys()))"
    predictor = cotrunk.load(run)
    for task, *given in (["mood", "Good plot"], ["same", "a river", "tea"], ["alike", "a", "b"]):
        command = [sys.executable, "-c", code, str(example), task, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        label, outputs = map(ast.literal_eval, done.stdout.splitlines())
        row = tuple(given) if len(given) == 2 else given[0]
        (expected,) = predictor.predict(task, [row])
        assert label == pytest.approx(expected.prediction, abs=1e-4)
        if expected.probabilities:
            assert list(outputs.values()) == pytest.approx(expected.probabilities, abs=1e-5)


KINDS = """
[tasks.topics]
kind = "multilabel"
classes = ["a", "b"]
threshold = 0.0001
text = ["text"]
label = "label"
train = "topics-train.csv"
dev = "topics-train.csv"
"""


def test_the_example_of_a_graph_prints_what_predict_answers_for_every_kind(call, tmp_path):
    config = write_world(tmp_path)
    config.write_text(config.read_text() + KINDS, encoding="utf-8")
    (tmp_path / "topics-train.csv").write_text("text,label\n" + "tea,a|b\ncold,a\n" * 8)
    low = ["tasks.same.threshold=0.001", 'tasks.same.classes=["0", "1"]']
    run, folder = train(config, *low), tmp_path / "graph"
    assert call("export", run, "--to", "onnx", "-o", folder)[0] == 0
    long = " ".join(["Tea's"] * 30)  # its last words are cut off
    for task, *given in (["topics", "tea"], ["same", "a", "b"], ["names", "Good tea"]):
        printed = _printed_label(folder, task, *given)
        row = given[0].split() if task == "names" else tuple(given) if task == "same" else given[0]
        (expected,) = cotrunk.load(run).predict(task, [row])
        tags = list(zip(row, expected.prediction, strict=True)) if task == "names" else None
        assert printed == str(tags or expected.prediction)
    assert _printed_label(folder, "names", long).endswith('("Tea\'s", None)]')


def _printed_label(folder: Path, task: str, *given: str) -> str:
    command = [sys.executable, str(folder / "example.py"), task, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def test_the_card_of_an_export_into_the_current_folder_has_its_name(
    run, call, tmp_path, monkeypatch
):
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    export = ("export", run, "--to", "sentence-transformers", "--task", "mood", "-o", ".")
    assert call(*export)[0] == 0
    assert 'SentenceTransformer("mine")' in (folder / "README.md").read_text(encoding="utf-8")


def test_a_graph_cannot_be_trained_from_and_says_which_export_can(run, call, tmp_path):
    graph = tmp_path / "graph"
    assert call("export", run, "--to", "onnx", "-o", graph)[0] == 0
    config = write_toy(tmp_path)
    code, _, err = call("plan", config, "--set", f"encoder.weights={graph}")
    assert code == 2
    assert "--to sentence-transformers" in err


def test_a_threshold_is_exported_with_its_task(call, tmp_path):
    run = train(write_world(tmp_path), "tasks.same.threshold=0.3")
    folder = tmp_path / "new" / "graph"
    assert call("export", run, "--to", "onnx", "-o", folder)[0] == 0
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    assert tasks["same"]["thresholds"] == {tasks["same"]["outputs"][0]: 0.3}
    assert tasks["mood"]["thresholds"] == {}
    assert "above a probability of 0.3" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_example_of_a_graph_names_the_tasks_to_who_calls_it_wrongly(run, call, tmp_path):
    folder = tmp_path / "graph"
    assert call("export", run, "--to", "onnx", "-o", folder)[0] == 0
    for row in ([], ["mood"], ["moot", "Good plot"], ["same", "a river"]):
        command = [sys.executable, str(folder / "example.py"), *row]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("usage:")
        assert {"mood", "same", "alike", "names"} <= set(line.split())


def test_a_graph_in_int8_says_what_it_changes(run, call, tmp_path):
    folder = tmp_path / "small"
    code, out, _ = call("export", run, "--to", "onnx", "--int8", "-o", folder, "--json")
    assert code == 0
    assert all(0 <= task["int8_changed"] <= 1 for task in json.loads(out)["tasks"].values())
    assert sorted(path.suffix for path in folder.glob("*onnx*")) == [".onnx"]


def test_the_card_tells_data_plan_scores_cost_licence_and_use(run, call, tmp_path):
    assert call("export", run, "--to", "onnx", "--task", "mood", "-o", tmp_path / "graph")[0] == 0
    card = (tmp_path / "graph/README.md").read_text(encoding="utf-8")
    for part in (
        "mood-train.csv",
        "[  mood ]",
        "accuracy 0.",
        "CPU seconds",
        "## Licence",
        "```python",
        "The best epoch was chosen on these rows.",
    ):
        assert part in card


def test_the_card_of_a_final_network_does_not_say_that_an_epoch_was_chosen(run, call, tmp_path):
    folder = tmp_path / "graph"
    export = ("export", run, "--to", "onnx", "--task", "mood", "--which", "final", "-o", folder)
    assert call(*export)[0] == 0
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "exported from `final`" in card
    assert "chosen" not in card


def test_the_card_tells_which_share_of_a_file_was_held_out(call, tmp_path):
    run, folder = tmp_path / "run", tmp_path / "graph"
    share = ["tasks.mood.dev=0.25", "sharing.encoder=S2"]
    cotrunk.train(write_toy(tmp_path), run, overrides=[*SHORT, *share])
    assert call("export", run, "--to", "onnx", "--task", "mood", "same", "-o", folder)[0] == 0
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "train mood-train.csv; dev 0.25 of mood-train.csv, held out" in card
    assert "dev pair-dev.csv" in card


def test_made_up_texts_are_compared_where_dev_rows_are_gone(run, call, tmp_path):
    away = [(file, tmp_path / file.name) for file in run.parent.glob("*-dev.*")]
    for file, elsewhere in away:
        shutil.move(file, elsewhere)
    code, out, _ = call("export", run, "--to", "onnx", "-o", tmp_path / "graph", "--json")
    for file, elsewhere in away:
        shutil.move(elsewhere, file)
    assert code == 0
    assert all("made-up" in task["checked_on"] for task in json.loads(out)["tasks"].values())


def test_an_export_that_differs_is_not_written(run, call, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "TOLERANCE", -1.0)
    code, _, err = call("export", run, "--to", "onnx", "-o", tmp_path / "graph")
    assert code == 1
    assert "onnxruntime computes different outputs" in err
    assert list(tmp_path.iterdir()) == []


def test_tasks_refused_for_the_same_reason_share_a_line_and_the_others_are_named(call, tmp_path):
    run = train(write_world(tmp_path), "encoder.pooling=mean")
    code, _, err = call("export", run, "--to", "transformers", "-o", tmp_path / "new")
    assert code == 2
    refused = [line for line in err.splitlines() if line.startswith("error: task")]
    reasons = [line.split(": ", 2)[2] for line in refused]
    assert len(set(reasons)) == len(reasons)
    assert err.splitlines()[-1].endswith("give --task names")


def test_bad_requests_are_one_line_and_write_nothing(run, call, tmp_path, monkeypatch):
    full, free = tmp_path / "full", tmp_path / "free"
    full.mkdir()
    (full / "file").touch()
    to = ["--to", "transformers"]
    for arguments, part in (
        (["export", run, *to, "-o", full], "is not empty"),
        (["export", run, *to, "-o", full / "file"], "is a file"),
        (["export", run, *to, "-o", run / "inside"], "inside the run"),
        (["export", run, *to, "-o", full / "file" / "inside"], "is a file"),
        (["export", run, *to, "--task", "moot", "-o", free], "did you mean 'mood'"),
        (["export", run, *to, "--int8", "-o", free], "--to onnx"),
        (["export", run, *to, "--keep-lora", "-o", free], "no low-rank adapters"),
        (["export", run, "--to", "onx", "-o", free], "did you mean 'onnx'"),
        (["export", tmp_path, *to, "-o", free], "is not a run"),
    ):
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        (line,) = err.splitlines()
        assert part in line
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    code, _, err = call("export", run, "--to", "onnx", "-o", free)
    assert code == 2
    assert 'pip install "cotrunk[export]"' in err
    assert not free.exists()
