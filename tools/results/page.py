"""docs/results.md, written from the documents in results/ alone."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import get_args

from cotrunk.errors import plural
from cotrunk.study.claims import Verdict
from tools.results.claims import claim_lines
from tools.results.documents import MINILM, STUDIES, Result, Results
from tools.results.drawn import description
from tools.results.headline_section import headline_section
from tools.results.parts import left_out, listed, paraphrase_note, trials_table, unfinished
from tools.results.sharing import MEASURES, SWEEPS, points_of, sharing_table, summary
from tools.results.tables import has_paraphrase, report_table, table
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
Texts = Mapping[str, ReportTexts]


def page(results: Results, texts: Texts, drawn: Collection[str]) -> str:
    """``drawn``: names of the pictures that there are."""
    lines = [TOP, *_overview(results), *_sharing(results, texts[SHARING], drawn)]
    for name in STUDIES:
        lines += _report(name, results, texts[name], drawn)
    lines += headline_section(results)
    return "\n".join(lines).rstrip() + "\n"


def _overview(results: Results) -> Iterator[str]:
    rows = []
    for name in STUDIES:
        if name not in results.studies:
            rows.append([f"`{name}`", "not run yet", *[""] * (len(VERDICTS) + 1)])
            continue
        found = results.studies[name]
        counts = Counter(claim["verdict"] for claim in found.claims)
        hours = found.document["cpu_seconds"] / 3600
        trials = f"{found.progress().finished} of {found.progress().planned}"
        rows.append([f"`{name}`", trials, *(str(counts[v]) for v in VERDICTS), f"{hours:.1f}"])
    yield from table(["study", "trials run", *VERDICTS, "CPU hours"], rows)


def _sharing(results: Results, texts: ReportTexts, drawn: Collection[str]) -> Iterator[str]:
    yield f"## {texts.heading}"
    yield ""
    result = results.studies.get(ABOUT)
    points = points_of(result) if result else []
    if result is None or not points:
        yield f"Not answered yet: it takes finished runs of two plans of `cotrunk study {ABOUT}`."
        yield ""
        return
    yield from unfinished(result, SWEEPS)
    yield from _paragraphs(advice_for(result, texts))
    yield summary(points)
    yield ""
    if SHARING in drawn:
        scores = f"{', '.join(MEASURES)} against the number of shared layers"
        yield from _picture(SHARING, f"{scores}: every seed, mean and standard deviation")
    yield from sharing_table(points)
    yield from paraphrase_note(results, result)


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
    tables = result.document["tables"]
    yield f"{result.document['report']}. {_how(result)}"
    yield ""
    yield from unfinished(result)
    yield from trials_table(result)
    for made in tables:
        yield from report_table(made, results.zero_shot_beside(result))
    if has_paraphrase(tables):
        yield from paraphrase_note(results, result)
    if name in drawn:
        yield from _picture(name, description(result, texts))
    yield from listed("Claims", list(claim_lines(result)))
    advice = [f"- {text}" for text in advice_for(result, texts)]
    yield from listed("What we would tell its authors", advice)
    yield from left_out(result)


def _how(result: Result) -> str:
    found = result.document
    where = "the course's files" if result.uses_course_data else "the sample data"
    weights = "MiniLM" if found["weights"] == MINILM else found["weights"]
    hours = found["cpu_seconds"] / 3600
    rows = found["dev_rows"]
    part = f" Paraphrase is scored on {rows:,} fixed rows of `quora-dev.csv`." if rows else ""
    return (
        f"Ours: {weights}, {where}, {plural(result.progress().finished, 'run')}, {hours:.1f} CPU "
        f"hours, version {found['version']}: `{found['command']}`.{part}"
    )


def _paragraphs(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield text
        yield ""


def _picture(name: str, alt: str) -> Iterator[str]:
    yield f"![{alt}](pictures/results-{name}.svg)"
    yield ""
