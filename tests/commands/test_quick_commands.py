"""Commands that only read import neither torch, which takes seconds, nor other large packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cotrunk.model.encoder.shape import NAMED
from cotrunk.model.weights.locate import MINILM, shape_of
from cotrunk.model.weights.pretrained import find

HEAVY = {"torch", "numpy", "scipy", "transformers", "pyarrow"}

SCRIPT = """
import json, sys
from cotrunk.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""


def modules_of(*arguments: object) -> set[str]:
    """What a new process has imported after a command."""
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["init", "--list"], ["plan", "--encoder", "S6 I6"], ["plan", "--pal", "204", "--json"]],
    ids=" ".join,
)
def test_a_command_that_only_reads_imports_nothing_heavy(arguments):
    assert not modules_of(*arguments) & HEAVY


def test_listing_presets_needs_no_checked_settings():
    assert not modules_of("init", "--list") & {"pydantic"}


@pytest.mark.slow
def test_init_writes_a_preset_without_torch(tmp_path):
    assert not modules_of("init", "-o", tmp_path / "run.toml") & HEAVY


@pytest.mark.slow
def test_verify_reads_a_run_without_torch(run):
    assert not modules_of("verify", run) & HEAVY


@pytest.mark.slow
def test_info_reads_a_run_without_torch(run):
    assert not modules_of("info", run) & HEAVY
    assert not modules_of("info", run, "--json") & HEAVY


@pytest.mark.slow
def test_plan_reads_a_config_without_torch(toy):
    assert not modules_of("plan", toy) & HEAVY


@pytest.mark.parametrize("weights", ["random:tiny", "random:bert-base"])
def test_the_shape_of_random_weights_is_that_of_its_name(weights, tmp_path):
    assert shape_of(weights, base=tmp_path) == NAMED[weights.partition(":")[2]]


@pytest.mark.slow
def test_the_shape_is_read_from_config_json_alone(tmp_path):
    found = find(MINILM, base=tmp_path)
    assert shape_of(MINILM, base=tmp_path) == found.shape
    assert found.tokenizer is not None
    copy = tmp_path / "mine"
    copy.mkdir()
    config = Path(found.tokenizer).with_name("config.json")
    (copy / "config.json").write_bytes(config.read_bytes())
    assert shape_of("mine", base=tmp_path) == found.shape
