"""Time and memory of gradient surgery, compared with a plain sum and other libraries."""

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from bench.peers import OneModel, PaddedSteps, loss_of
from bench.sides import Make, compare_apart
from bench.timing import Result, Work, ratio_of
from bench.training import several
from bench.work import Bench, Steps, batches, stage_of
from cotrunk.data.batches.packing import RowIndex, pack
from cotrunk.learn.stage import Stage
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.sharing.network import Network

CLS, PCGRAD = "encoder.pooling=cls", "train.gradients=pcgrad"
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


def our_steps(bench: Bench, *changes: str) -> Work:
    return several(Steps(stage_of(bench, *changes)))


def against_sum(bench: Bench) -> Iterator[Result]:
    ours, plain = partial(our_steps, bench, CLS, PCGRAD), partial(our_steps, bench, CLS)
    rounds = bench.rounds(15)
    yield compare_apart("pcgrad-time-of-sum", ours, plain, rounds=rounds, meaning="times")
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
    """Peak memory in MB. Not from ``getrusage``: a child inherits its parent's peak."""
    data = str(bench.data) if bench.data else None
    about = json.dumps([data, change, torch.get_num_threads()])
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, about], check=True, capture_output=True, text=True
    )
    return float(run.stdout.split()[-1])


def against_torchjd(bench: Bench) -> Iterator[Result]:
    ours, peer = partial(our_steps, bench, CLS, PCGRAD), partial(torchjd_steps, bench)
    yield compare_apart("pcgrad-against-torchjd", ours, peer, rounds=bench.rounds(6))


def torchjd_steps(bench: Bench) -> Work:
    """On our packed network, one task at a time: our custom backward does not support vmap.

    Without the word table, which saves the peer three gradients of its size.
    """
    from torchjd.aggregation import PCGrad
    from torchjd.autojac import jac_to_grad, mtl_backward

    stage = stage_of(bench, CLS)
    network = stage.network
    shared = [p for p in trunk_of(network) if len(p) != network.shape.vocabulary]
    heads = [list(network.head_of[task].parameters()) for task in network.tasks]

    def backward(losses: list[Tensor], features: list[Tensor]) -> None:
        mtl_backward(
            losses, features, tasks_params=heads, shared_params=shared, parallel_chunk_size=1
        )
        jac_to_grad(shared, PCGrad())

    return several(PackedSteps(stage, backward, together=False))


def against_flattening(bench: Bench) -> Iterator[Result]:
    """One backward per loss, flattened gradients, projected one by one.

    On `transformers` as in LibMTL; the same without the overhead of its trainer; and on our packed
    network with all rows in one pass, whose graph is retained for every loss.
    """
    peers: list[tuple[str, Make, int]] = [
        ("libmtl", partial(libmtl_steps, bench), 6),
        ("loss-by-loss", partial(libmtl_steps, bench, chained=False), 9),
        ("retained-packed", partial(flattened_packed_steps, bench), 6),
    ]
    ours = partial(our_steps, bench, CLS, PCGRAD)
    for name, peer, rounds in peers:
        yield compare_apart(f"pcgrad-against-{name}", ours, peer, rounds=bench.rounds(rounds))


def libmtl_steps(bench: Bench, *, chained: bool = True) -> Work:
    stage = stage_of(bench, CLS)
    return several(LibMTL(stage, OneModel(stage.network.shape), chained=chained))


def flattened_packed_steps(bench: Bench) -> Work:
    stage = stage_of(bench, CLS)
    trunk = trunk_of(stage.network)
    return several(PackedSteps(stage, lambda losses, _: flatten(losses, trunk), together=True))


class LibMTL(PaddedSteps):
    """A padded forward pass of `transformers` per task, and one backward per loss.

    LibMTL's trainer chains the graphs; if not ``chained``, each backward runs through its own only.
    """

    def __init__(self, stage: Stage, encoder: nn.Module, *, chained: bool) -> None:
        super().__init__(stage, encoder, "cls")
        self.chained = chained

    def __call__(self) -> None:
        losses = list(self.losses())
        if self.chained:
            losses = chain(losses)
        self.optimizer.zero_grad()
        flatten(losses, list(self.encoder.parameters()))
        self.optimizer.step()
        self.step += 1


def chain(losses: list[Tensor]) -> list[Tensor]:
    """The losses written into one tensor in place, as in LibMTL: each backward then runs through
    the graphs of all losses, which must be retained.
    """
    vector_K = torch.zeros(len(losses))
    for number, loss in enumerate(losses):
        vector_K[number] = loss
    return list(vector_K)


def flatten(losses: list[Tensor], trunk: list[nn.Parameter]) -> None:
    """As in LibMTL: each task's gradient is copied into a row and cleared in place, and the sum of
    the projected rows is written back.
    """
    gradient_KP = torch.zeros(len(losses), sum(p.numel() for p in trunk))
    for gradient_P, loss in zip(gradient_KP, losses, strict=True):
        loss.backward(retain_graph=loss is not losses[-1])
        found = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in trunk]
        gradient_P.copy_(torch.cat([grad.flatten() for grad in found]))
        for parameter, grad in zip(trunk, found, strict=True):
            parameter.grad = None if parameter.grad is None else grad.zero_()
    total_P = _projected(gradient_KP).sum(0)
    for parameter, part in zip(trunk, total_P.split([p.numel() for p in trunk]), strict=True):
        parameter.grad = part.view_as(parameter).clone()


def _projected(gradient_KP: Tensor) -> Tensor:
    projected_KP = gradient_KP.clone()
    for mine in projected_KP:
        for other in random.sample(list(gradient_KP), len(gradient_KP)):
            if (agreement := torch.dot(mine, other)) < 0:
                mine -= agreement * other / other.norm() ** 2
    return projected_KP


def trunk_of(network: Network) -> list[nn.Parameter]:
    return [p for name, p in network.named_parameters() if not name.startswith("heads.")]


class PackedSteps:
    """Steps on our network with another backward."""

    def __init__(
        self,
        stage: Stage,
        backward: Callable[[list[Tensor], list[Tensor]], None],
        *,
        together: bool,
    ) -> None:
        self.stage, self.backward, self.together, self.step = stage, backward, together, 0

    def __call__(self) -> None:
        network, masks = self.stage.network, DropoutStream(1, self.step)
        self.stage.optimizer.zero_grad()
        rows = list(batches(self.stage, self.step))
        if self.together:
            ids = [piece.numpy() for batch in rows for piece in batch.ids]
            segments = [piece.numpy() for batch in rows for piece in batch.segments]
            text = pack(ids, segments)
            (all_SD,) = network.encode(text, list(network.tasks), masks).values()
            features = list(all_SD[text.place_S].split([len(batch.ids) for batch in rows]))
        else:
            features = []
            for batch in rows:
                (x_SD,) = network.encode(batch.text, [batch.task], masks).values()
                features.append(x_SD[batch.text.place_S])
        losses = []
        for batch, x_RD in zip(rows, features, strict=True):
            index = RowIndex((torch.arange(len(x_RD)),))
            out = network.answer({frozenset([batch.task]): x_RD}, index, [batch.task], masks)
            losses.append(loss_of(batch.task, out[batch.task], batch.target_R))
        self.backward(losses, features)
        self.stage.optimizer.step()
        self.step += 1


FAMILY = {
    "pcgrad-of-sum": against_sum,
    "pcgrad-against-torchjd": against_torchjd,
    "pcgrad-against-flattening": against_flattening,
}
