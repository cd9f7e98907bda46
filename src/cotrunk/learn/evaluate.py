"""Evaluation on the dev rows, and saving the networks that score best."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from cotrunk.data.tokens.cache import Corpus
from cotrunk.files import without_nan
from cotrunk.infer.forward import Forward
from cotrunk.kinds.metrics import Score, overall
from cotrunk.learn import guards
from cotrunk.learn.run import Run
from cotrunk.learn.stage import Progress, Stage
from cotrunk.model.sharing.merge import merged_tensors
from cotrunk.model.sharing.network import Network
from cotrunk.progress import OnProgress, ignore_progress
from cotrunk.runs.checkpoint import write_checkpoint
from cotrunk.runs.evaluation import DOCUMENT, Evaluation
from cotrunk.runs.events import Evaluated, Finding

Outputs = Mapping[str, np.ndarray]


def evaluate(run: Run, stage: Stage, progress: Progress) -> Evaluated:
    """Score the network on the dev rows; keep it if it is the best so far."""
    begun = time.monotonic()
    outputs = outputs_on(stage.dev_forward, run.dev, on_progress=run.on_progress_or_stop)
    scores = scores_of(run.network, outputs, run.dev)
    epoch = stage.epoch(max(progress.step - 1, stage.first))
    value = kept_score(scores, run.keep)
    evaluation = Evaluation(
        step=progress.step,
        epoch=epoch,
        keep=run.keep,
        value=value if math.isfinite(value) else None,
        scores={task: asdict(found) for task, found in scores.items()},
        overall=overall(scores),
    )
    best = value > progress.best or progress.best_step < 0
    if best:
        progress.best, progress.best_step = value, progress.step
        keep_evaluated(run, run.folder.best, evaluation, outputs)
    for task in _newly_best(progress, scores):
        if stage.keep_each:
            keep_evaluated(run, run.folder.best_of(task), evaluation, outputs)
    _record(run, evaluation, seconds=time.monotonic() - begun)
    findings = _findings(run, outputs)
    run.folder.append_findings(progress.step, findings)
    progress.evaluated = progress.step
    return Evaluated(progress.step, epoch, scores, best, findings)


def keep(run: Run, place: Path) -> None:
    """Save the network without scores."""
    write_checkpoint(place, tensors={"model": merged_tensors(run.network)}, documents=run.documents)


def keep_evaluated(run: Run, place: Path, evaluation: Evaluation, outputs: Outputs) -> None:
    """Save the network with its scores, its outputs for the dev rows, and their labels."""
    dev = {}
    for task, output in outputs.items():
        dev[f"{task}.output"] = torch.from_numpy(np.ascontiguousarray(output))
        dev[f"{task}.target"] = torch.from_numpy(np.array(run.dev[task].target))
    write_checkpoint(
        place,
        tensors={"model": merged_tensors(run.network), "dev": dev},
        documents={**run.documents, DOCUMENT: without_nan(evaluation.document())},
    )


def _newly_best(progress: Progress, scores: Mapping[str, Score]) -> list[str]:
    """The tasks with a new best score; counts the evaluations since the best of the others."""
    best = []
    for task, found in scores.items():
        if found.score > progress.task_best.get(task, -math.inf):
            progress.task_best[task], progress.stale[task] = found.score, 0
            best.append(task)
        else:
            progress.stale[task] = progress.stale.get(task, 0) + 1
    return best


def _record(run: Run, evaluation: Evaluation, *, seconds: float) -> None:
    step = evaluation.step
    shown = {
        task: {key: score[key] for key in ("metric", "score", "low", "high", "more")}
        for task, score in evaluation.scores.items()
    }
    common = {"event": "dev", "step": step}
    run.folder.append_metrics(
        {**common, "epoch": evaluation.epoch, "scores": shown, **evaluation.overall}
    )
    run.folder.append_timing({**common, "seconds": seconds})


def _findings(run: Run, outputs: Outputs) -> list[Finding]:
    return [
        finding
        for name, output in outputs.items()
        for finding in guards.on_dev(
            run.network.tasks[name],
            run.network.tasks[name].labels.predict_labels(output),
            run.network.tasks[name].labels.shaped(np.asarray(run.dev[name].target)),
        )
    ]


def outputs_on(
    forward: Forward, corpora: Mapping[str, Corpus], *, on_progress: OnProgress = ignore_progress
) -> dict[str, np.ndarray]:
    """The outputs of every task for its rows."""
    return {task: forward.outputs(task, on_progress=on_progress) for task in corpora}


def scores_of(
    network: Network, outputs: Outputs, corpora: Mapping[str, Corpus]
) -> dict[str, Score]:
    """The score of every task on its labelled rows."""
    return {
        task: network.tasks[task].labels.scores(
            output, np.asarray(corpora[task].target), counts=corpora[task].site_counts()
        )
        for task, output in outputs.items()
    }


def kept_score(scores: Mapping[str, Score], keep: str) -> float:
    """The value that ``train.keep`` names: official, mean, sum, or one task's score."""
    value = scores[keep].score if keep in scores else overall(scores)[keep]
    return value if math.isfinite(value) else -math.inf
