"""Verdicts on claims: what the runs of a study say about a sentence of a report.

Every test is about a number that must lie in a region: a difference above a margin (better), above
minus the margin (not worse), within the margin (equivalent), or a ratio between two limits. The
claim is confirmed if the whole 95 % interval is in the region, refuted if the whole interval is
outside it, otherwise undecided. Without a finished run of each side it is not run yet.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from cotrunk.study.contrasts import Contrast, Estimate, Groups, NotTestable, estimate
from cotrunk.study.definition import Claim, as_list, sides_of
from cotrunk.study.measures import more_is_better

Verdict = Literal["confirmed", "refuted", "undecided", "not testable here", "not run yet"]
NO_LIMIT = math.inf


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict; ``parts`` are the comparisons behind it."""

    claim: Claim
    verdict: Verdict
    parts: tuple["ContrastResult", ...] = ()
    why: str = ""

    def document(self) -> dict[str, Any]:
        evidence = {"why": self.why, "comparisons": [part.document() for part in self.parts]}
        return {
            "id": self.claim.id,
            "claim": self.claim.claim,
            "test": self.claim.test,
            "margin": self.claim.margin,
            "verdict": self.verdict,
            "evidence": evidence,
        }


@dataclass(frozen=True)
class ContrastResult:
    """One comparison: the estimate, and the region in which the claim says it is."""

    name: str
    on: str
    estimate: Estimate
    region: tuple[float, float]
    verdict: Verdict

    @property
    def measure(self) -> str:
        """A positive difference means better, which for a cost is a reduction."""
        turned = not self.estimate.is_ratio and not more_is_better(self.on)
        unit = " in bytes" if self.on == "memory" else ""
        return f"{self.on}{unit} (reduction)" if turned else self.on

    def document(self) -> dict[str, Any]:
        found = self.estimate
        return {
            "comparison": self.name,
            "on": self.on,
            "measure": self.measure,
            "shown": str(found),
            "found": found.value,
            "low": found.low,
            "high": found.high,
            "p": found.p,
            "seeds": list(found.seeds),
            "claimed": [None if math.isinf(limit) else limit for limit in self.region],
            "verdict": self.verdict,
        }


def judge(
    claim: Claim,
    groups: Groups,
    counts: Mapping[str, int] | None = None,
    skipped: Mapping[str, str] | None = None,
) -> Judged:
    """``groups``: the finished runs of every name; ``counts``: parameters of counted networks.

    ``skipped``: why there are no runs of a name.
    """
    if claim.test == "none":
        return Judged(claim, "not testable here", why=claim.why)
    for name in sides_of(claim):
        if skipped and name in skipped:
            return Judged(claim, "not testable here", why=skipped[name])
    counts = counts or {}
    if missing := [n for n in sides_of(claim) if not groups.get(n) and n not in counts]:
        names = ", ".join(dict.fromkeys(missing))
        return Judged(claim, "not run yet", why=f"there is no finished run of {names}")
    try:
        found = [
            _part(contrast, on, claim, _region(claim), groups, counts)
            for contrast in _contrasts(claim)
            for on in as_list(claim.on)
        ]
        if not found:
            raise NotTestable("the claim names nothing to compare")
    except NotTestable as reason:
        return Judged(claim, "not testable here", why=str(reason))
    needed = claim.least if claim.test == "count" else None
    parts = tuple(_widened(part, len(found)) for part in found) if needed else tuple(found)
    verdict = _counted(parts, needed) if needed else _together(parts)
    return Judged(claim, verdict, parts, why=_why(verdict, parts, claim))


def _contrasts(claim: Claim) -> list[Contrast]:
    """The comparisons that must all hold."""
    if claim.test == "order":
        names = as_list(claim.one)
        return [Contrast.of(one, other) for one, other in pairwise(names)]
    if claim.test == "trend":
        return [Contrast.trend(as_list(claim.one))]
    if claim.test == "effect":
        smaller = Contrast.of(*claim.than)
        return [Contrast.of(claim.one, claim.other).minus(smaller)]
    if claim.combine != "each":
        return [Contrast.of(claim.one, claim.other, total=claim.combine == "sum")]
    ones, others = as_list(claim.one), as_list(claim.other)
    return [Contrast.of(one, other) for one in ones for other in others]


def _region(claim: Claim) -> tuple[float, float]:
    match claim.test:
        case "equivalent":
            return -claim.margin, claim.margin
        case "not-worse":
            return -claim.margin, NO_LIMIT
        case "ratio":
            return claim.between or (0.0, 1.0)
        case _:
            return claim.margin, NO_LIMIT


def _part(
    contrast: Contrast,
    on: str,
    claim: Claim,
    region: tuple[float, float],
    groups: Groups,
    counts: Mapping[str, int],
) -> ContrastResult:
    found = estimate(contrast, on, groups, counts, as_ratio=claim.test == "ratio")
    return ContrastResult(
        contrast.name, on, found, region, _in_region(found.low, found.high, region)
    )


def _in_region(low: float, high: float, region: tuple[float, float]) -> Verdict:
    above, below = region
    if not (math.isfinite(low) and math.isfinite(high)):
        return "undecided"
    if above < low and high < below:
        return "confirmed"
    return "refuted" if high <= above or low >= below else "undecided"


def _widened(part: ContrastResult, of: int) -> ContrastResult:
    """The comparison as one of several: its interval is wider (Bonferroni)."""
    found = part.estimate.widened(of)
    verdict = _in_region(found.low, found.high, part.region)
    return ContrastResult(part.name, part.on, found, part.region, verdict)


def _together(parts: Sequence[ContrastResult]) -> Verdict:
    """All must hold, each tested at 5 %; one that is refuted even if widened refutes the claim."""
    if all(part.verdict == "confirmed" for part in parts):
        return "confirmed"
    failed = any(_widened(part, len(parts)).verdict == "refuted" for part in parts)
    return "refuted" if failed else "undecided"


def _counted(parts: Sequence[ContrastResult], needed: int) -> Verdict:
    hold = sum(part.verdict == "confirmed" for part in parts)
    fail = sum(part.verdict == "refuted" for part in parts)
    if hold >= needed:
        return "confirmed"
    return "refuted" if len(parts) - fail < needed else "undecided"


def _why(verdict: Verdict, parts: Sequence[ContrastResult], claim: Claim) -> str:
    missing = dict.fromkeys(part.estimate.missing for part in parts if part.estimate.missing)
    return "; ".join(missing) if verdict == "undecided" and missing else claim.why


def evidence(judged: Judged) -> list[str]:
    """A line for each comparison, then the reason, if there is one."""
    parts = [f"{part.name} on {part.measure}: {part.estimate}" for part in judged.parts]
    return [*parts, *([judged.why] if judged.why else [])]


def sentence(judged: Judged) -> str:
    return "; ".join(evidence(judged))
