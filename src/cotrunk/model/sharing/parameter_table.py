"""Parameter counts of a plan, computed without weights or torch."""

from collections.abc import Collection
from dataclasses import dataclass

from cotrunk.model.sharing.plan import Plan

FLOAT_BYTES = 4
MOMENTS = 2
PARTS = ("embeddings", "layers", "pooler", "neck", "pal", "heads")
"""Listed even if a plan has none; other parts follow."""


@dataclass(frozen=True)
class ParameterTable:
    """``frozen`` names the places that no stage trains: AdamW keeps no moments for them."""

    plan: Plan
    frozen: frozenset[str]

    @property
    def parameters(self) -> dict[str, int]:
        by_part = dict.fromkeys(PARTS, 0)
        for place in self.plan.places:
            by_part[place.part] = by_part.get(place.part, 0) + place.total
        return {**by_part, "total": sum(by_part.values())}

    @property
    def trained(self) -> int:
        """Parameters that at least one stage trains."""
        return sum(place.total for place in self.plan.places if place.name not in self.frozen)

    @property
    def bytes(self) -> dict[str, int]:
        """``checkpoint``: the weights, and AdamW's two moments of those that are trained."""
        everything = self.parameters["total"]
        return {
            "weights": FLOAT_BYTES * everything,
            "checkpoint": FLOAT_BYTES * (everything + MOMENTS * self.trained),
        }

    def document(self) -> dict[str, object]:
        tasks = self.plan.tasks
        owners = [
            {
                "place": place.name,
                "groups": [[t for t in tasks if t in group] for group in place.partition],
                "parameters": place.size,
            }
            for place in self.plan.places
        ]
        return {
            "parameters": self.parameters,
            "trained": self.trained,
            "bytes": self.bytes,
            "owners": owners,
        }


def parameter_table(plan: Plan, *, frozen: Collection[str] = ()) -> ParameterTable:
    return ParameterTable(plan, frozenset(frozen))
