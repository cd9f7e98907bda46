"""evaluate and predict with 8-bit layers."""

from collections.abc import Iterator

import pytest
import torch
from calling import TASKS
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from toy import write_rows

INT8 = "fbgemm" in torch.backends.quantized.supported_engines
needs_x86 = pytest.mark.skipif(not INT8, reason="this torch has no fbgemm")


@pytest.mark.slow
@needs_x86
def test_evaluate_int8_says_what_is_lost_and_what_is_gained(cotrunk, run):
    document = cotrunk("evaluate", run, "--int8", "--json").document
    assert list(document) == ["tasks", "overall", "split", "networks", "int8"]
    plain = cotrunk("evaluate", run, "--json").document
    assert {key: document[key] for key in plain} == plain
    int8 = document["int8"]
    assert list(int8) == ["tasks", "overall", "cpu_seconds", "times_less"]
    for task, rough in int8["tasks"].items():
        exact = document["tasks"][task]
        assert list(rough) == [
            *(key for key in exact if key != "files"),
            *("difference", "changed", "changed_is"),
        ]
        assert rough["difference"] == pytest.approx(rough["score"] - exact["score"])
        assert 0 <= rough["changed"] <= (5 if task == "alike" else 1)
    assert int8["tasks"]["alike"]["changed"] > 0
    spent = int8["cpu_seconds"]
    assert int8["times_less"] == pytest.approx(spent["float32"] / spent["int8"])
    shown = cotrunk("evaluate", run, "--int8").out
    assert [line.split()[0] for line in shown.splitlines()[2:5]] == TASKS
    assert "CPU seconds: int8 " in shown


@pytest.mark.slow
@needs_x86
def test_predict_int8_answers_nearly_as_float32(cotrunk, run):
    asked = ["predict", run, run.parent / "pair-dev.csv", "--json"]
    exact, rough = cotrunk(*asked).document["rows"], cotrunk(*asked, "--int8").document["rows"]
    assert [row["id"] for row in rough] == [row["id"] for row in exact]
    assert rough != exact
    alike = [row["alike"]["prediction"] for row in exact]
    assert [row["alike"]["prediction"] for row in rough] == pytest.approx(alike, abs=0.1)


@pytest.fixture
def computed() -> Iterator[list[nn.Module]]:
    """Every module that torch calls, in order."""
    called: list[nn.Module] = []
    hook = register_module_forward_pre_hook(lambda module, _: called.append(module))
    yield called
    hook.remove()


@pytest.mark.slow
def test_int8_is_refused_where_it_cannot_run_before_anything_is_computed(
    cotrunk, computed, run, monkeypatch
):
    assert computed  # by the training of the run: the hook is there
    computed.clear()
    monkeypatch.setattr("cotrunk.infer.int8.ENGINE", "abacus")
    for command in (["evaluate", run], ["predict", run, run.parent / "mood-dev.csv"]):
        said = cotrunk(*command, "--int8")
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("error: int8 needs torch's abacus")
        assert len(said.err.splitlines()) == 1
        assert not computed


@pytest.mark.slow
@needs_x86
def test_int8_has_no_difference_of_a_correlation_that_does_not_exist(cotrunk, toy):
    header = ["id", "left", "right", "same", "alike"]
    write_rows(toy.parent / "pair-dev.csv", header, [[i, "a", f"b {i}", 1, 2] for i in range(5)])
    settings = ["--set", "train.max_steps=1", "tasks.same.sparse_labels=false"]
    assert cotrunk("train", toy, "--out", "run", *settings).code == 0
    int8 = cotrunk("evaluate", "run", "--int8", "--json").document["int8"]
    assert int8["tasks"]["alike"]["difference"] is None
    lines = cotrunk("evaluate", "run", "--int8").out.splitlines()
    (alike,) = (line.split() for line in lines if line.startswith("alike"))
    assert alike[1:4] == ["-", "-", "-"]
