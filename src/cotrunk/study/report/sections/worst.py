"""The dev rows that a network gets most wrong, with their texts as in the file."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from cotrunk.data.reading.check import spelled_out
from cotrunk.data.reading.examples import Example as Row
from cotrunk.data.reading.examples import Rows
from cotrunk.data.tokens.digests import digest_of
from cotrunk.errors import UserError
from cotrunk.kinds import Kind
from cotrunk.kinds.detail import worst_rows
from cotrunk.study.records import RunRecord, TaskRecord
from cotrunk.study.report.networks import Networks
from cotrunk.study.report.parts import RUN, Choice, Example, Examples, Section
from cotrunk.study.report.subject import Subject

SHOWN = 5
LONGEST = 600
"""Letters of a text; more would fill the page."""


def worst(subject: Subject, networks: Networks) -> Section:
    examples = [
        _examples(name, run, run.tasks[task], networks)
        for name, run in subject.leading
        for task in subject.tasks
        if task in run.tasks and run.tasks[task].labels.can_answer
    ]
    text = [
        f"The {SHOWN} dev rows with the largest errors of each task. Error: 1 - probability of the "
        "gold label (scores: absolute difference)."
    ]
    runs = list(dict.fromkeys(each.run for each in examples))
    choice = Choice("Run", RUN, runs) if runs else None
    return Section("worst", "Worst examples", text, choice=choice, examples=examples)


def _examples(name: str, run: RunRecord, task: TaskRecord, networks: Networks) -> Examples:
    labels = task.labels
    wrong = worst_rows(labels, task.output, task.target, counts=task.counts, most=SHOWN)
    if not wrong:
        return Examples(task.name, (), name, "No wrong answers.")
    found, note = _read(run, task, networks, [each.row for each in wrong])
    return Examples(
        task.name,
        [
            Example(
                _place(found.get(each.row), each.row),
                _texts(found.get(each.row)),
                _spelled(labels, each.label),
                _spelled(labels, each.prediction),
                f"{each.error:.3f}",
            )
            for each in wrong
        ],
        name,
        note,
    )


def _spelled(labels: Kind, label: Any) -> str:
    """A number in three digits; other labels as they are."""
    return f"{label:.3g}" if isinstance(labels.label_name(label), float) else labels.spelled(label)


def _read(
    run: RunRecord, task: TaskRecord, networks: Networks, rows: list[int]
) -> tuple[dict[int, Row], str]:
    """The rows of the dev file, and a note if it cannot be read."""
    network = networks.of(run)
    if network is None:
        return {}, f"Texts are missing: {networks.why_not(run)}"
    sources = network.sources["dev"].get(task.name, ())
    try:
        known = run.digests.get(f"tasks.{task.name}.dev")
        if not sources or digest_of(sources) != known:
            return {}, "Texts are missing: the dev file has changed since the run was trained."
        files = (Rows(network.tasks[task.name], source) for source in sources)
        return dict(_picked(chain.from_iterable(files), rows)), ""
    except (OSError, UserError):
        return {}, "Texts are missing: the dev file is not where it was when the run was trained."


def _picked(examples: Iterable[Row], rows: list[int]) -> Iterator[tuple[int, Row]]:
    wanted = set(rows)
    for number, example in enumerate(islice(examples, max(rows) + 1)):
        if number in wanted:
            yield number, example


def _place(found: Row | None, row: int) -> str:
    return f"line {found.line}, id {found.id}" if found else f"row {row + 1}"


def _texts(found: Row | None) -> list[str]:
    texts = [spelled_out(text) for text in found.texts] if found else []
    return [text if len(text) <= LONGEST else f"{text[:LONGEST]}..." for text in texts]
