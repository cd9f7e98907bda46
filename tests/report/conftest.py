"""Runs of two plans to report on, trained once, and the report on them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from parsed import HOSTILE

from toy import TOY, sentence, train, write_rows


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A folder with the runs shared-1, shared-2, split-1 and ``HOSTILE``, and their data."""
    root = tmp_path_factory.mktemp("reported")
    random = np.random.default_rng(0)
    for split, count in (("train", 40), ("dev", 24)):
        single = [[f"{split}{i}", f"{sentence(random)} {HOSTILE}", i % 3] for i in range(count)]
        write_rows(root / f"mood-{split}.csv", ["id", "sentence", "mood"], single)
        pairs = [[i, sentence(random), sentence(random), i % 2, i % 6] for i in range(count)]
        header = ["id", "left", "right", "same", "alike"]
        write_rows(root / f"pair-{split}.csv", header, pairs)
    config = root / "toy.toml"
    config.write_text(TOY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COTRUNK_CACHE", str(root / "cache"))
        shared = ["sharing.encoder=S2", "train.gradients=pcgrad", "train.steps_per_epoch=6"]
        runs = {
            "shared-1": [*shared, "train.seed=1"],
            "shared-2": [*shared, "train.seed=2"],
            HOSTILE: ["sharing.encoder=I2", "train.steps_per_epoch=6", "train.seed=1"],
        }
        for name, changes in runs.items():
            assert train(config, root / "runs" / name, "--set", *changes) == 0
    return root


@pytest.fixture
def runs(trained, tmp_path) -> Path:
    """A copy of the runs for tests that change them; their data stay where they were."""
    return shutil.copytree(trained / "runs", tmp_path / "runs")
