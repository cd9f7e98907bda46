"""Fixtures for every test: nothing leaks from one to another, and a toy world lies ready."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from toy import TOY, sentence, write_rows

# Helpers that assert say what differs, as tests do.
pytest.register_assert_rewrite("published", "sealed", "sources")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


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
    random = np.random.default_rng(0)
    for split, count in (("train", 40), ("dev", 24)):
        single = [[f"{split}{i}", sentence(random), i % 3] for i in range(count)]
        write_rows(tmp_path / f"mood-{split}.csv", ["id", "sentence", "mood"], single)
        pairs = [[i, sentence(random), sentence(random), i % 2, i % 6] for i in range(count)]
        header = ["id", "left", "right", "same", "alike"]
        write_rows(tmp_path / f"pair-{split}.csv", header, pairs)
    config = tmp_path / "toy.toml"
    config.write_text(TOY, encoding="utf-8")
    return config
