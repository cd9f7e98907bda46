"""Parts that several sections of the page have."""

from collections.abc import Collection, Iterator, Sequence

from tools.results.documents import Progress, Result, Results, ZeroShot
from tools.results.tables import NOT_RUN, escaped, table

SEEN = (
    "MiniLM was tuned on a billion pairs before any of these runs, 103,663 Quora duplicate "
    "triplets among them, so paraphrase scores start ahead of a plain BERT's."
)


def unfinished(result: Result, sweeps: Collection[str] | None = None) -> Iterator[str]:
    """Says if trials of some sweeps (None: of all) have not finished, and why."""
    found = result.progress(sweeps)
    if not found.is_complete:
        what = "Cut short" if found.not_run else "Incomplete"
        yield f"**{what}:** {_counts(found)}."
        yield ""


def trials_table(result: Result) -> Iterator[str]:
    """How long the trials of each sweep were."""
    found = result.document
    changes = "".join(f", `--set {change}`" for change in found["set"])
    yield f"**Trials: budget `{found['budget']}`{changes}**"
    yield ""
    rows = [_trials_row(result, sweep) for sweep in found["sweeps"]]
    yield from table(["sweep", "finished", "seeds", "epochs", "steps", "CPU minutes"], rows)


def left_out(result: Result) -> Iterator[str]:
    """The notes of a study, and what is missing."""
    found = result.document
    lines = [
        *found["notes"],
        *(f"Skipped: {sweep}: {why}" for sweep, why in found["skipped"].items()),
        *(f"Cannot be read: {each['run']}: {each['why']}" for each in found["broken"]),
        *(f"Failed: {each['trial']}: {each['why']}" for each in found["failed"]),
    ]
    yield from listed("Notes, and what is missing", [f"- {escaped(line)}" for line in lines])


def paraphrase_note(results: Results, result: Result) -> Iterator[str]:
    """Stands wherever paraphrase scores of MiniLM do."""
    if result.uses_minilm:
        known = results.zero_shot_beside(result)
        yield f"{SEEN}{_untrained(known) if known else ''}"
        yield ""


def listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"### {title}"
        yield ""
        yield from lines
        yield ""


def _untrained(zero_shot: ZeroShot) -> str:
    return (
        " Without any training, the cosine of its mean-pooled vectors has an accuracy of "
        f"{zero_shot.para:.3f} on paraphrase (all dev rows, at the threshold that suits them best) "
        f"and a correlation of {zero_shot.sts:.3f} on similarity."
    )


def _counts(found: Progress) -> str:
    failed = f", {found.failed} failed" if found.failed else ""
    broken = f", {found.broken} cannot be read" if found.broken else ""
    return f"{found.finished} of {found.planned} trials have finished{failed}{broken}"


def _trials_row(result: Result, sweep: str) -> list[str]:
    found = result.progress([sweep])
    mine = [trial for trial in result.document["trials"] if trial["sweep"] == sweep]
    finished = f"{found.finished} of {found.planned}"
    if not mine:
        return [f"`{sweep}`", NOT_RUN if found.not_run == found.planned else finished, *[""] * 4]
    return [
        f"`{sweep}`",
        finished,
        str(len({trial["seed"] for trial in mine})),
        _span([trial["epochs"] for trial in mine]),
        _span([trial["steps"] for trial in mine]),
        _span([trial["cpu_seconds"] / 60 for trial in mine], digits=1),
    ]


def _span(values: Sequence[float], digits: int = 0) -> str:
    low, high = (f"{end:,.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
