"""Scores as text, the same in every table."""

import math


def score_text(value: float | None) -> str:
    """``0.633``; ``-`` for what is undefined, such as the correlation of a constant."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def signed_text(value: float | None) -> str:
    """``+0.012``; ``-`` for what is undefined."""
    return "-" if value is None or math.isnan(value) else f"{value:+.3f}"


def score_with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """``0.633 [0.577, 0.686]``; ``-`` for what is undefined."""
    bounds = (
        ""
        if score_text(low) == score_text(high) == "-"
        else f" [{score_text(low)}, {score_text(high)}]"
    )
    return score_text(value) + bounds
