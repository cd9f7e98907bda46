"""A checkpoint of every kind of tensor, and how a damaged one is refused."""

import subprocess
import sys

import pytest
import torch

from cotrunk.runs.checkpoint import CheckpointDamaged, read_checkpoint

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]
DOCUMENTS = {"state": {"step": 3, "rate": 0.1 + 0.2, "name": "naïve\u2028", "best": None}}


def tensors():
    torch.manual_seed(0)
    return {
        "model": {
            "weight": torch.randn(7, 5),
            "half": torch.randn(9).to(torch.bfloat16),
            "double": torch.tensor([-0.0, float("inf"), 5e-324], dtype=torch.float64),
            "odd": torch.tensor([0x7FC01234, -1], dtype=torch.int32).view(torch.float32),
            "frozen": torch.tensor([True, False, True]),
            "empty": torch.empty(0, 3),
            "parameter": torch.nn.Parameter(torch.ones(2)),
        },
        "optimizer": {
            "step": torch.tensor(2**53 + 1),
            "random": torch.randint(0, 256, (40,), dtype=torch.uint8),
        },
    }


def refusal(folder):
    with pytest.raises(CheckpointDamaged) as caught:
        read_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{folder} is damaged: ")
    return caught.value


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True
    )
