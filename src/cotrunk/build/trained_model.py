"""A trained run in Python: predict, embed, evaluate, and what a notebook shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.labelled import LabelledFile, naming_the_option
from cotrunk.build.load import load_model
from cotrunk.build.scored_rows import (
    FileOptions,
    ScoredRows,
    no_split,
    refuse_options,
    refuse_unused,
    rows_of_files,
    rows_of_split,
)
from cotrunk.build.sources import SPLITS
from cotrunk.errors import UserError, did_you_mean, for_python, option
from cotrunk.formats import score_text, score_with_interval
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import to_int8
from cotrunk.infer.model import Model
from cotrunk.infer.predictor import Predictor
from cotrunk.kinds.detail import Detail, detail_of
from cotrunk.kinds.metrics import Score, overall, scored_on
from cotrunk.kinds.task import Task
from cotrunk.kinds.threshold import threshold_line
from cotrunk.learn.evaluate import outputs_on, scores_of
from cotrunk.model.sharing.partition import written
from cotrunk.notebook import html_table, text_table
from cotrunk.runs.evaluation import Evaluation, read_evaluation

COLUMNS = ["task", "kind", "reads", "metric", "score on dev"]
SCORE_COLUMNS = ["task", "metric", "score", "constant answer", "rows"]


@dataclass(frozen=True, repr=False)
class TaskScores(Mapping[str, Score]):
    """The score of each task on labelled rows; ``rows`` says which.

    ``notes``: what was left out, and why. ``detail``, if it was asked for: all metrics, each
    class, the confusion matrix and the calibration of each task.
    """

    rows: str
    scores: Mapping[str, Score]
    notes: Sequence[str] = ()
    detail: Mapping[str, Detail] = field(default_factory=dict)

    @property
    def overall(self) -> dict[str, float]:
        """``official`` and ``mean`` of the scores."""
        return overall(dict(self.scores))

    def __getitem__(self, task: str) -> Score:
        return self.scores[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        table = text_table(SCORE_COLUMNS, self._table())
        return "\n".join([self.rows, table, *self._footnotes()])

    def _repr_html_(self) -> str:
        table = html_table(SCORE_COLUMNS, self._table(), caption=self.rows)
        notes = [[line] for line in self._footnotes()]
        return table + (html_table(["notes"], notes) if notes else "")

    def _table(self) -> list[list[str]]:
        return [
            [
                task,
                found.metric,
                score_with_interval(found.score, found.low, found.high),
                score_text(found.baseline),
                f"{found.rows:,}",
            ]
            for task, found in self.scores.items()
        ]

    def _footnotes(self) -> list[str]:
        lines = []
        for task, found in self.scores.items():
            if line := threshold_line(found.thresholds):
                lines.append(f"{task}: {line}")
            if found.masked_tokens is not None:
                lines.append(f"{task}: scored on {scored_on(found.rows, found.masked_tokens)}")
        return [*lines, *self.notes]


class TrainedModel(Predictor):
    """A trained run: ``folder`` is the run, ``which`` of its networks was loaded.

    ``tasks`` are its tasks by name, ``kinds`` the names of their kinds, ``scores`` those on dev
    when it was trained (None: never evaluated).
    """

    def __init__(self, model: Model, folder: Path, which: str, kinds: Mapping[str, str]) -> None:
        super().__init__(model)
        self.folder, self.which, self.kinds = folder, which, kinds
        self._evaluation: Evaluation | None = read_evaluation(folder / which)

    @property
    def scores(self) -> Mapping[str, Mapping[str, object]] | None:
        return self._evaluation.scores if self._evaluation else None

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.network.parameters())

    @property
    def plan(self) -> str:
        """How the tasks share the layers, as in ``sharing.encoder``."""
        layers = self.model.network.plan.acting("layer")
        return written([place.partition for place in layers])

    def evaluate(
        self,
        files: str | Path | Sequence[str | Path] | None = None,
        *,
        split: str | None = None,
        tasks: Sequence[str] | None = None,
        label: str | None = None,
        encoding: str | None = None,
        skip_bad_rows: bool = False,
        detail: bool = False,
    ) -> TaskScores:
        """Score the tasks on a ``split`` of the run's own data (``dev``), or on labelled files.

        Files are scored by every task whose columns they have, or by ``tasks``; then each of these
        must find rows. ``label`` is another label column, for a single task. Files are read like
        those of the config, unless ``encoding`` or ``skip_bad_rows`` say otherwise.

        Each score has the metric, its 95 % interval, the score of a constant answer (``baseline``)
        and the ``thresholds`` above which a class is predicted. ``detail`` adds all metrics, each
        class, the confusion matrix and the calibration error.
        """
        given = [files] if isinstance(files, str | Path) else list(files or ())
        options = FileOptions(label, encoding, skip_bad_rows)
        if isinstance(tasks, str):
            raise UserError(f"{option('tasks', tasks)}: must be a list, as in tasks=[{tasks!r}]")
        names = self._chosen(tasks)
        if files is not None and not given:
            raise UserError("files=[]: name at least one file, or leave it out")
        if split is not None and split not in SPLITS:
            raise UserError(f"{option('split', split)}: must be one of {', '.join(SPLITS)}")
        refuse_options(options, files=list(map(str, given)), split=split, tasks=names)
        if given:
            rows = self._rows_of(given, names, options, asked=tasks or ())
        else:
            rows = rows_of_split(self.model, names, split or "dev", all_asked=bool(tasks))
            if not rows.corpora:
                raise UserError(no_split(names, split or "dev"))
        return self._scores(rows, [Path(file).name for file in given] or [split or "dev"], detail)

    def _chosen(self, tasks: Sequence[str] | None) -> list[str]:
        for name in tasks or ():
            if name not in self.tasks:
                raise UserError(
                    f"{name!r} is not a task of this run; tasks are "
                    f"{', '.join(self.tasks)}{did_you_mean(name, self.tasks)}"
                )
        return list(dict.fromkeys(tasks or self.tasks))

    def _rows_of(
        self,
        given: Sequence[str | Path],
        names: Sequence[str],
        options: FileOptions,
        *,
        asked: Sequence[str],
    ) -> ScoredRows:
        """The rows of files, for the tasks whose columns they have."""
        files = [LabelledFile(Path(file), str(file)) for file in given]
        with naming_the_option():
            rows = rows_of_files(self.model, names, files, options)
        assert rows.reading is not None
        unused = refuse_unused([rows.reading], files, asked=asked)
        return ScoredRows(rows.corpora, rows.files, [*rows.notes, *unused], rows.reading)

    def _scores(self, rows: ScoredRows, places: Sequence[str], detail: bool) -> TaskScores:
        model, device = self.model, next(self.model.network.parameters()).device
        forward = Live(model.network, rows.corpora, model.pair_formats, model.template, device)
        kinds = {name: task.labels for name, task in self.tasks.items()}
        outputs = outputs_on(forward, rows.corpora)
        details = {}
        for name, output in outputs.items() if detail else ():
            target, counts = np.asarray(rows.corpora[name].target), rows.corpora[name].site_counts()
            details[name] = detail_of(kinds[name], output, target, counts=counts)
        return TaskScores(
            f"{self.folder}: {' + '.join(places)}",
            scores_of(kinds, outputs, rows.corpora),
            tuple(map(for_python, rows.notes)),
            details,
        )

    def __repr__(self) -> str:
        return f"{self._about()}\n{text_table(COLUMNS, self._table())}"

    def _repr_html_(self) -> str:
        return html_table(COLUMNS, self._table(), caption=self._about())

    def _about(self) -> str:
        step = f", step {self._evaluation.step}" if self._evaluation else ""
        return (
            f"{self.folder} ({self.which}{step}): layers {self.plan}, "
            f"{self.parameters:,} parameters, {4 * self.parameters / 1e6:,.1f} MB"
        )

    def _table(self) -> list[list[str]]:
        return [
            [name, self.kinds[name], _input_of(task), *self._score(name)]
            for name, task in self.tasks.items()
        ]

    def _score(self, task: str) -> tuple[str, str]:
        if self._evaluation is None or task not in self._evaluation.scores:
            return "-", "-"
        found = self._evaluation.scores[task]
        return found["metric"], score_with_interval(found["score"], found["low"], found["high"])


def _input_of(task: Task) -> str:
    if task.labels.reads_words:
        return "words"
    return "a text" if task.texts == 1 else "a pair"


def load_trained(
    folder: Path, *, which: str = "best", int8: bool = False, extensions: Extensions = NO_EXTENSIONS
) -> TrainedModel:
    """A trained run; ``int8`` has 8-bit layers, on the CPU."""
    device = "cpu" if int8 else "auto"
    model = load_model(folder, which=which, device=device, extensions=extensions)
    if int8:
        to_int8(model.network)
    kinds = {
        name: next(k for k, kind in extensions.all_kinds.items() if isinstance(task.labels, kind))
        for name, task in model.network.tasks.items()
    }
    return TrainedModel(model, folder, which, kinds)
