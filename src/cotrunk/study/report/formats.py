"""Numbers as readers see them, the same everywhere on a page."""

import math

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def score(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:.3f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:+.3f}".replace("-", MINUS)


def interval(low: float | None, high: float | None) -> str:
    return f"[{score(low)}, {score(high)}]" if is_number(low) and is_number(high) else ""


def p_value(p: float | None) -> str:
    if p is None or not math.isfinite(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def count(value: float | None) -> str:
    """``950``, ``22.9 M``."""
    if value is None:
        return NONE
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:,.0f}"


def size(bytes_: float | None) -> str:
    if bytes_ is None:
        return NONE
    return f"{bytes_ / 1e9:.2f} GB" if bytes_ >= 1e9 else f"{bytes_ / 1e6:.1f} MB"


def seconds(value: float | None) -> str:
    """``8.2 s``, ``95 s``, ``12.5 min``, ``3.4 h``."""
    if value is None:
        return NONE
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def setting(value: object) -> str:
    """A setting as in a config file."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(setting, value)) + "]"
    return str(value)


def listed(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
