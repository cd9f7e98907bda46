"""A claim as one sentence: its verdict, the number of seeds, and what was found."""

from collections.abc import Iterator, Mapping
from typing import Any

from cotrunk.errors import plural
from tools.results.documents import Result
from tools.results.tables import escaped

Claim = Mapping[str, Any]


def claim_lines(result: Result) -> Iterator[str]:
    for claim in result.claims:
        yield f"- `{claim['id']}` {_verdict(claim, result)}: {_sentence(claim)}"


def _verdict(claim: Claim, result: Result) -> str:
    is_open = claim["verdict"] != "not run yet" and not result.has_all_trials_of(claim)
    notes = [_seeds(claim), "not all trials have finished" if is_open else ""]
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
    """The comparison; of several, how many are confirmed, the lowest and the highest."""
    parts = claim["evidence"]["comparisons"]
    if len(parts) < 2:
        return "".join(map(_shown, parts))
    hold = sum(part["verdict"] == "confirmed" for part in parts)
    found = f"{hold} of {len(parts)} comparisons confirmed"
    known = sorted((p for p in parts if p["found"] is not None), key=lambda part: part["found"])
    return f"{found}; lowest {_shown(known[0])}; highest {_shown(known[-1])}" if known else found


def _shown(part: Mapping[str, Any]) -> str:
    return f"{part['comparison']} on {part['measure']}: {part['shown']}"


def _is_exact(part: Mapping[str, Any]) -> bool:
    return part["low"] is not None and part["low"] == part["high"]
