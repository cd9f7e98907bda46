"""The command line itself: help, exit codes, and a reader that leaves early."""

import subprocess
import sys

import pytest

from cotrunk.cli.main import main

COMMANDS = ["demo", "init", "data check", "plan", "train", "evaluate", "predict", "info"]


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


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "cotrunk", "init", "--list"]
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
