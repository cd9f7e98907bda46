"""The sets of tasks on which recipes are compared (``python -m tools.recipes``)."""

from pathlib import Path

from cotrunk.cli.main import main
from tools.recipes.sets import make_set


def test_a_set_has_a_config_that_can_be_trained(tmp_path, capsys):
    config = make_set("sample", Path("no course files"), tmp_path / "sample")
    assert main(["plan", str(config), "--set", "encoder.weights=random:tiny", "--json"]) == 0
    assert "similarity" in capsys.readouterr().out
