"""The price of gradient surgery, in time and memory, beside two other ways to do it."""

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.peers import OneModel, PaddedSteps, loss_of, padded
from bench.timing import Result, Work, compare, ratio_of
from bench.training import several
from bench.work import Bench, Rows, Steps, batches, stage_of
from cotrunk.data.packing import Sides, pack
from cotrunk.learn.state import Stage
from cotrunk.model.noise import Noise

PCGRAD = "train.gradients=pcgrad"
MEMORY = """
import sys, torch, pathlib, json
from bench.work import Bench, Steps, stage_of
data, change, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
steps = Steps(stage_of(Bench(data and pathlib.Path(data), True), change))
for _ in range(4): steps()
status = pathlib.Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def against_sum(bench: Bench) -> Iterator[Result]:
    ours, plain = Steps(stage_of(bench, PCGRAD)), Steps(stage_of(bench))
    a, b = several(ours), several(plain)
    yield compare("pcgrad-time-of-sum", a, b, rounds=bench.rounds(9), meaning="times")
    mine, other = [], []
    for _ in range(1 if bench.quick else 3):
        mine.append(_peak(bench, PCGRAD))
        other.append(_peak(bench, "train.gradients=sum"))
    ratio, low, high = ratio_of(mine, other, busy=False)
    yield Result(
        "pcgrad-memory-of-sum", statistics.median(mine), statistics.median(other), ratio, low, high,
        "times", "MB at most", len(mine),
    )  # fmt: skip


def _peak(bench: Bench, change: str) -> float:
    """MB. Not from ``getrusage``: there a child starts at the peak of its parent."""
    data = str(bench.data) if bench.data else None
    about = json.dumps([data, change, torch.get_num_threads()])
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, about], check=True, capture_output=True, text=True
    )
    return float(run.stdout.split()[-1])


def against_torchjd(bench: Bench) -> Iterator[Result]:
    """On our own packed network, one task at a time: its derivatives are not made for vmap.

    The word table is left out, which spares the peer three gradients of its size.
    """
    from torchjd.aggregation import PCGrad
    from torchjd.autojac import jac_to_grad, mtl_backward

    stage = stage_of(bench)
    heads, trunk = _split(stage)
    shared = [p for p in trunk if len(p) != stage.network.shape.vocabulary]

    def backward(losses: list[Tensor], features: list[Tensor]) -> None:
        tasks = [list(stage.network.heads.copy_of(task).parameters()) for task in heads]
        mtl_backward(
            losses, features, tasks_params=tasks, shared_params=shared, parallel_chunk_size=1
        )
        jac_to_grad(shared, PCGrad())

    ours, peer = several(Steps(stage_of(bench, PCGRAD))), several(_Apart(stage, backward))
    yield compare("pcgrad-against-torchjd", ours, peer, rounds=bench.rounds(6))


def against_flattening(bench: Bench) -> Iterator[Result]:
    """A gradient of each loss by itself, flattened, projected one by one (LibMTL's way).

    Once on `transformers` with a padded forward pass of each task; once with all rows in one
    padded pass, whose graph must be kept for every loss; and once on our packed network, again
    in one pass.
    """
    stage = stage_of(bench, "encoder.pooling=cls")
    _, trunk = _split(stage)
    one_by_one = Flattened(stage, OneModel(stage.network.shape), together=False)
    in_one = Flattened(stage, OneModel(stage.network.shape), together=True)
    packed = _Apart(stage, lambda losses, _: flatten(losses, trunk), together=True)
    peers: list[tuple[str, Work, int]] = [
        ("libmtl", one_by_one, 15),
        ("retained", in_one, 4),
        ("retained-packed", packed, 6),
    ]
    for name, peer, rounds in peers:
        ours = Steps(stage_of(bench, "encoder.pooling=cls", PCGRAD))
        a, b = several(ours), several(peer)
        yield compare(f"pcgrad-against-{name}", a, b, rounds=bench.rounds(rounds))


class Flattened(PaddedSteps):
    """Padded passes of `transformers`, each loss going back alone."""

    def __init__(self, stage: Stage, encoder: nn.Module, *, together: bool) -> None:
        super().__init__(stage, encoder, "cls")
        self.together = together

    def losses(self) -> Iterator[Tensor]:
        if not self.together:
            yield from super().losses()
            return
        rows = list(batches(self.stage, self.step))
        every = Rows(
            "sst",
            rows[0].text,
            [ids for batch in rows for ids in batch.ids],
            [segments for batch in rows for segments in batch.segments],
            rows[0].target_R,
        )
        hidden: Tensor = self.encoder("sst", *padded(every))
        for batch, x in zip(rows, hidden[:, 0].split([len(b.ids) for b in rows]), strict=True):
            out = self.heads[batch.task](F.dropout(x, 0.1))
            yield loss_of(batch.task, out, batch.target_R)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        flatten(list(self.losses()), list(self.encoder.parameters()))
        self.optimizer.step()
        self.step += 1


def flatten(losses: list[Tensor], trunk: list[nn.Parameter]) -> None:
    gradients = []
    for loss in losses:
        for parameter in trunk:
            parameter.grad = None
        loss.backward(retain_graph=True)
        flat = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in trunk]
        gradients.append(torch.cat([gradient.flatten() for gradient in flat]))
    total = torch.stack(_projected(gradients)).sum(0)
    for parameter, part in zip(trunk, total.split([p.numel() for p in trunk]), strict=True):
        parameter.grad = part.view_as(parameter)


def _projected(gradients: list[Tensor]) -> list[Tensor]:
    projected = [gradient.clone() for gradient in gradients]
    for mine in projected:
        for other in random.sample(gradients, len(gradients)):
            if (agreement := torch.dot(mine, other)) < 0:
                mine -= agreement * other / other.norm() ** 2
    return projected


def _split(stage: Stage) -> tuple[list[str], list[nn.Parameter]]:
    network = stage.network
    trunk = [p for name, p in network.named_parameters() if not name.startswith("heads.")]
    return list(network.tasks), trunk


class _Apart:
    """Steps on our network in which another way of going back is used."""

    def __init__(self, stage: Stage, backward: object, *, together: bool = False) -> None:
        self.stage, self.backward, self.together, self.step = stage, backward, together, 0

    def __call__(self) -> None:
        network, noise = self.stage.network, Noise(1, self.step)
        self.stage.optimizer.zero_grad()
        rows = list(batches(self.stage, self.step))
        if self.together:
            ids = [piece.numpy() for batch in rows for piece in batch.ids]
            segments = [piece.numpy() for batch in rows for piece in batch.segments]
            text = pack(ids, segments)
            (all_SD,) = network.encode(text, list(network.tasks), noise).values()
            features = list(all_SD[text.place_S].split([len(batch.ids) for batch in rows]))
        else:
            features = []
            for batch in rows:
                (x_SD,) = network.encode(batch.text, [batch.task], noise).values()
                features.append(x_SD[batch.text.place_S])
        losses = []
        for batch, x_RD in zip(rows, features, strict=True):
            sides = Sides((torch.arange(len(x_RD)),))
            out = network.answer({frozenset([batch.task]): x_RD}, sides, [batch.task], noise)
            losses.append(loss_of(batch.task, out[batch.task], batch.target_R))
        assert callable(self.backward)
        self.backward(losses, features)
        self.stage.optimizer.step()
        self.step += 1


FAMILY = {
    "pcgrad-of-sum": against_sum,
    "pcgrad-against-torchjd": against_torchjd,
    "pcgrad-against-flattening": against_flattening,
}
