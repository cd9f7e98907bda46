"""Masked words on the command line: what is shown, what is skipped, what is refused."""

import json

import pytest

import cotrunk
from cotrunk.cli.main import main
from cotrunk.config.check import read_settings
from cotrunk.errors import UserError
from toy import prepared, train

FILES = ["tasks.mlm.texts_of=[]", "tasks.mlm.train=lines-train.txt", "tasks.mlm.dev=lines-dev.txt"]


@pytest.mark.slow
def test_plain_text_is_read_whatever_its_column_is_called(masked):
    changes = [*FILES, 'tasks.mlm.text=["text"]']
    read = [prepared(masked, *given).dev["mlm"] for given in (FILES, changes)]
    assert len(read[0]) == len(read[1]) > 0


@pytest.mark.slow
def test_a_run_of_nothing_but_masked_words_says_that_it_predicts_nothing(only_masked, tmp_path):
    assert train(only_masked, tmp_path / "run", "--set", "train.epochs=1") == 0
    with pytest.raises(UserError, match="makes predictions: mlm"):
        cotrunk.load(tmp_path / "run").predict_all(["the sun"])


@pytest.fixture
def run(masked, tmp_path, capsys):
    assert train(masked, tmp_path / "run", "--set", "train.epochs=1") == 0
    capsys.readouterr()
    return tmp_path / "run"


@pytest.mark.slow
def test_scores_are_printed_with_loss_and_perplexity(run, capsys):
    for command in (["evaluate"], ["info"]):
        assert main([*command, str(run)]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        names = [" ".join(row[:2]) for row in rows if row and row[0] == "mlm"]
        assert names[1:] == ["mlm loss", "mlm perplexity"], command


@pytest.mark.slow
def test_evaluate_gives_the_scores_of_training(run, capsys):
    assert main(["evaluate", str(run), "--json", "--worst", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    kept = json.loads((run / "best" / "evaluation.json").read_text())["scores"]["mlm"]
    assert found["tasks"]["mlm"]["more"] == pytest.approx(kept["more"], rel=1e-5)
    assert set(found["worst"]) == {"mood", "same", "alike"}
    assert found["tasks"]["mlm"]["rows"] == kept["rows"] == 72  # texts, not masked tokens


@pytest.mark.slow
def test_every_score_comes_with_its_masked_tokens_and_its_constant_answer(
    only_masked, tmp_path, capsys
):
    run = tmp_path / "run"
    assert train(only_masked, run, "--set", "train.epochs=1") == 0
    score = json.loads((run / "best" / "evaluation.json").read_text())["scores"]["mlm"]
    assert score["masked_tokens"] > score["rows"] == 20  # every text has at least one
    assert 1 / score["masked_tokens"] < score["baseline"] < 1
    on = f"{score['masked_tokens']} masked tokens in 20 rows"
    constant = f"{score['baseline']:.3f}"
    assert f"(constant {constant}, {on})" in capsys.readouterr().err
    for command in ("evaluate", "info"):
        assert main([command, str(run)]) == 0
        said = capsys.readouterr().out.splitlines()
        assert f"mlm: scored on {on}" in said, command
        assert any(line.split()[-2:] == [constant, "20"] for line in said), command
    assert main(["compare", str(run)]) == 0
    assert f"mlm: accuracy on {on} (constant answer {constant})" in capsys.readouterr().out
    assert f"mlm: scored on {on}" in repr(cotrunk.load(run).evaluate())


@pytest.mark.slow
def test_int8_is_measured_on_it(run, capsys):
    assert main(["evaluate", str(run), "--int8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["int8"]["tasks"]["mlm"]
    assert 0 <= found["changed"] <= 0.5


@pytest.mark.slow
def test_predict_skips_it_with_a_note(run, capsys):
    assert main(["predict", str(run), str(run.parent / "mood-dev.csv")]) == 0
    said = capsys.readouterr()
    assert "note: mlm is skipped: it is only for training" in said.err
    assert said.out.startswith("id,mood,mood_probability\n")


@pytest.mark.slow
def test_asked_for_an_answer_it_is_refused_in_one_line(run, capsys):
    assert main(["predict", str(run), str(run.parent / "mood-dev.csv"), "--task", "mlm"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    with pytest.raises(UserError, match="task mlm is only for training") as caught:
        cotrunk.load(run).predict("mlm", ["good plot"])
    assert len(caught.value.lines) == 1


def test_a_run_of_nothing_else_has_nothing_to_predict(only_masked, tmp_path, capsys):
    assert train(only_masked, tmp_path / "run", "--set", "train.epochs=1") == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "mood-dev.csv")]) == 2
    assert "none of the run's tasks makes predictions" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overall"] == {"official": None, "mean": None}
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    assert main(["info", str(tmp_path / "run")]) == 0


def test_data_check_counts_each_text(masked, capsys):
    assert main(["data", "check", str(masked), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tasks"]["mlm"]
    assert (found["train"]["rows"], found["dev"]["rows"]) == (120, 72)
    assert found["train"]["duplicate_ids"] == 0
    assert found["train"]["labels"] == {}
    assert found["dev"]["rows_in_train"] > 0


def test_plan_counts_its_head_without_the_table(masked, capsys):
    assert main(["plan", str(masked), "--json"]) == 0
    owners = json.loads(capsys.readouterr().out)["owners"]
    (head,) = [owner for owner in owners if owner["place"] == "heads.mlm"]
    assert head["parameters"] == 32 * 32 + 32 + 2 * 32 + 300
    network = prepared(masked).network
    assert head["parameters"] == sum(p.numel() for p in network.head_of["mlm"].parameters())


WRONG = {
    "tasks.mlm.label=mood": "tasks.mlm.label: kind mlm has no labels",
    "tasks.mlm.sparse_labels=true": "tasks.mlm.sparse_labels: kind mlm has no labels",
    "tasks.mlm.metric=accuracy": "tasks.mlm.metric: kind mlm has no metric; classes, binary",
    "tasks.mlm.rate=1.5": "tasks.mlm.rate = 1.5: must be between 0 and 1",
    "tasks.mlm.head.depth=2": "tasks.mlm.head: kind mlm uses",
    "tasks.mlm.reads=['mood']": "tasks.mlm.reads: kind mlm uses",
    "tasks.mlm.reading.what=hidden": "tasks.mlm.reading: kind mlm uses",
    "tasks.mood.reads=['mlm']": "tasks.mood.reads: 'mlm' makes no predictions to read",
    "tasks.mlm.pooling=cls": "tasks.mlm.pooling: kind mlm predicts tokens",
    "tasks.mlm.pair=all": "tasks.mlm.pair: kind mlm predicts tokens",
    "tasks.mlm.swap=true": "tasks.mlm.swap: kind mlm predicts tokens",
    "tasks.mlm.loss=mse": "tasks.mlm.loss = 'mse': must be cross-entropy",
    "tasks.mlm.texts_of=['mod']": "tasks.mlm.texts_of: 'mod' is not a task; tasks are mood, same, "
    "alike, mlm; did you mean 'mood'?",
    "tasks.mlm.texts_of=['mlm']": "tasks.mlm.texts_of: a task cannot name itself",
    "tasks.mlm.texts_of=['mood', 'mood']": "tasks.mlm.texts_of lists 'mood' 2 times",
    "tasks.mlm.texts_of=[]": "tasks.mlm.text is missing: name the text columns",
    "tasks.mlm.text=['sentence']": "tasks.mlm.text and texts_of both say where the texts are",
    "tasks.mlm.train=mood-train.csv": "tasks.mlm.train and texts_of both say",
    "tasks.mood.texts_of=['same']": "tasks.mood.texts_of: kind classes has no texts_of; mlm has",
    "train.keep=mlm": "train.keep = 'mlm': kind mlm cannot choose the best checkpoint if "
    "there are other kinds; use one of official, mean, sum, mood, same, alike",
}


@pytest.mark.parametrize(("change", "line"), WRONG.items(), ids=WRONG.keys())
def test_what_does_not_apply_is_refused_in_one_line(masked, tmp_path, capsys, change, line):
    for file in tmp_path.glob("*.csv"):
        file.write_text("not a table that could be read\n")  # told before any file is read
    assert train(masked, tmp_path / "run", "--set", change) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert line in said[0]
    assert not (tmp_path / "run").exists()


def test_of_two_mlm_tasks_alone_one_must_be_named_to_keep_by(only_masked):
    text = only_masked.read_text()
    second = text[text.index("[tasks.mlm]") : text.index("[train]")]
    only_masked.write_text(text + second.replace("tasks.mlm", "tasks.more"))
    with pytest.raises(UserError, match=r"keep = 'official': must be one of mlm, more"):
        read_settings(only_masked)
    assert prepared(only_masked, "train.keep=more").keep == "more"
