"""How many parameters a plan has and where, by arithmetic alone: no weights, no tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotrunk.model.encoder.shape import Shape, parameters
from cotrunk.model.sharing.plan import ENCODER, Partition, Plan

FLOAT_BYTES = 4
MOMENTS = 2
PARTS = ("embeddings", "layers", "pooler", "neck", "pal", "heads")


@dataclass(frozen=True)
class Entry:
    """One place of the network: ``each`` parameters for every group."""

    part: str
    place: str
    partition: Partition
    each: int

    @property
    def total(self) -> int:
        return self.each * len(self.partition)


@dataclass(frozen=True)
class ParameterTable:
    tasks: tuple[str, ...]
    entries: tuple[Entry, ...]
    frozen: frozenset[str]

    def total(self, part: str) -> int:
        return sum(entry.total for entry in self.entries if entry.part == part)

    @property
    def parameters(self) -> dict[str, int]:
        by_part = {part: self.total(part) for part in PARTS}
        return {**by_part, "total": sum(by_part.values())}

    @property
    def bytes(self) -> dict[str, int]:
        """``checkpoint`` holds the weights and, of those that train, AdamW's two moments."""
        everything = self.parameters["total"]
        trained = sum(entry.total for entry in self.entries if entry.part not in self.frozen)
        return {
            "weights": FLOAT_BYTES * everything,
            "checkpoint": FLOAT_BYTES * (everything + MOMENTS * trained),
        }

    def document(self) -> dict[str, object]:
        owners = [
            {
                "place": entry.place,
                "groups": [[t for t in self.tasks if t in group] for group in entry.partition],
                "parameters": entry.each,
            }
            for entry in self.entries
        ]
        return {"parameters": self.parameters, "bytes": self.bytes, "owners": owners}


def parameter_table(
    plan: Plan,
    shape: Shape,
    *,
    heads: Mapping[str, int] | None = None,
    pooled: Sequence[str] | None = None,
    frozen: bool = False,
) -> ParameterTable:
    """``heads``: parameters of each task's head; ``pooled``: the tasks with a pooler (all if None).

    ``frozen``: the encoder is not trained, so a checkpoint holds no moments for it.
    """
    sizes = parameters(shape)
    entries = [Entry("embeddings", "embeddings", plan.embeddings, sizes["embeddings"])]
    entries += [
        Entry("layers", f"layers.{depth}", partition, sizes["layer"])
        for depth, partition in enumerate(plan.layers)
    ]
    poolers = tuple(g for g in plan.pooler if pooled is None or g & set(pooled))
    if poolers:
        entries.append(Entry("pooler", "pooler", poolers, sizes["pooler"]))
    if plan.pooled_norm:
        entries.append(Entry("neck", "pooled_norm", plan.pooled_norm, 2 * shape.width))
    square = shape.width * shape.width + shape.width
    entries += [Entry("neck", f"neck.{d}", part, square) for d, part in enumerate(plan.neck)]
    if plan.projected:
        entries.append(Entry("pal", "projected", plan.projected.who, _projected(plan, shape)))
    for task, size in (heads or {}).items():
        entries.append(Entry("heads", f"heads.{task}", (frozenset([task]),), size))
    kept = frozenset(ENCODER) if frozen else frozenset()
    return ParameterTable(plan.tasks, tuple(entries), kept)


def _projected(plan: Plan, shape: Shape) -> int:
    """2 s d + layers x 3 s^2 for one owner, and the biases if it has them."""
    projected = plan.projected
    assert projected is not None
    size, layers = projected.size, len(projected.depths)
    biases = size + shape.width + layers * 3 * size if projected.bias else 0
    return 2 * size * shape.width + layers * 3 * size * size + biases
