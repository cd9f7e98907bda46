"""The toy world with masked words as a fourth task."""

from pathlib import Path

import numpy as np
import pytest

from toy import sentence

MLM = '[tasks.mlm]\nkind = "mlm"\ntexts_of = ["mood", "same", "alike"]\n\n'


@pytest.fixture
def masked(toy: Path) -> Path:
    """The toy config with an mlm task on the texts of the others; text files lie beside it."""
    random = np.random.default_rng(1)
    for split, count in (("train", 30), ("dev", 20)):
        lines = "\n\n".join(sentence(random) for _ in range(count))
        (toy.parent / f"lines-{split}.txt").write_text(lines, encoding="utf-8")
    toy.write_text(toy.read_text().replace("[train]", f"{MLM}[train]"))
    return toy


@pytest.fixture
def only_masked(masked: Path) -> Path:
    """Nothing but an mlm task, on text files."""
    text = masked.read_text()
    head, tail = text[: text.index("[tasks.mood]")], text[text.index("[train]") :]
    files = 'train = "lines-train.txt"\ndev = "lines-dev.txt"\n'
    masked.write_text(f'{head}[tasks.mlm]\nkind = "mlm"\n{files}\n{tail}')
    return masked
