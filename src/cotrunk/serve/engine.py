"""A trained model that answers batches of rows of any requests."""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from cotrunk.build.trained_model import TrainedModel
from cotrunk.data.reading.splits import Text
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.infer.batching import outputs_of_batch, row_tokens
from cotrunk.infer.embedding import vectors_of_batch
from cotrunk.infer.predictor import answers_of
from cotrunk.kinds.rows import LoadedRows
from cotrunk.kinds.task import Task
from cotrunk.serve.jobs import InputRow, Job, JobRow
from cotrunk.serve.lanes import Lane, lanes_of

LOG = logging.getLogger("cotrunk.serve")
VECTOR = ""
"""The key of a vector in the results of an input; no task has this name."""
WARM_UP_WORDS = 16
REMEMBERED_LETTERS = 1 << 18
"""Size of the tokeniser's cache, about 7 MB: limited, because anyone may send new words."""


class Engine:
    """``lanes`` is the lane of each task that answers."""

    def __init__(self, model: TrainedModel) -> None:
        self.model = model
        self.lanes = lanes_of(model.model)
        model.tokenise = Tokeniser(model.model.tokenizer, remembered_letters=REMEMBERED_LETTERS)

    def warm_up(self, tokens: int, *, is_stopped: Callable[[], bool]) -> None:
        """Answer a batch of each lane that is as large as batches get, until it is stopped.

        So the calling thread has its memory before the first request, and not under load.
        """
        for lane in dict.fromkeys(self.lanes.values()):
            if is_stopped():
                return
            text: Text = ("a",) * WARM_UP_WORDS if lane.words else "a " * WARM_UP_WORDS
            texts: tuple[Text, ...] = (text,) * self.model.tasks[lane.tasks[0]].texts
            rows = [InputRow(0, lane, lane.tasks, texts)] * (tokens // (WARM_UP_WORDS * len(texts)))
            job = Job(rows, inputs=1)
            self.tokenise([job])
            self.answer(job.rows)

    def tokenise(self, jobs: Sequence[Job]) -> None:
        """Tokenise the rows of jobs; a job whose texts cannot be tokenised fails alone."""
        try:
            rows = self._rows(jobs)
        except BaseException as error:  # also the panics of Rust libraries
            if len(jobs) > 1:
                for job in jobs:
                    self.tokenise([job])
                return
            LOG.exception("texts could not be tokenised")
            jobs[0].fail(RuntimeError(str(error)))
            return
        for job, mine in groupby(rows, key=lambda row: row.job):
            job.tokenised(list(mine))

    def _rows(self, jobs: Sequence[Job]) -> list[JobRow]:
        """In the order of the jobs."""
        by_lane: dict[Lane, list[tuple[int, Job, InputRow]]] = {}
        for number, job in enumerate(jobs):
            for one in job.asked:
                by_lane.setdefault(one.lane, []).append((number, job, one))
        found: list[tuple[int, JobRow]] = []
        for lane, same in by_lane.items():
            read = self.model.read([one.texts for _, _, one in same], words=lane.words)
            tokens = row_tokens(read.pieces, lane.pair_format, self.model.model.template)
            sites = [None] * len(same) if read.sites is None else read.sites
            found += [
                (number, JobRow(job, one, pieces, site, cost))
                for (number, job, one), pieces, site, cost in zip(
                    same, read.pieces, sites, tokens.tolist(), strict=True
                )
            ]
        return [row for _, row in sorted(found, key=lambda pair: pair[0])]

    def answer(self, rows: Iterable[JobRow]) -> None:
        """Answer rows of any jobs, in as few batches as their lanes allow."""
        batches: dict[Hashable, list[JobRow]] = {}
        for row in rows:
            batches.setdefault(row.asked.lane.batch_key(row.asked.tasks), []).append(row)
        for same in batches.values():
            lane = same[0].asked.lane
            try:
                found = self._vectors(lane, same) if lane.vectors else self._answers(lane, same)
            except Exception as error:  # other batches go on
                LOG.exception("a batch failed")
                for row in same:
                    row.job.fail(error)
                continue
            for row, answers in zip(same, found, strict=True):
                row.job.finish(row, answers)

    def _vectors(self, lane: Lane, rows: Sequence[JobRow]) -> list[dict[str, Any]]:
        vectors = vectors_of_batch(self.model.model, [row.pieces for row in rows], lane.tasks[0])
        return [{VECTOR: vector} for vector in vectors.tolist()]

    def _answers(self, lane: Lane, rows: Sequence[JobRow]) -> list[dict[str, Any]]:
        """The tasks that any row asks about are computed for all rows: that is one pass."""
        model, wanted = self.model.model, {task for row in rows for task in row.asked.tasks}
        tasks = [task for task in lane.tasks if task in wanted]
        sites = [row.sites for row in rows if row.sites is not None] if lane.words else None
        loaded = LoadedRows.without_labels([row.pieces for row in rows], sites)
        outputs = outputs_of_batch(model.network, loaded, lane.pair_format, model.template, tasks)
        found = {task: _objects(self.model.tasks[task], outputs[task], loaded) for task in tasks}
        return [{task: found[task][at] for task in row.asked.tasks} for at, row in enumerate(rows)]


def _objects(task: Task, output: np.ndarray, rows: LoadedRows) -> list[dict[str, object]]:
    """The objects of ``predict``."""
    return [task.labels.to_json(answer) for answer in answers_of(task, output, rows)]
