"""Networks that are simulated: what they say about rows whose difficulty all of them share.

A row has a difficulty that all networks meet, one that the networks of a side share, and noise of
each seed. A seed also has a skill of its own, so its score over all rows varies between seeds.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from cotrunk.kinds.entity_f1 import f1_over_sentences
from cotrunk.kinds.metrics import ACCURACY, F1, PEARSON, SPEARMAN, class_metrics

CLASSES = class_metrics(4)


@dataclass(frozen=True)
class World:
    """``skills``: of each side; ``seed_noise``: the standard deviation of its seeds' skills.

    ``tails``: how much the size of a score's error varies between rows. Errors have a kurtosis of
    4.4 at 0.25 and 7.8 at 0.4; those of trained networks on real pairs have 3.1 to 3.5.
    """

    metric: str
    rows: int = 300
    seeds: int = 3
    seed_noise: float = 0.0
    skills: tuple[float, float] = (1.0, 1.0)
    tails: float = 0.25

    def drawn(self, random):
        """Two sides of networks, scored on the same new rows."""
        labels = LABELS[self.metric](random, self.rows)
        score = _scored(self)
        common = random.normal(size=self.rows)
        sides = []
        for skill in self.skills:
            side = 0.5 * random.normal(size=self.rows)
            seeds = skill + self.seed_noise * random.normal(size=self.seeds)
            noise = 0.5 * random.normal(size=(self.seeds, self.rows))
            easy = seeds[:, None] + common + side + noise
            sides.append([score(row, labels) for row in easy])
        return sides

    def truth(self, skill=1.0):
        """The score of a network of this skill on very many rows."""
        many = replace(self, rows=400_000, seeds=1, seed_noise=0.0, skills=(skill, skill))
        return _mean_score(many)


@cache
def _mean_score(world):
    return float(np.mean([side[0].value for side in world.drawn(np.random.default_rng(0))]))


def _scored(world):
    if world.metric in CORRELATIONS:
        return _correlated(CORRELATIONS[world.metric], world.tails)
    return SCORED[world.metric]


def _positives(random, rows):
    return (random.random(rows) < 0.3).astype(float)


def _classes(random, rows):
    return random.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1]).astype(float)


def _degrees(random, rows):
    """Bounded and skewed, as degrees of similarity are; with a wrong direction for each row."""
    return 5 * random.beta(1.2, 0.8, rows).round(2), random.normal(size=rows)


def _entities(random, rows):
    return random.poisson(1.2, rows)


def _decided(metric, other):
    def scored(easy, labels):
        return metric.over_rows(np.where(easy > 0, labels, other(labels)), labels)

    return scored


def _correlated(metric, tails):
    def scored(easy, labels):
        gold, direction = labels
        return metric.over_rows(gold + 0.7 * np.exp(-easy * tails) * direction, gold)

    return scored


def _tagged(easy, gold):
    """Entities are found in easy sentences, some are invented in others."""
    found = np.where(easy > 0, gold, gold // 2)
    invented = np.where(easy < -0.3, 1, 0)
    return f1_over_sentences(np.stack([found, found + invented, gold], axis=1))


LABELS = {
    "accuracy": _classes,
    "f1": _positives,
    "macro-f1": _classes,
    "mcc": _classes,
    "pearson": _degrees,
    "spearman": _degrees,
    "entity-f1": _entities,
}
CORRELATIONS = {"pearson": PEARSON, "spearman": SPEARMAN}
SCORED = {
    "accuracy": _decided(ACCURACY, lambda gold: (gold + 1) % 4),
    "f1": _decided(F1, lambda gold: 1 - gold),
    "macro-f1": _decided(CLASSES["macro-f1"], lambda gold: (gold + 1) % 4),
    "mcc": _decided(CLASSES["mcc"], lambda gold: (gold + 1) % 4),
    "entity-f1": _tagged,
}
