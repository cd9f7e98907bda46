"""A task: how many texts it reads and what it predicts about them."""

from dataclasses import dataclass

from cotrunk.kinds.kind import Kind

TAKEN = ("id", "official", "mean", "sum")
"""Names a task cannot have: the id of a row, and the overall scores of ``train.keep``."""


@dataclass(frozen=True)
class Task:
    """A prediction about one text or a pair of texts; ``labels`` is its kind."""

    name: str
    texts: int
    labels: Kind

    @property
    def outputs(self) -> int:
        return self.labels.outputs

    @property
    def is_about_tokens(self) -> bool:
        """Its head predicts per token, not per row."""
        return self.labels.level == "token"
