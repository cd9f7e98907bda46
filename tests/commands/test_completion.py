"""Shell completion: what bash offers with the script that the command prints."""

import shutil
import subprocess
from pathlib import Path

import pytest
from calling import in_new_process
from test_quick_commands import HEAVY, modules_of

ASK = """
source "$0"
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
"$(complete -p cotrunk | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" 2> /dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    said = in_new_process("completion", "bash")
    assert said.code == 0, said.err
    path = tmp_path_factory.mktemp("completion") / "cotrunk.bash"
    path.write_text(said.out, encoding="utf-8")
    return path


def offered(script: Path, *words: str, folder: Path | None = None) -> set[str]:
    """What bash offers for the last word."""
    command = ["bash", "--norc", "-c", ASK, str(script), "cotrunk", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["eva"], {"evaluate"}),
        (["data", ""], {"check"}),
        (["train", "--res"], {"--resume"}),
        (["train", "run.toml", "--set", "train.epochs=1", "train.batch=8", "--f"], {"--force"}),
        (["evaluate", "runs/x", "--split", ""], {"train", "dev", "test"}),
        (["evaluate", "runs/x", "--split", "d"], {"dev"}),
        (["init", "--preset", "hybrid-p"], {"hybrid-pcgrad"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_bash_offers_commands_options_and_choices(script, words, wanted):
    assert offered(script, *words) == wanted


def test_bash_offers_files_for_a_config_and_folders_for_a_run(script, tmp_path):
    (tmp_path / "one.toml").touch()
    (tmp_path / "one-run").mkdir()
    assert offered(script, "train", "on", folder=tmp_path) == {"one.toml", "one-run"}
    assert offered(script, "evaluate", "on", folder=tmp_path) == {"one.toml", "one-run"}
    assert offered(script, "info", "on", folder=tmp_path) == {"one-run"}
    assert offered(script, "train", "one.toml", "--out", "on", folder=tmp_path) == {"one-run"}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed_without_torch_and_is_valid_there(shell):
    assert not modules_of("completion", shell) & (HEAVY | {"pydantic", "numpy"})
    if path := shutil.which(shell):
        said = in_new_process("completion", shell)
        assert "predict" in said.out
        subprocess.run([path, "-n"], input=said.out, text=True, check=True)


def test_another_shell_is_one_line():
    said = in_new_process("completion", "csh")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "bash, zsh, fish" in said.err
