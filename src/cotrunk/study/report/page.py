"""Runs -> one self-contained page, and its charts as files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotrunk.errors import UserError, plural
from cotrunk.study.compare import compare_groups
from cotrunk.study.comparison import Comparison
from cotrunk.study.records import Broken, RunGroup, RunRecord, group_runs, without_scores
from cotrunk.study.report import formats
from cotrunk.study.report.export import write_charts
from cotrunk.study.report.html import write_page
from cotrunk.study.report.parts import Report, Section
from cotrunk.study.report.sections.all import sections_of
from cotrunk.study.report.subject import Subject, subject_of
from cotrunk.study.report.summary import Summaries
from cotrunk.study.report.verdict import verdict_lines as lines_of


@dataclass(frozen=True)
class Written:
    """The files of a report, and its verdict."""

    page: Path
    svg: tuple[Path, ...]
    png: tuple[Path, ...]
    verdict: tuple[str, ...]


def write_report(
    records: Sequence[RunRecord],
    broken: Sequence[Broken],
    comparison: Comparison | None,
    out: Path,
    *,
    title: str | None = None,
    verdict_lines: Sequence[str] | None = None,
    first: Sequence[Section] = (),
    svg: Path | None = None,
    png: Path | None = None,
) -> Written:
    """The page, and its charts in the folders ``svg`` and ``png``; else as ``report_on``."""
    report = report_on(
        records, broken, comparison, title=title, verdict_lines=verdict_lines, first=first
    )
    write_page(out, report)
    return Written(
        out,
        tuple(write_charts(report.sections, svg, "svg")) if svg else (),
        tuple(write_charts(report.sections, png, "png")) if png else (),
        tuple(report.verdict),
    )


def report_on(
    records: Sequence[RunRecord],
    broken: Sequence[Broken],
    comparison: Comparison | None = None,
    *,
    title: str | None = None,
    verdict_lines: Sequence[str] | None = None,
    first: Sequence[Section] = (),
) -> Report:
    """``comparison``: its differences are shown; None: differences from the best plan.

    ``verdict_lines`` replace the verdict that follows from the runs; the sections ``first`` stand
    before those about the runs.
    """
    scored = [record for record in records if record.tasks]
    left_out = [*broken, *without_scores(records)]
    if not scored:
        raise UserError(*(f"{each.path}: {each.why}" for each in left_out))
    groups = [g.group for g in comparison.groups] if comparison else group_runs(scored)
    left_out += [run for group in groups for run in group.counted_once]
    subject = subject_of(groups, left_out)
    summaries = Summaries(subject)
    best, why_not = _against_best(subject, groups)
    return Report(
        title=title or f"Report on {formats.listed(list(subject.tasks))}",
        about=_about(subject),
        verdict=list(verdict_lines or lines_of(subject, summaries, best)) + why_not,
        broken=[{"path": str(each.path), "why": each.why} for each in left_out],
        sections=[*first, *sections_of(subject, summaries, comparison or best)],
    )


def _against_best(
    subject: Subject, groups: Sequence[RunGroup]
) -> tuple[Comparison | None, list[str]]:
    """Every plan compared with the best, or why that cannot be done."""
    if len(groups) < 2:
        return None, []
    try:
        return compare_groups(groups, subject.series[0].group), []
    except UserError as error:
        return None, [f"The runs cannot be compared: {line}" for line in error.lines]


def _about(subject: Subject) -> str:
    runs = [run for _, _, run in subject.runs]
    weights = sorted({str(run.settings["encoder"]["weights"]) for run in runs})
    plans = f"{plural(len(subject.series), 'plan')}, " if len(subject.series) > 1 else ""
    unfinished = sum(run.state != "finished" for run in runs)
    note = f", {unfinished} not finished" if unfinished else ""
    tasks = plural(len(subject.tasks), "task")
    return f"{plans}{plural(len(runs), 'run')}{note}, {tasks}; encoder {formats.listed(weights)}"
