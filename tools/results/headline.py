"""What results/headline.json has beside the document of any study."""

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

from cotrunk.errors import UserError

NAME = "headline"
SCORES = ("sst", "para", "sts", "official")


def headline_of(
    document: Mapping[str, Any], *, tries: int, chosen_at: float | None = None
) -> dict[str, Any]:
    """Means over seeds, each seed, and what it took.

    ``tries``: how many recipes were tried on the dev rows before this one was chosen;
    ``chosen_at``: its official score at that time.
    """
    trials = document["trials"]
    if not trials:
        raise UserError("headline: no run has finished yet")
    seeds = [
        {
            "seed": trial["seed"],
            **{score: trial["scores"][score] for score in SCORES},
            "best_step": trial["best_step"],
            "seconds": trial["seconds"],
        }
        for trial in trials
    ]
    return {
        "dev": {score: fmean(seed[score] for seed in seeds) for score in SCORES},
        "spread": {score: _spread([seed[score] for seed in seeds]) for score in SCORES},
        "seeds": seeds,
        "parameters": trials[0]["parameters"],
        "seconds": round(fmean(trial["seconds"] for trial in trials), 1),
        "tries": tries,
        "chosen_at": chosen_at,
        **document,
    }


def _spread(values: list[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None
