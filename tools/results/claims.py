"""A claim as one sentence: its verdict, the number of seeds, and what was found."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cotrunk.errors import plural
from cotrunk.study.measures import more_is_better
from tools.results.documents import Result
from tools.results.tables import escaped

OPEN = ("undecided", "not testable here")
Claim = Mapping[str, Any]


def claim_lines(result: Result) -> Iterator[str]:
    for claim in result.claims:
        cut_short = not result.is_complete and is_open(claim)
        yield f"- `{claim['id']}` {_verdict(claim, cut_short=cut_short)}: {_sentence(claim)}"


def is_open(claim: Claim) -> bool:
    """Whether more runs could change the verdict."""
    return claim["verdict"] in OPEN and claim["test"] != "none"


def _verdict(claim: Claim, *, cut_short: bool) -> str:
    notes = [_seeds(claim), "the study was cut short" if cut_short else ""]
    said = "; ".join(note for note in notes if note)
    return f"**{claim['verdict']}**{f' ({said})' if said else ''}"


def _seeds(claim: Claim) -> str:
    parts = claim["evidence"]["comparisons"]
    if parts and all(_is_exact(part) for part in parts):
        return "counted"
    return f"n = {plural(claim['n'], 'seed')}" if claim["n"] else ""


def _sentence(claim: Claim) -> str:
    why = claim["evidence"]["why"]
    return escaped("; ".join(filter(None, [claim["claim"], _found(claim), why])) + ".")


def _found(claim: Claim) -> str:
    parts: Sequence[Mapping[str, Any]] = claim["evidence"]["comparisons"]
    is_ratio = claim["test"] == "ratio"
    if len(parts) == 1:
        (part,) = parts
        return f"{part['comparison']} on {_measure(part, is_ratio)}: {_interval(part, is_ratio)}"
    if not parts:
        return ""
    hold = sum(part["verdict"] == "confirmed" for part in parts)
    found = [part["found"] for part in parts if part["found"] is not None]
    span = f", found {_number(min(found), is_ratio)} to {_number(max(found), is_ratio)}"
    return f"{hold} of {len(parts)} comparisons confirmed{span if found else ''}"


def _measure(part: Mapping[str, Any], is_ratio: bool) -> str:
    reduced = not is_ratio and not more_is_better(part["on"])
    return f"{part['on']} (reduction)" if reduced else str(part["on"])


def _interval(part: Mapping[str, Any], is_ratio: bool) -> str:
    value, low, high = (_number(part[key], is_ratio) for key in ("found", "low", "high"))
    unknown = part["low"] is None or part["high"] is None
    shown = value if unknown or _is_exact(part) else f"{value} [{low}, {high}]"
    return f"{shown} times" if is_ratio else shown


def _is_exact(part: Mapping[str, Any]) -> bool:
    return part["low"] is not None and part["low"] == part["high"]


def _number(value: float | None, is_ratio: bool) -> str:
    if value is None:
        return "-"
    if is_ratio:
        return f"{value:.3g}"
    return f"{value:+,.0f}" if abs(value) >= 1000 else f"{value:+.3f}"
