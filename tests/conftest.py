"""Fixtures for every test: nothing leaks from one to another, and a toy world lies ready."""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

import cotrunk
from toy import TOY, write_toy

# Helpers that assert say what differs, as tests do.
pytest.register_assert_rewrite("published", "sealed", "sources")
# On a busy machine drawing may take long; that says nothing about the code.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


SLOWEST = ("test_faults", "test_sweep_runs", "test_resume", "test_coverage", "test_report_page")
"""Files that take a minute or more."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files come first, so that at the end no process waits for another's."""
    items.sort(key=lambda item: item.path.stem not in SLOWEST)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another one, or the user, has cached."""
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """No test leaves another number of threads behind."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The path of a config that trains in seconds: three small tasks, a random tiny encoder."""
    return write_toy(tmp_path)


@pytest.fixture(scope="session")
def several_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs to compare, for reading only; copy a run before changing it.

    ``shared/1`` and ``shared/2`` differ in their seed, ``apart`` in what it shares, ``pairs`` has
    two of the three tasks, and ``other`` has other dev rows and classes of mood.
    """
    config = write_toy(tmp_path_factory.mktemp("several"))
    head, _, tail = TOY.partition("[tasks.same]")
    pairs = config.with_name("pairs.toml")
    pairs.write_text(f"{head.partition('[tasks.mood]')[0]}[tasks.same]{tail}", encoding="utf-8")
    lines = config.with_name("mood-dev.csv").read_text().splitlines(keepends=True)
    config.with_name("fewer-dev.csv").write_text("".join(lines[:21]), encoding="utf-8")
    other = ["tasks.mood.dev=fewer-dev.csv", "tasks.mood.classes=4"]
    folder = config.parent / "runs"
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of guards: three steps train nothing
        environment.setenv("COTRUNK_CACHE", str(config.parent / "cache"))
        for name, source, changes in (
            ("shared/1", config, ["train.seed=1"]),
            ("shared/2", config, ["train.seed=2"]),
            ("apart", config, ["sharing.encoder=I2"]),
            ("pairs", pairs, []),
            ("other", config, other),
        ):
            overrides = [*changes, "train.max_steps=3", "train.epochs=2"]
            cotrunk.train(source, folder / name, overrides=overrides)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; ``COTRUNK_BROWSER=required`` makes its absence a failure."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        missing = "no Chromium to open pages with; apt-get install chromium"
        if os.environ.get("COTRUNK_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()
