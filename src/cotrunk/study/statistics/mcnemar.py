"""The difference of two shares of the same rows.

``only_one`` and ``only_other`` count the rows that only one side gets right.
"""

import math

from cotrunk.kinds.intervals import normal_quantile


def mcnemar(only_one: int, only_other: int) -> float:
    """McNemar's test (1947) without a continuity correction, which Fagerland et al. (2013) find
    to be right on average, unlike the exact test; 1 if the sides are right on the same rows.
    """
    from scipy.special import chdtrc

    apart = only_one + only_other
    return float(chdtrc(1, (only_one - only_other) ** 2 / apart)) if apart else 1.0


def tango(
    only_one: int, only_other: int, rows: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    """The differences that the score test does not reject (Tango 1998).

    Excludes 0 exactly if McNemar's test rejects it. Has a width even if no row differs.
    """
    from scipy.optimize import brentq

    z = normal_quantile(confidence)
    middle = (only_one - only_other) / rows

    def low(supposed: float) -> float:
        return _score(only_one, only_other, rows, supposed) - z

    def high(supposed: float) -> float:
        return _score(only_one, only_other, rows, supposed) + z

    return (
        float(brentq(low, -1, middle)) if middle > -1 else -1.0,
        float(brentq(high, middle, 1)) if middle < 1 else 1.0,
    )


def _score(only_one: int, only_other: int, rows: int, supposed: float) -> float:
    """How many standard errors the difference is above the supposed one, given that one."""
    above = only_one - only_other - rows * supposed
    if not above:
        return 0.0
    b = (2 * rows - only_one + only_other) * supposed - only_one - only_other
    c = -only_other * supposed * (1 - supposed)
    share_other = (math.sqrt(max(b * b - 8 * rows * c, 0)) - b) / (4 * rows)
    variance = rows * (2 * share_other + supposed * (1 - supposed))
    return above / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, above)
