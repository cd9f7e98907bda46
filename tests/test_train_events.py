"""Training from Python: events in order, a run that is returned, and what its folder records."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import cotrunk
from cotrunk.build.corpora import corpora_of
from cotrunk.build.load import load_model
from cotrunk.errors import UserError
from cotrunk.infer.forward import Live
from cotrunk.learn.run import Interrupt, Interrupted
from cotrunk.runs.checkpoint import CheckpointDamaged, read_checkpoint, read_documents
from cotrunk.runs.environment import commit, cpu_model
from cotrunk.runs.evaluation import read_evaluation
from cotrunk.runs.events import Evaluated, Finished, Saved, Started, Stepped
from cotrunk.runs.folder import RunFolder
from toy import contents, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SHORT = ["train.max_steps=4", "train.evaluate=2", "train.checkpoint=4"]


def records(run: Path, event: str) -> list[dict]:
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in found if record["event"] == event]


@pytest.mark.slow
def test_events_come_in_the_order_of_the_training(toy, tmp_path):
    events = list(cotrunk.train_events(toy, tmp_path / "run", overrides=SHORT))
    kinds = [type(event) for event in events]
    half = [Stepped, Stepped, Evaluated]
    assert kinds == [Started, *half, *half, Saved, Finished]
    started, *_, saved, finished = events
    assert (started.step, started.steps, started.resumed) == (0, 4, False)
    assert started.parameters == finished.parameters > 0
    assert [event.step for event in events if isinstance(event, Stepped)] == [1, 2, 3, 4]
    assert saved.folder == tmp_path / "run/checkpoints/step-00000004"
    assert finished.folder == tmp_path / "run"


@pytest.mark.slow
def test_the_command_line_and_python_train_the_same(toy, tmp_path):
    assert train(toy, tmp_path / "cli", "--set", *SHORT) == 0
    cotrunk.train(toy, tmp_path / "python", overrides=SHORT)
    assert contents(tmp_path / "cli") == contents(tmp_path / "python")


@pytest.mark.slow
def test_train_returns_a_run_that_can_answer(toy, tmp_path):
    run = cotrunk.train(toy, tmp_path / "run", overrides=SHORT)
    best = max(records(run.folder, "dev"), key=lambda record: record["official"])
    assert run.best_step == best["step"]
    assert run.overall["official"] == best["official"]
    assert {task: score["score"] for task, score in run.scores.items()} == {
        task: score["score"] for task, score in best["scores"].items()
    }
    assert run.steps == 4
    assert run.seconds > 0
    (answer,) = run.load().predict("mood", ["good plot"])
    assert answer == cotrunk.load(run.folder).predict("mood", ["good plot"])[0]


@pytest.mark.slow
def test_a_run_that_was_never_evaluated_has_no_scores(toy, tmp_path):
    run = cotrunk.train(toy, tmp_path / "run", overrides=["train.evaluate=never"])
    assert run.best_step is None
    assert run.scores == run.overall == {}
    assert run.load().predict("mood", ["good plot"])


def test_train_prints_nothing_and_warns_of_what_should_not_be_missed(toy, tmp_path, capfd):
    changes = [*SHORT, "train.sampling=sequential", "train.max_steps=1"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cotrunk.train(toy, tmp_path / "run", overrides=changes)
    assert any("[starved-task]" in str(warning.message) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_caller_that_stops_asking_frees_the_folder_and_may_go_on_later(toy, tmp_path):
    changes = ["train.checkpoint=2"]
    cotrunk.train(toy, tmp_path / "whole", overrides=changes)
    events = cotrunk.train_events(toy, tmp_path / "cut", overrides=changes)
    for event in events:
        if isinstance(event, Saved) and event.step == 4:
            break
    with pytest.raises(UserError, match="is locked"):
        cotrunk.train(toy, tmp_path / "cut", resume=True, overrides=changes)
    events.close()
    started, *_ = events = list(
        cotrunk.train_events(toy, tmp_path / "cut", resume=True, overrides=changes)
    )
    assert started.resumed
    assert started.step == 4
    assert any("resuming after step 4" in note for note in started.notes)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_an_interrupt_ends_the_training_after_its_step_with_a_checkpoint(toy, tmp_path):
    interrupt = Interrupt()
    events = cotrunk.train_events(toy, tmp_path / "run", interrupt=interrupt)

    def drain() -> None:
        for event in events:
            if isinstance(event, Stepped) and event.step == 3:
                interrupt.signal = 15

    with pytest.raises(Interrupted):
        drain()
    assert (tmp_path / "run/checkpoints/step-00000003/manifest.json").is_file()


def test_a_wrong_config_is_refused_when_train_events_is_called(toy, tmp_path):
    with pytest.raises(UserError, match="did you mean 'epochs'"):
        cotrunk.train_events(toy, tmp_path / "run", overrides=["train.epohcs=1"])


@pytest.mark.slow
def test_the_best_network_is_saved_with_its_outputs_for_the_dev_rows(toy, tmp_path):
    run = cotrunk.train(toy, tmp_path / "run", overrides=SHORT).folder
    dev, model = read_checkpoint(run / "best").tensors("dev"), load_model(run)
    network = model.network
    corpora = corpora_of(model.sources, "dev", list(network.tasks.values()), model.tokenizer)
    device = next(network.parameters()).device
    forward = Live(network, corpora, model.pair_formats, model.template, device)
    for task, corpus in corpora.items():
        np.testing.assert_array_equal(dev[f"{task}.output"].numpy(), forward.outputs(task))
        np.testing.assert_array_equal(dev[f"{task}.target"].numpy(), corpus.target)
    assert "dev" not in read_checkpoint(run / "final").loaded


@pytest.mark.slow
def test_the_network_that_is_best_for_a_task_has_its_own_evaluation(toy, tmp_path):
    changes = [*SHORT, "train.keep_each=true"]
    run = RunFolder(cotrunk.train(toy, tmp_path / "run", overrides=changes).folder)
    for task in ("mood", "same", "alike"):
        best = max(records(run.path, "dev"), key=lambda record: record["scores"][task]["score"])
        found = read_evaluation(run.best_of(task))
        assert found is not None
        assert found.step == best["step"]


@pytest.mark.slow
def test_an_evaluation_says_what_the_network_was_kept_by(toy, tmp_path):
    run = cotrunk.train(toy, tmp_path / "run", overrides=[*SHORT, "train.keep=mood"])
    found = read_evaluation(run.folder / "best")
    assert found is not None
    assert found.keep == "mood"
    assert found.value == run.scores["mood"]["score"]


@pytest.mark.slow
def test_documents_are_read_without_torch_and_without_the_weights(toy, tmp_path):
    run = cotrunk.train(toy, tmp_path / "run", overrides=SHORT).folder
    weights = run / "best/model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))  # of the same size, but not the same
    assert read_evaluation(run / "best") is not None
    with pytest.raises(CheckpointDamaged):
        read_checkpoint(run / "best")
    script = (
        "import sys; from pathlib import Path; from cotrunk.runs.evaluation import *; "
        f"assert read_evaluation(Path({str(run / 'best')!r})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    document = run / "best/evaluation.json"
    document.write_text(document.read_text().replace("0.", "1.", 1))
    with pytest.raises(CheckpointDamaged, match=r"evaluation\.json"):
        read_documents(run / "best")


@pytest.mark.slow
def test_a_run_records_what_it_was_made_with_and_may_go_on_elsewhere(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(toy, run, "--set", *SHORT) == 0
    record = json.loads((run / "run.json").read_text())
    made_with = record["environment"]
    assert made_with["versions"]["cotrunk"] == cotrunk.__version__
    assert set(made_with["versions"]) == {"cotrunk", "python", "torch", "numpy", "tokenizers"}
    assert all(made_with["versions"].values())
    assert made_with["cores"] >= 1
    made_with["versions"]["torch"] = "0.0"
    made_with["cpu"] = "another"
    (run / "run.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert train(toy, run, "--resume", "--set", *SHORT) == 0
    assert "torch" not in capsys.readouterr().err


def test_findings_made_before_training_are_in_the_folder(toy, tmp_path):
    changes = [*SHORT, "train.sampling=sequential", "train.max_steps=1"]
    events = cotrunk.train_events(toy, tmp_path / "run", overrides=changes)
    started, *_ = list(events)
    found = RunFolder(tmp_path / "run").read_document("findings")
    assert [(entry["name"], entry["finding"]) for entry in found] == [
        (finding.name, finding.finding) for finding in started.findings
    ]
    assert found


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


@pytest.mark.slow
def test_the_commit_is_that_of_the_package_and_says_if_it_was_changed(tmp_path):
    package = tmp_path / "src"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert commit(package) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "other").write_text("")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-q", "-m", "x")
    assert commit(package) is None  # inside another project's checkout
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-q", "-m", "y")
    clean = commit(package)
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "other").write_text("changed")
    assert commit(package) == clean
    (package / "__init__.py").write_text("changed")
    assert commit(package) == f"{clean}-dirty"


def test_the_cpu_has_a_name_where_the_system_has_none(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor: 0\nmodel name\t: Fast CPU @ 1 GHz\n")
    assert cpu_model(tmp_path / "cpuinfo") == "Fast CPU @ 1 GHz"
    assert cpu_model(tmp_path / "absent")
