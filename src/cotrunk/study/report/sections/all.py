"""All sections of a page, in reading order."""

from collections.abc import Callable

from cotrunk.study.comparison import Comparison
from cotrunk.study.report.html import templates
from cotrunk.study.report.networks import Networks
from cotrunk.study.report.parts import Section
from cotrunk.study.report.sections.answers import calibration, confusion
from cotrunk.study.report.sections.cost import cost
from cotrunk.study.report.sections.curves import learning
from cotrunk.study.report.sections.plans import plans
from cotrunk.study.report.sections.scores import scores
from cotrunk.study.report.sections.settings import settings
from cotrunk.study.report.sections.training import conflicts, sampling
from cotrunk.study.report.sections.worst import worst
from cotrunk.study.report.subject import Subject
from cotrunk.study.report.summary import Summaries


def sections_of(
    subject: Subject, summaries: Summaries, comparison: Comparison | None
) -> list[Section]:
    """The sections for which these runs have data."""
    networks = Networks()
    made: list[Callable[[], Section | None]] = [
        lambda: scores(subject, summaries, comparison),
        lambda: learning(subject),
        lambda: cost(subject, summaries),
        lambda: plans(subject, networks, templates()),
        lambda: conflicts(subject, networks),
        lambda: sampling(subject),
        lambda: confusion(subject),
        lambda: calibration(subject),
        lambda: worst(subject, networks),
        lambda: settings(subject),
    ]
    return [section for make in made if (section := make()) is not None]
