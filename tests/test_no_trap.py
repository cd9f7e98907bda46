"""A saved network is not mistaken for a model of another library, or for published weights."""

import json

import pytest

from toy import train


@pytest.mark.slow
@pytest.mark.parametrize("which", ["best", "final"])
def test_transformers_refuses_to_open_the_network_of_a_run(toy, tmp_path, which):
    from transformers import AutoModel

    assert train(toy, tmp_path / "run") == 0
    with pytest.raises(ValueError, match="cotrunk"):
        AutoModel.from_pretrained(tmp_path / "run" / which)


@pytest.mark.slow
def test_the_network_of_a_run_as_pretrained_weights_is_answered_with_init_from(
    toy, capsys, cotrunk_line
):
    assert train(toy, toy.parent / "run") == 0
    capsys.readouterr()
    line = cotrunk_line("plan", toy, "--set", "encoder.weights=./run/best")
    assert "train.init_from" in line


@pytest.mark.slow
def test_a_saved_config_keeps_the_shape_of_the_encoder(toy, tmp_path):
    assert train(toy, tmp_path / "run") == 0
    config = json.loads((tmp_path / "run" / "best" / "config.json").read_text())
    assert config["encoder"]["num_hidden_layers"] == 2


@pytest.fixture
def cotrunk_line(capsys):
    """The one line of a refused command."""
    from cotrunk.cli.main import main

    def call(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return call
