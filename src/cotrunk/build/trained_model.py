"""A trained run in Python: predict, embed, evaluate, and what a notebook shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.load import load_model
from cotrunk.build.sources import SPLITS, Sources, corpora_of, refuse_absent
from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens.cache import load_or_hold_corpus
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
        sources: Sources = self.model.sources
        if file is not None:
            sources = {split: self._sources_in(Path(file), tasks)}
        chosen = [self.tasks[name] for name in tasks or self.tasks if name in sources[split]]
        absent = [name for name in tasks or () if name not in sources[split]]
        if absent or not chosen:
            name = absent[0] if absent else next(iter(self.tasks))
            raise UserError(f"tasks.{name}.{split} is not set in the run's config; name a file")
        corpora = corpora_of(sources, split, chosen, self.model.tokenizer, load=load_or_hold_corpus)
        model, device = self.model, next(self.model.network.parameters()).device
        forward = Live(model.network, corpora, model.pair_formats, model.template, device)
        found = scores_of(model.network, outputs_on(forward, corpora), corpora)
        return TaskScores(f"{self.folder}: {Path(file).name if file else split}", found)

    def _sources_in(self, file: Path, tasks: Sequence[str] | None) -> dict[str, tuple[Source, ...]]:
        """How the tasks read ``file``: as their training files; by default where it has columns."""
        refuse_absent(file, place="evaluate")
        trained = {name: files[0] for name, files in self.model.sources["train"].items()}
        found = {name: replace(part, path=file, part=None) for name, part in trained.items()}
        if tasks is None:
            columns = _columns(next(iter(found.values())))
            usable = {name: part for name, part in found.items() if _needed(part) <= columns}
            if not usable:
                wanted = "; ".join(
                    f"{name} needs {', '.join(sorted(_needed(part)))}"
                    for name, part in found.items()
                )
                raise UserError(
                    f"{file}: the columns are {', '.join(sorted(columns))}, but {wanted}"
                )
            found = usable
        return {name: (part,) for name, part in found.items()}

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


def _needed(source: Source) -> set[str]:
    return {*source.texts, *([source.label] if source.label else [])}


def _columns(source: Source) -> set[str]:
    with source.open(source.texts) as table:
        return set(table.columns)


def load_trained(
    folder: Path, *, which: str = "best", int8: bool = False, extensions: Extensions = NO_EXTENSIONS
) -> TrainedModel:
    """A trained run; ``int8`` has 8-bit layers, on the CPU."""
    device = "cpu" if int8 else "auto"
    model = load_model(folder, which=which, device=device, extensions=extensions)
    if int8:
        to_int8(model.network)
    named = {kind: name for name, kind in extensions.all_kinds.items()}
    kinds = {name: named[type(task.labels)] for name, task in model.network.tasks.items()}
    return TrainedModel(model, folder, which, kinds)
