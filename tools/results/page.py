"""docs/results.md, written from the documents in results/ alone."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import get_args

from cotrunk.errors import plural
from cotrunk.study.claims import Verdict
from tools.results.claims import claim_lines
from tools.results.documents import STUDIES, Result, Results, ZeroShot
from tools.results.headline_section import headline_section
from tools.results.sharing import points_of, sharing_table, summary
from tools.results.tables import escaped, has_paraphrase, report_table, table
from tools.results.texts import ABOUT, SHARING, ReportTexts, advice_for

VERDICTS: tuple[str, ...] = get_args(Verdict)
TOP = """# Results

Five reports on multitask BERT, repeated as [studies](studies.md) with MiniLM on two CPU cores. In
their tables the printed value stands in parentheses behind ours; ± is the standard deviation over
seeds. Every claim has a verdict, by a test that was fixed before anything ran
([what a verdict means](studies.md#how-to-read-a-verdict)). The reports trained BERT-base, so the
scores themselves are not expected to be equal: the claims are about differences.

The files are the course's, except for `quora-train.csv`: 141,237 pairs of the public release, none
of which is in `quora-dev.csv`, stand in for it.

This page is written by `make results` from `results/*.json`, and those files by
`python -m tools.results collect` from the folders of studies. A study that has not run, or was cut
short, says so.
"""
SEEN = (
    "MiniLM was tuned on a billion pairs before any of these runs, 103,663 Quora duplicate "
    "triplets among them, so paraphrase scores start ahead of a plain BERT's."
)
Texts = Mapping[str, ReportTexts]


def page(results: Results, texts: Texts, drawn: Collection[str]) -> str:
    """``drawn``: names of the pictures that there are."""
    lines = [TOP, *_overview(results), *_sharing(results, texts[SHARING], drawn)]
    for name in STUDIES:
        lines += _report(name, results, texts[name], drawn)
    lines += headline_section(results, paraphrase_note(results.zero_shot))
    return "\n".join(lines).rstrip() + "\n"


def paraphrase_note(zero_shot: ZeroShot | None) -> str:
    """Stands wherever paraphrase scores do."""
    if zero_shot is None:
        return f"{SEEN} Its scores without any training are not measured yet."
    return (
        f"{SEEN} Without any training, the cosine of its mean-pooled vectors has an accuracy of "
        f"{zero_shot.para:.3f} on paraphrase (all dev rows, at the threshold that suits them best) "
        f"and a correlation of {zero_shot.sts:.3f} on similarity."
    )


def _overview(results: Results) -> Iterator[str]:
    rows = []
    for name in STUDIES:
        if name not in results.studies:
            rows.append([f"`{name}`", "not run yet", *[""] * (len(VERDICTS) + 1)])
            continue
        found = results.studies[name]
        counts = Counter(found.verdicts.values())
        hours = found.document["cpu_seconds"] / 3600
        trials = f"{found.finished} of {found.planned}"
        rows.append([f"`{name}`", trials, *(str(counts[v]) for v in VERDICTS), f"{hours:.1f}"])
    yield from table(["study", "trials run", *VERDICTS, "CPU hours"], rows)


def _sharing(results: Results, texts: ReportTexts, drawn: Collection[str]) -> Iterator[str]:
    yield f"## {texts.heading}"
    yield ""
    result = results.studies.get(ABOUT)
    points = points_of(result) if result else []
    if result is None or not points:
        yield f"Not answered yet: `cotrunk study {ABOUT}` has no finished runs of these plans."
        yield ""
        return
    yield from _cut_short(result)
    yield from _paragraphs(advice_for(result, texts))
    yield summary(points)
    yield ""
    if SHARING in drawn:
        yield from _picture(SHARING, "Scores against the number of shared layers, with every seed")
    yield from sharing_table(points)
    yield paraphrase_note(results.zero_shot)
    yield ""


def _report(
    name: str, results: Results, texts: ReportTexts, drawn: Collection[str]
) -> Iterator[str]:
    yield f"## {texts.heading}"
    yield ""
    result = results.studies.get(name)
    if result is None:
        yield f"Not run yet: `cotrunk study {name} --data DIR -o OUT`."
        yield ""
        return
    found = result.document
    yield f"{found['report']}. {_how(result)}"
    yield ""
    yield from _cut_short(result)
    for made in found["tables"]:
        yield from report_table(made, results.zero_shot)
    if has_paraphrase(found["tables"]):
        yield paraphrase_note(results.zero_shot)
        yield ""
    if name in drawn:
        yield from _picture(name, f"Scores of {name}: ours with their spread, and as printed")
    yield from _list("Claims", list(claim_lines(result)))
    yield from _list(
        "What we would tell its authors", [f"- {a}" for a in advice_for(result, texts)]
    )
    left_out = [f"- {escaped(line)}" for line in _left_out(result)]
    yield from _list("Notes, and what is missing", left_out)


def _how(result: Result) -> str:
    found = result.document
    where = "the course's files" if found["data"] == "course" else "the sample data"
    weights = "MiniLM" if found["weights"] == "minilm" else found["weights"]
    hours = found["cpu_seconds"] / 3600
    rows = found.get("dev_rows")
    part = f" Paraphrase is scored on {rows:,} fixed rows of `quora-dev.csv`." if rows else ""
    return (
        f"Ours: {weights}, {where}, {plural(result.finished, 'run')}, {hours:.1f} CPU hours, "
        f"version {found['version']}: `{found['command']}`.{part}"
    )


def _cut_short(result: Result) -> Iterator[str]:
    if not result.is_complete:
        runs = f"{result.finished} of its {plural(result.planned, 'trial')}"
        yield f"**Cut short:** the study `{result.name}` has run {runs} so far."
        yield ""


def _left_out(result: Result) -> Iterator[str]:
    found = result.document
    yield from found["notes"]
    for sweep, why in found["skipped"].items():
        yield f"Skipped: {sweep}: {why}"
    for broken in found["broken"]:
        yield f"Cannot be read: {broken['run']}: {broken['why']}"
    for failed in found.get("failed", ()):
        yield f"Failed: {failed['trial']}: {failed['why']}"


def _paragraphs(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield text
        yield ""


def _picture(name: str, alt: str) -> Iterator[str]:
    yield f"![{alt}](pictures/results-{name}.svg)"
    yield ""


def _list(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"### {title}"
        yield ""
        yield from lines
        yield ""
