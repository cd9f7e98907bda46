"""The section about the headline: what one small model reaches, and after how many tries."""

from collections.abc import Iterator

from cotrunk.errors import plural
from tools.results.documents import Result, Results
from tools.results.headline import SCORES
from tools.results.tables import report_table, table, with_spread


def headline_section(results: Results, paraphrase_note: str) -> Iterator[str]:
    yield "## The headline: one small model for all three tasks"
    yield ""
    result = results.headline
    if result is None:
        yield "Not run yet: `cotrunk study headline --data DIR -o OUT`."
        return
    found = result.document
    if not result.is_complete:
        runs = f"{result.finished} of its {plural(result.planned, 'run')}"
        yield f"**Cut short:** the headline has {runs}."
        yield ""
    yield _summary(result)
    yield ""
    for made in found["tables"]:
        yield from report_table(made, results.zero_shot)
    yield paraphrase_note
    yield ""
    rows = [
        [
            str(seed["seed"]),
            *(with_spread(seed[s], None, s) for s in SCORES),
            f"{seed['seconds']:,.0f}",
        ]
        for seed in found["seeds"]
    ]
    yield from table(["seed", *SCORES, "seconds"], rows)
    yield from _tries(result)
    yield ""


def _summary(result: Result) -> str:
    found = result.document
    official = with_spread(found["dev"]["official"], found["spread"]["official"], "official")
    return (
        f"Official dev score {official}, the mean of {plural(len(found['seeds']), 'seed')}, with "
        f"{found['parameters'] / 1e6:.1f} million parameters. A run takes "
        f"{found['seconds'] / 60:,.0f} minutes: `{found['command']}`."
    )


def _tries(result: Result) -> Iterator[str]:
    found = result.document
    tries = "1 try" if found["tries"] == 1 else f"{found['tries']} tries"
    yield f"The recipe was chosen on the dev rows, after {tries}."
    if found.get("chosen_at") is not None:
        luck = found["chosen_at"] - found["dev"]["official"]
        yield (
            f"It was chosen at an official score of {found['chosen_at']:.3f}. Trained again it has "
            f"{found['dev']['official']:.3f}, so selection explains {luck:+.3f}."
        )
