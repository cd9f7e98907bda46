"""One table of sharing schemes, for all tests that claim something about every one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.batches.packing import Packed, RowIndex
from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import named
from cotrunk.model.head_plan import HeadPlan, Read
from cotrunk.model.sharing.low_rank_plan import LowRankPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.partition import parse_partition, parse_partitions
from cotrunk.model.sharing.places import ProjectedPlan, trunk_places
from cotrunk.model.sharing.plan import Plan, make_plan
from cotrunk.model.weights.initial import generator, initialise

# Not in alphabetical order: names in checkpoints must not depend on it.
TASKS = (
    Task("sst", 1, Classes(("bad", "so-so", "good"))),
    Task("rude", 1, Binary()),
    Task("para", 2, Binary()),
    Task("sts", 2, Scores(range=(0.0, 5.0))),
)
NAMES = [task.name for task in TASKS]
TEMPLATE = Template(begin=(2,), between=(3,), end=(3,), segment_of_second=1)
SHAPE = replace(named("tiny", "test"), layers=3, vocabulary=60, positions=40)
LINEAR = HeadPlan()


@dataclass(frozen=True)
class Pal:
    who: str = "I"
    size: int = 8
    heads: int = 2
    depths: tuple[int, ...] = (0, 1, 2)
    gelu: bool = False
    bias: bool = False


@dataclass(frozen=True)
class Lora:
    who: str = "I"
    on: tuple[str, ...] = ("query", "key", "value", "out", "up", "down")
    depths: tuple[int, ...] = (0, 1, 2)
    rank: int = 2
    alpha: float = 3
    dropout: float = 0.0


@dataclass(frozen=True, eq=False)
class Scheme:
    encoder: str = "S3"
    embeddings: str | None = None
    pooler: str | None = None
    neck: str = ""
    pooled_norm: str | None = None
    pal: Pal | None = None
    lora: Lora | None = None
    heads: dict[str, HeadPlan] = field(default_factory=dict)
    swap: bool = False

    def plan(self, tasks: Sequence[Task] = TASKS) -> Plan:
        names = [task.name for task in tasks]
        trunk = trunk_places(
            names,
            SHAPE,
            encoder=self.encoder,
            embeddings=self.embeddings,
            pooler=self.pooler,
            neck=self.neck,
            pooled_norm=self.pooled_norm,
            projected=self.pal and projected(self.pal, names),
            low_rank=self.lora and low_rank(self.lora, names),
        )
        return make_plan(trunk, SHAPE, tasks, {name: self.head(name) for name in names})

    def head(self, task: str) -> HeadPlan:
        return self.heads.get(task, LINEAR)

    def pair_format(self, task: Task) -> PairFormat:
        joined = not self.head(task.name).separate
        return PairFormat(task.texts, joined, swapped=self.swap and task.texts == 2)

    def all_shared(self) -> "Scheme":
        """The same modules, each with one owner: all tasks."""
        depths = len(parse_partitions(self.neck, NAMES, place="neck"))
        return replace(
            self,
            encoder="S3",
            embeddings=None,
            pooler=None,
            neck="S" * bool(depths) + f"{depths or ''}",
            pooled_norm=self.pooled_norm and "S",
            pal=self.pal and replace(self.pal, who="S"),
            lora=self.lora and replace(self.lora, who="S"),
        )


def projected(pal: Pal, names: Sequence[str]) -> ProjectedPlan:
    who = parse_partition(pal.who, names, place="who")
    return ProjectedPlan(who, pal.size, pal.heads, pal.depths, pal.gelu, pal.bias)


def low_rank(lora: Lora, names: Sequence[str]) -> LowRankPlan:
    who = parse_partition(lora.who, names, place="who")
    return LowRankPlan(who, lora.rank, lora.alpha, lora.on, lora.depths, lora.dropout)


def pooled(*kinds: str) -> dict[str, HeadPlan]:
    return {name: HeadPlan(pooling=kind) for name, kind in zip(NAMES, kinds, strict=True)}


def reading(
    what: str = "logits",
    gradient: str | float = "stop",
    *,
    combine: str = "concat",
    pair: str = "concat",
) -> dict[str, HeadPlan]:
    """rude reads sst, para reads sst, sts reads rude and para: chains of one text and of two."""

    def head(*sources: str, pair: str = "joined") -> HeadPlan:
        reads = tuple(Read(source, what, gradient) for source in sources)
        return HeadPlan(pair=pair, depth=2, width=6, reads=reads, combine=combine)

    return {
        "sst": head(),
        "rude": head("sst"),
        "para": head("sst", pair=pair),
        "sts": head("rude", "para", pair=pair),
    }


MOPS = pooled("pooler", "pooler", "pooler", "pooler") | {
    "para": HeadPlan(pooling="pooler", pair="sum"),
    "sts": HeadPlan(pooling="pooler", pair="cosine", projection=True),
}

SCHEMES = {
    "1-bert": Scheme(),
    "3-bert": Scheme("I3"),
    "hybrid": Scheme("S2 I"),
    "hybrid with poolers": Scheme("S2 I", heads=pooled(*["pooler"] * 4)),
    "own embeddings": Scheme("S3", embeddings="I", pooler="I", heads=pooled(*["pooler"] * 4)),
    "shared embeddings": Scheme("I3", embeddings="S", pooler="S", heads=pooled(*["pooler"] * 4)),
    "subset": Scheme("S (para+sts) I"),
    "two groups": Scheme("(sst+rude|para+sts)3"),
    "late": Scheme("I S2"),
    "in between": Scheme("S I S"),
    "crossing groups": Scheme("(sst+para) (para+sts) (rude+sts)"),
    "pair features": Scheme(
        "S2 I", heads={"para": HeadPlan(pair="all"), "sts": HeadPlan(pair="hadamard")}
    ),
    "pooled alike": Scheme("S2 I", heads=pooled("cls", "cls", "cls", "cls")),
    "pooled differently": Scheme("S2 I", heads=pooled("pooler", "cls", "max", "sum")),
    "one of a pooler's owners": Scheme("S3", heads=pooled("pooler", "mean", "mean", "mean")),
    "neck I-I-I": Scheme(neck="I-I-I", heads=MOPS),
    "neck S-S-S": Scheme(neck="S-S-S", heads=MOPS),
    "neck I-S-S": Scheme(neck="I-S-S", heads=MOPS),
    "neck S-I-I-S": Scheme("S2 I", neck="S-I-I-S", heads=MOPS),
    "neck subset": Scheme(neck="I (para+sts)2", heads=MOPS),
    "neck two groups": Scheme(neck="(sst+rude|para+sts) S", heads=MOPS),
    "norm S": Scheme("S2 I", pooled_norm="S", heads=MOPS),
    "norm I and neck": Scheme(pooled_norm="I", neck="S", heads=MOPS),
    "pal I": Scheme(pal=Pal("I")),
    "pal S": Scheme("S2 I", pal=Pal("S")),
    "pal of a subset": Scheme(pal=Pal("(para+sts)")),
    "pal beside 3-bert": Scheme("I3", pal=Pal("I")),
    "pal with gelu and bias": Scheme("S2 I", pal=Pal("I", gelu=True, bias=True)),
    "pal on some layers": Scheme(pal=Pal("I", depths=(0, 2)), heads=pooled(*["cls"] * 4)),
    "pal below the top": Scheme(pal=Pal("I", depths=(1,)), heads=pooled(*["pooler"] * 4)),
    "pal S, pooled differently": Scheme(
        "S2 I", pal=Pal("S"), heads=pooled("pooler", "cls", "mean", "sum")
    ),
    "lora I": Scheme(lora=Lora("I")),
    "lora S": Scheme("S2 I", lora=Lora("S")),
    "lora of a subset": Scheme(lora=Lora("(para+sts)", on=("query", "value"))),
    "lora across layers": Scheme("(sst+para) (para+sts) I", lora=Lora("(sst+sts)")),
    "lora on some layers": Scheme(lora=Lora(depths=(0, 2)), heads=pooled(*["cls"] * 4)),
    "lora, pooled differently": Scheme(lora=Lora(), heads=pooled("pooler", "cls", "mean", "sum")),
    "lora with dropout": Scheme("S2 I", lora=Lora(dropout=0.3), heads=pooled(*["pooler"] * 4)),
    "lora and pal": Scheme(
        pal=Pal("S"), lora=Lora("I"), heads=pooled("pooler", "cls", "mean", "sum")
    ),
    "lora beside pals of others": Scheme(
        "S2 I", pal=Pal("(sst+para)"), lora=Lora("(para+sts)"), heads=pooled(*["cls"] * 4)
    ),
    "reads through lora": Scheme(lora=Lora("I"), heads=reading(gradient="frozen")),
    "reads, stop": Scheme("I3", heads=reading()),
    "reads, frozen": Scheme("I3", heads=reading(gradient="frozen")),
    "reads, flow": Scheme("I3", heads=reading(gradient="flow")),
    "reads, factor": Scheme("I3", heads=reading(gradient=0.25)),
    "reads, factor 0": Scheme("I3", heads=reading(gradient=0.0)),
    "reads probabilities": Scheme("S2 I", heads=reading("probabilities", "flow")),
    "reads hidden": Scheme("I3", heads=reading("hidden", "flow")),
    "reads hidden, frozen": Scheme("I3", heads=reading("hidden", "frozen")),
    "reads by attention": Scheme("I3", heads=reading(gradient="flow", combine="attention")),
    "reads hidden by attention": Scheme("S3", heads=reading("hidden", combine="attention")),
    "reads, joined": Scheme("I3", heads=reading(gradient="frozen", pair="joined")),
    "reads frozen what flows": Scheme(
        "I3",
        heads=reading(gradient="flow")
        | {"sts": HeadPlan(pair="concat", reads=(Read("rude", gradient="frozen"), Read("para")))},
    ),
    "reads, shared, norm, neck": Scheme(
        "S3", neck="S-I", pooled_norm="S", heads=reading(gradient="frozen")
    ),
    "reads beside a pal": Scheme(pal=Pal("(para+sts)"), heads=reading(gradient="frozen")),
    "swap": Scheme("S2 I", swap=True),
    "swap and reads": Scheme("S2 I", heads=reading(gradient="flow", pair="joined"), swap=True),
}


def network_of(scheme: Scheme, tasks: Sequence[Task] = TASKS, *, device: str = "cpu") -> Network:
    names = [task.name for task in tasks]
    heads = {name: scheme.head(name) for name in names}
    with torch.device(device):
        return Network(SHAPE, scheme.plan(tasks), tasks, heads).double()


def filled(network: Network, *, seed: int = 0) -> Network:
    """All numbers drawn, those that would start at 0 or 1 too, and all copies equal."""
    tensors: dict[str, Tensor] = {}
    for place, owned in network.places():
        for copy in owned.values():
            for name, parameter in copy.named_parameters():
                key = f"{place.name}.{name}"
                drawn = torch.randn(parameter.shape, generator=generator(seed, key))
                tensors[key] = 0.3 * drawn + float(name.endswith("norm.weight"))
    initialise(network, tensors, seed=seed)
    return network


def texts(
    task: Task, pair_format: PairFormat, *, rows: int = 3, seed: int = 0
) -> tuple[Packed, RowIndex]:
    random = np.random.default_rng([seed, task.texts])

    def piece() -> np.ndarray:
        return random.integers(5, 60, size=random.choice([1, 4, 9]))

    pieces = [tuple(piece() for _ in range(task.texts)) for _ in range(rows)]
    return pack_rows(TEMPLATE, pieces, pair_format)
