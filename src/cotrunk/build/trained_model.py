"""A trained run in Python: predict, embed, evaluate, and what a notebook shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotrunk.build.corpora import corpora_of, read_corpora
from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.labelled import LabelledFile, reading_of
from cotrunk.build.load import load_model
from cotrunk.build.sources import SPLITS, refuse_absent
from cotrunk.data.tokens.cache import Corpus, load_or_hold_corpus
from cotrunk.errors import UserError, did_you_mean, option
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import to_int8
from cotrunk.infer.model import Model
from cotrunk.infer.predictor import Predictor
from cotrunk.kinds.metrics import Score, overall
from cotrunk.kinds.task import Task
from cotrunk.learn.evaluate import outputs_on, scores_of
from cotrunk.model.sharing.partition import written
from cotrunk.notebook import html_table, shown_score, text_table
from cotrunk.runs.evaluation import Evaluation, read_evaluation

COLUMNS = ["task", "kind", "reads", "metric", "score on dev"]
SCORE_COLUMNS = ["task", "metric", "score", "rows"]


@dataclass(frozen=True, repr=False)
class TaskScores(Mapping[str, Score]):
    """The score of each task on labelled rows; ``rows`` says which."""

    rows: str
    scores: Mapping[str, Score]

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
        return f"{self.rows}\n{text_table(SCORE_COLUMNS, self._table())}"

    def _repr_html_(self) -> str:
        return html_table(SCORE_COLUMNS, self._table(), caption=self.rows)

    def _table(self) -> list[list[str]]:
        return [
            [task, found.metric, shown_score(found.score, found.low, found.high), f"{found.rows:,}"]
            for task, found in self.scores.items()
        ]


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
        file: str | Path | None = None,
        *,
        split: str = "dev",
        tasks: Sequence[str] | None = None,
    ) -> TaskScores:
        """Score the tasks on a split of the run's own data, or on a labelled ``file``.

        The file needs the columns of the tasks that are scored; by default those are all that have
        rows to score.
        """
        if split not in SPLITS:
            raise UserError(f"{option('split', split)}: must be one of {', '.join(SPLITS)}")
        for name in tasks or ():
            if name not in self.tasks:
                raise UserError(
                    f"{name!r} is not a task of this run; tasks are "
                    f"{', '.join(self.tasks)}{did_you_mean(name, self.tasks)}"
                )
        chosen = [self.tasks[name] for name in tasks or self.tasks]
        corpora = self._corpora(split, chosen) if file is None else self._in(Path(file), chosen)
        absent = [task.name for task in chosen if task.name not in corpora]
        if absent and (tasks or not corpora):
            raise UserError(self._no_rows(absent[0], split, file))
        model, device = self.model, next(self.model.network.parameters()).device
        forward = Live(model.network, corpora, model.pair_formats, model.template, device)
        kinds = {name: task.labels for name, task in self.tasks.items()}
        found = scores_of(kinds, outputs_on(forward, corpora), corpora)
        return TaskScores(f"{self.folder}: {Path(file).name if file else split}", found)

    def _corpora(self, split: str, tasks: Sequence[Task]) -> dict[str, Corpus]:
        sources, tokenizer = self.model.sources, self.model.tokenizer
        return corpora_of(sources, split, tasks, tokenizer, load=load_or_hold_corpus)

    def _in(self, file: Path, tasks: Sequence[Task]) -> dict[str, Corpus]:
        """The rows of a file, for the tasks whose columns it has."""
        refuse_absent(file, place="evaluate")
        found = reading_of(self.model, tasks, [LabelledFile(file, str(file))]).sources
        named = [(self.tasks[name], sources) for name, sources in found.items()]
        return read_corpora(named, self.model.tokenizer, load=load_or_hold_corpus)

    def _no_rows(self, task: str, split: str, file: str | Path | None) -> str:
        if file is None:
            return f"tasks.{task}.{split} is not set in the run's config; name a file"
        reading = reading_of(self.model, [self.tasks[task]], [LabelledFile(Path(file), str(file))])
        columns, needed = reading.columns.get(str(file), ()), reading.needed.get(task, ())
        return f"{file}: the columns are {', '.join(columns)}, but {task} needs {', '.join(needed)}"

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
            [name, self.kinds[name], _read_by(task), *self._score(name)]
            for name, task in self.tasks.items()
        ]

    def _score(self, task: str) -> tuple[str, str]:
        if self._evaluation is None or task not in self._evaluation.scores:
            return "-", "-"
        found = self._evaluation.scores[task]
        return found["metric"], shown_score(found["score"], found["low"], found["high"])


def _read_by(task: Task) -> str:
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
