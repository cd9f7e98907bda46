"""predict: which rows and tasks are answered, in which format, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest
from calling import files, in_new_process

from faults.preload import shared
from toy import write_rows


@pytest.mark.slow
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
    assert "note: mood: skipped 1 bad row; first:" in said.err


@pytest.mark.slow
def test_predict_says_which_tasks_the_file_has_no_columns_for(cotrunk, run):
    said = cotrunk("predict", run, run.parent / "mood-dev.csv", "--json")
    assert "note: tasks are skipped" in said.err
    assert "same ('left' and 'right')" in said.err
    assert said.err.count("note: ") == 1
    assert set(said.document["rows"][0]) >= {"id", "mood"}


@pytest.mark.slow
def test_a_new_process_predicts_the_same_from_a_file_and_from_standard_input(cotrunk, run):
    rows = run.parent / "pair-dev.csv"
    here = cotrunk("predict", run, rows).out
    assert in_new_process("predict", run, rows).out == here
    assert shared().run("predict", run, "-", text=rows.read_text()).out == here


@pytest.mark.slow
def test_predict_answers_for_every_task_whose_columns_are_there(cotrunk, run):
    document = cotrunk("predict", run, run.parent / "pair-dev.csv", "--json").document
    assert len(document["rows"]) == 24
    assert list(document["rows"][0]) == ["id", "same", "alike"]
    one = cotrunk("predict", run, run.parent / "mood-dev.csv", "--task", "mood").out.splitlines()
    assert one[0] == "id,mood,mood_probability"
    assert [line.split(",")[0] for line in one[1:]] == [f"dev{i}" for i in range(24)]


@pytest.mark.slow
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


MEASURED = """
import re, sys
from cotrunk.cli.main import main
assert main(sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def megabytes_to_predict(run: Path, *, rows: int) -> float:
    """The most memory that ``predict -o`` takes for rows whose ids have 20,000 characters."""
    file, out = run.parent / "long.csv", run.parent / "out.csv"
    with file.open("w") as stream:
        stream.write("id,sentence\n")
        stream.writelines(f"{number:020000},good\n" for number in range(rows))
    asked = ["predict", str(run), str(file), "--task", "mood", "-o", str(out)]
    measured = [sys.executable, "-c", MEASURED, *asked]
    done = subprocess.run(measured, capture_output=True, text=True, check=True)
    assert out.stat().st_size > rows * 20_000
    return int(done.stdout) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_predict_does_not_hold_its_output_of_60_megabytes_in_memory(run):
    assert megabytes_to_predict(run, rows=3000) - megabytes_to_predict(run, rows=10) < 50


@pytest.mark.slow
def test_predict_writes_a_course_file_for_each_task(cotrunk, run):
    asked = ["predict", run, run.parent / "pair-dev.csv", "--format", "minbert"]
    document = cotrunk(*asked, "-o", "course", "--json").document
    assert document["files"] == {t: f"course/{t}-dev-output.csv" for t in ("same", "alike")}
    assert cotrunk(*asked, "--task", "same", "-o", "one.csv").code == 0
    assert Path("one.csv").read_bytes() == Path("course/same-dev-output.csv").read_bytes()


PREDICTIONS = [
    ("no such file", "nothing.csv", [], "nothing.csv: no such file"),
    ("a folder", "run", [], "run: is a folder; give a file"),
    ("an unknown format", "toy.toml", [], "the extension must be one of"),
    ("an empty file", "empty.csv", [], "empty.csv: the file is empty"),
    ("a file that is not text", "binary.csv", [], "is a binary file"),
    ("a file without the columns", "other.csv", [], "the columns are 'a', 'b', but mood reads"),
    ("a file without one task's", "mood-dev.csv", ["--task", "same"], "no column 'left'"),
    ("an unknown task", "mood-dev.csv", ["--task", "x"], "--task x: must be one of"),
    ("an empty text", "hole.csv", ["-o", "out.csv"], "hole.csv:3:1 (sentence): the text is empty"),
    ("a missing folder", "mood-dev.csv", ["-o", "no/out.csv"], "no such folder: no"),
    ("a folder to write", "mood-dev.csv", ["-o", "run"], "is a folder"),
    ("its own input", "mood-dev.csv", ["-o", "mood-dev.csv"], "is the input file"),
    ("an ending it cannot write", "mood-dev.csv", ["-o", "x.xls"], "one of .csv, .tsv, .jsonl"),
    (
        "a file for a folder",
        "pair-dev.csv",
        ["-o", "toy.toml", "--format", "minbert"],
        "minbert writes a file per task",
    ),
]


@pytest.mark.slow
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


@pytest.mark.slow
def test_errors_about_standard_input_call_it_that(run):
    said = shared().run("predict", run, "-", text="a,b\n1,2\n")
    assert said.code == 2
    assert said.err.startswith("error: standard input: the columns are 'a', 'b'")
