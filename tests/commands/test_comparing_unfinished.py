"""compare: runs that were stopped early are not taken for complete ones."""

import csv
import io
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def shared(several_runs) -> Path:
    return several_runs / "shared"


@pytest.fixture
def stopped(several_runs, tmp_path) -> Path:
    """A run that a scheduler has stopped."""
    run = shutil.copytree(several_runs / "apart", tmp_path / "stopped")
    shutil.rmtree(run / "final")
    (run / "trial.json").write_text('{"steps": 120, "stopped": 3}')
    return run


def test_a_run_that_was_stopped_early_is_marked_and_noted(cotrunk, shared, stopped):
    marked = "(stopped at step 3 of 120)"
    for form in ([], ["--format", "markdown"], ["--format", "latex"]):
        shown = cotrunk("compare", shared, stopped, *form)
        assert f"stopped {marked}" in shown.out
        assert "1 of 3 runs not finished" in shown.out
        assert shown.err == ""
    (first, second) = csv.DictReader(
        io.StringIO(cotrunk("compare", shared, stopped, "--format", "csv").out)
    )
    assert (first["finished"], second["finished"]) == ("2", "0")


def test_a_baseline_that_was_stopped_early_deserves_a_warning(cotrunk, shared, stopped):
    shown = cotrunk("compare", stopped, shared)
    assert shown.err == (
        f"warning: the baseline, {stopped}, has not finished: stopped at step 3 of 120\n"
    )
    assert "not finished" not in cotrunk("compare", shared).out
