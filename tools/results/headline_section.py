"""The section about the headline: what one small model reaches, and after how many tries."""

from collections.abc import Iterator

from cotrunk.errors import plural
from tools.results.documents import Result, Results
from tools.results.headline import SCORES
from tools.results.parts import left_out, paraphrase_note, trials_table, unfinished
from tools.results.tables import report_table, table, with_spread


def headline_section(results: Results) -> Iterator[str]:
    yield "## The headline: one small model for all three tasks"
    yield ""
    result = results.headline
    if result is None:
        yield "Not run yet: `cotrunk study headline --data DIR -o OUT`."
        return
    yield from unfinished(result)
    yield _summary(result)
    yield ""
    for made in result.document["tables"]:
        yield from report_table(made, results.zero_shot_beside(result))
    yield from paraphrase_note(results, result)
    yield from _seeds(result)
    yield from _tries(result)
    yield ""
    yield from trials_table(result)
    yield from left_out(result)


def _summary(result: Result) -> str:
    found = result.document
    official = with_spread(found["dev"]["official"], found["spread"]["official"], "official")
    return (
        f"Official dev score {official}, the mean of {plural(len(found['seeds']), 'seed')}, with "
        f"{found['parameters'] / 1e6:.1f} million parameters. A run takes "
        f"{found['seconds'] / 60:,.0f} minutes: `{found['command']}`."
    )


def _seeds(result: Result) -> Iterator[str]:
    rows = [
        [
            str(seed["seed"]),
            *(with_spread(seed[s], None, s) for s in SCORES),
            f"{seed['seconds']:,.0f}",
        ]
        for seed in result.document["seeds"]
    ]
    yield from table(["seed", *SCORES, "seconds"], rows)


def _tries(result: Result) -> Iterator[str]:
    found = result.document
    tries = "1 try" if found["tries"] == 1 else f"{found['tries']} tries"
    yield f"The recipe was chosen on the dev rows, after {tries}."
    if found.get("chosen_at") is not None:
        again = found["dev"]["official"]
        yield (
            f"It was chosen at an official score of {found['chosen_at']:.3f}. Trained again with "
            f"{plural(len(found['seeds']), 'seed')} it has {again:.3f}, a difference of "
            f"{again - found['chosen_at']:+.3f}: the effect of selection on these rows and of "
            "other seeds together."
        )
