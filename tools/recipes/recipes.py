"""The recipes: everything that defaults decide about training, so that no default matters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SEARCH_SEED = 1
FRESH_SEEDS = (11, 12, 13)


@dataclass(frozen=True)
class Recipe:
    lr: float
    head_lr: float
    batch: int
    epochs: int
    depth: int = 1
    dropout: float = 0.1
    schedule: str = "linear"
    warmup: float = 0.1
    sampling: str = "together"

    def changes(self, tasks: Sequence[str]) -> dict[str, object]:
        """Settings by dotted key."""
        train = {
            "lr": self.lr,
            "head_lr": self.head_lr,
            "batch": self.batch,
            "epochs": self.epochs,
            "schedule": self.schedule,
            "warmup": self.warmup,
            "sampling": self.sampling,
        }
        heads = {"depth": self.depth, "dropout": self.dropout}
        return {f"train.{key}": value for key, value in train.items()} | {
            f"tasks.{task}.head.{key}": value for task in tasks for key, value in heads.items()
        }


RECIPES: Mapping[str, Recipe] = {
    "before": Recipe(5e-5, 5e-5, 32, 3),
    "fast-heads": Recipe(5e-5, 1e-3, 32, 3),
    "warm": Recipe(1e-4, 1e-3, 32, 3),
    "hot": Recipe(2e-4, 1e-3, 32, 3),
    "warm-16": Recipe(1e-4, 1e-3, 16, 3),
    "hot-16": Recipe(2e-4, 1e-3, 16, 3),
    "warm-16-long": Recipe(1e-4, 1e-3, 16, 5),
    "hot-16-long": Recipe(2e-4, 1e-3, 16, 5),
    "deep": Recipe(1e-4, 1e-3, 16, 5, depth=2),
    "cosine": Recipe(2e-4, 1e-3, 16, 3, dropout=0.3, schedule="cosine"),
    "sqrt-8": Recipe(1e-4, 1e-3, 8, 5, sampling="sqrt"),
    "constant": Recipe(1e-4, 1e-3, 16, 5, schedule="none", warmup=0.0, sampling="proportional"),
}
