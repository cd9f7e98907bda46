"""Tasks and a tiny network for planted faults."""

import numpy as np
import torch

from cotrunk.data.batches.packing import Packed, RowIndex, pack
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.initial import initialise

SST = Task("sst", 1, Classes(("0", "1", "2", "3", "4")))
PARA = Task("para", 1, Binary())
STS = Task("sts", 1, Scores(range=(0, 5.0)))
PAIR = Task("sts", 2, Scores(range=(0, 5.0)))
TASKS = (SST, PARA, STS)
TINY = Shape("bert", 2, 8, 2, 12, 40, 20, 2, 0, True, 1e-12, 0.1, 0.1)


def tiny(plan: str = "S1 I1", **heads: HeadPlan) -> Network:
    names = [task.name for task in TASKS]
    plans = {name: HeadPlan(depth=2, width=6, dropout=0.0) for name in names} | heads
    trunk = trunk_places(names, TINY, encoder=plan)
    network = Network(TINY, make_plan(trunk, TINY, TASKS, plans), TASKS, plans)
    initialise(network, {}, seed=1)
    return network


def batch(seed: int = 0, rows: int = 6) -> tuple[Packed, RowIndex]:
    random = np.random.default_rng(seed)
    tokens = [random.integers(0, 40, size=n) for n in random.integers(2, 9, size=rows)]
    text = pack(tokens, [np.zeros(len(t), np.int64) for t in tokens])
    return text, RowIndex((text.place_S,))


def targets(task: Task, rows: int = 6) -> torch.Tensor:
    return torch.arange(rows) % (2 if task.outputs == 1 and task.labels.span is None else 5) * 1.0


def rounded_mse(output_RO: torch.Tensor, target_R: torch.Tensor) -> torch.Tensor:
    """What MOPS trained paraphrases with: no gradient passes a rounding."""
    return (output_RO[:, 0].sigmoid().round() - target_R).square()
