"""A trial as a job for another process."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.state import ENDS, read_record


@dataclass(frozen=True)
class Job:
    """Everything a process needs to run a trial, as plain values.

    ``raw`` is its config, with paths relative to ``folder``; ``place`` names it in messages.
    ``earlier`` are the run folders of the trials before it, which its scheduler looks at; ``asha``
    has grace and reduction, or is None.
    """

    run: str
    raw: Mapping[str, Any]
    folder: str
    place: str
    number: int
    choices: Mapping[str, Any]
    seed: int
    threads: int
    objective: str
    asha: tuple[int, int] | None = None
    earlier: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        found = json.loads(text)
        asha = tuple(found["asha"]) if found["asha"] else None
        return cls(**{**found, "asha": asha, "earlier": tuple(found["earlier"])})

    @property
    def record(self) -> dict[str, Any]:
        """What trial.json says from the start."""
        return {"number": self.number, "choices": self.choices, "seed": self.seed}


def has_ended(run: RunFolder) -> bool:
    """Whether a trial will not train on, nor reach another rung."""
    return run.is_finished or bool(ENDS & read_record(run).keys())
