"""Fits a sharing plan to an encoder of another depth."""

import re
from itertools import groupby

TOKEN = re.compile(r"(S|I|\([^()]*\))(\d*)")


def fit_plan(plan: str, layers: int) -> str:
    """``S3 I3`` for 12 layers is ``S6 I6``: every layer is shared as the one at its height was."""
    tokens = [token for token, count in TOKEN.findall(plan) for _ in range(int(count or 1))]
    if len(tokens) == layers:
        return plan
    fitted = [tokens[depth * len(tokens) // layers] for depth in range(layers)]
    runs = [(token, len(list(same))) for token, same in groupby(fitted)]
    return " ".join(f"{token}{count}" for token, count in runs)
