"""``cotrunk verify``: sound runs, damaged ones, and what is no run."""

import pytest
from calling import in_new_process


@pytest.mark.slow
def test_a_finished_run_is_sound_and_all_its_files_are_counted(cotrunk, run):
    said = cotrunk("verify", run, "--json")
    files = [path for path in run.rglob("*") if path.is_file()]
    assert (said.code, said.document) == (0, {"files": len(files), "damaged": []})
    assert "all as recorded" in cotrunk("verify", run).out


@pytest.mark.slow
def test_all_damaged_files_are_named_with_a_reason(cotrunk, run):
    (run / "findings.json").unlink()
    weights = run / "final" / "model.safetensors"
    weights.unlink()  # it may be the same file as that of best
    weights.write_bytes(b"")
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b"{}\n")
    said = cotrunk("verify", run, "--json")
    damaged = {each["file"]: each["why"] for each in said.document["damaged"]}
    assert said.code == 1
    assert set(damaged) == {"findings.json", "final/model.safetensors", "metrics.jsonl"}
    assert damaged["findings.json"] == "no such file"
    shown = cotrunk("verify", run)
    assert shown.code == 1
    assert all(name in shown.out for name in damaged)


@pytest.mark.slow
def test_a_missing_seal_and_a_missing_network_are_damage(cotrunk, run):
    (run / "final").rename(run / "elsewhere")
    assert cotrunk("verify", run, "--json").document["damaged"][0]["file"] == "final"
    (run / "elsewhere").rename(run / "final")
    (run / "seal.json").unlink()
    damaged = cotrunk("verify", run, "--json").document["damaged"]
    assert damaged == [{"file": "seal.json", "why": "no such file"}]


@pytest.mark.slow
def test_without_the_hashes_documents_that_are_not_json_are_named_all_the_same(cotrunk, run):
    count = cotrunk("verify", run, "--json").document["files"]
    for name in ("run.json", "seal.json", "findings.json"):
        (run / name).write_text("{")
    document = cotrunk("verify", run, "--json").document
    damaged = {each["file"]: each["why"] for each in document["damaged"]}
    assert set(damaged) == {"run.json", "seal.json", "findings.json"}
    assert damaged["seal.json"] == "is not the record of sizes and hashes that training wrote"
    assert damaged["run.json"].startswith("is not JSON")
    assert document["files"] == count - 2
    *_, unchecked, last = cotrunk("verify", run).out.splitlines()
    assert unchecked == (
        "hashes not compared, because only seal.json has them: "
        "run.json, findings.json, metrics.jsonl, timing.jsonl"
    )
    assert last.endswith(": 3 damaged")


def test_what_is_no_run_is_refused(tmp_path):
    said = in_new_process("verify", tmp_path)
    assert said.code == 2
    assert "is not a run" in said.err
