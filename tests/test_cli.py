"""The command line itself: help, exit codes, and a reader that leaves early."""

import subprocess
import sys

import pytest

from cotrunk.cli.main import main

COMMANDS = ["demo", "init", "data check", "plan", "train", "evaluate", "predict", "info"]
COMMANDS += ["compare", "sweep", "report"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_a_command_is_for(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_help_needs_none_of_the_heavy_packages():
    heavy = {"torch", "numpy", "pydantic", "rich", "tokenizers", "scipy"}
    script = (
        "import sys, cotrunk.cli.main\n"
        "try: cotrunk.cli.main.main(['train', '--help'])\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "cotrunk", "init", "--list"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    worker.stdout.close()
    worker.stdout = None
    _, said = worker.communicate(timeout=60)
    assert (worker.returncode, said) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        ([], "error: cotrunk: the following arguments are required: COMMAND"),
        (["tran"], "found 'tran'; did you mean 'train'?"),
        (["train"], "error: cotrunk train: the following arguments are required: CONFIG"),
        (["data"], "required: ACTION"),
        (["plan", "--pal", "x"], "plan: --pal: must be a whole number; found 'x'"),
        (["compare", "run", "--margin", "x"], "compare: --margin: must be a number; found 'x'"),
        (["serve", "run", "--port", "99999"], "serve: --port: must be a number from 0 to 65535"),
        (["evaluate", "run", "--worst", "-1"], "--worst"),
        (["info", "run", "--jsn"], "unrecognized arguments: --jsn"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_exits_with_2(arguments, finding, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: cotrunk")
    assert finding in said.err
    assert said.err.count("\n") == 1
