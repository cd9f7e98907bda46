"""Evaluation on the dev rows, and saving the networks that score best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cotrunk.data.reading.splits import split_arrays
from cotrunk.data.tokens.cache import Corpus
from cotrunk.files import without_nan
from cotrunk.infer.forward import Forward
from cotrunk.kinds import Kind
from cotrunk.kinds.metrics import Score, overall
from cotrunk.learn import guards
from cotrunk.learn.run import Run
from cotrunk.learn.stage import Chosen, Progress, Stage, finite
from cotrunk.model.sharing.merge import merged_tensors
from cotrunk.model.sharing.network import Network
from cotrunk.progress import OnProgress, ignore_progress
from cotrunk.runs.checkpoint import write_checkpoint
from cotrunk.runs.evaluation import DOCUMENT, Evaluation
from cotrunk.runs.events import Evaluated, Finding

Outputs = Mapping[str, np.ndarray]


def evaluate(run: Run, stage: Stage, progress: Progress) -> Evaluated:
    """Score the network on the dev rows; keep it if it is the best so far."""
    outputs = outputs_on(stage.dev_forward, run.dev, on_progress=run.on_progress_or_stop)
    progress.chosen = chosen_on_dev(run, outputs)
    kinds = kinds_with(run.network, progress.chosen)
    scores = scores_of(kinds, outputs, run.dev)
    evaluation = _evaluation(run, stage, progress, scores)
    value = kept_score(scores, run.keep)
    best = value > progress.best or progress.best_step < 0
    if best:
        progress.best, progress.best_step = value, progress.step
        keep_evaluated(run, run.folder.best, evaluation, outputs, progress.chosen)
    for task in _newly_best(progress, scores):
        if stage.keep_each:
            place, beside = run.folder.best_of(task), [run.folder.best]
            keep_evaluated(run, place, evaluation, outputs, progress.chosen, beside=beside)
    _record(run, evaluation)
    findings = _findings(run, kinds, outputs)
    run.folder.append_findings(progress.step, findings)
    progress.evaluated = progress.step
    return Evaluated(progress.step, evaluation.epoch, scores, best, findings)


def save_again(run: Run, stage: Stage, progress: Progress) -> None:
    """Save lost networks again, from the checkpoint of the step at which they were saved."""
    if run.save_again:
        outputs = outputs_on(stage.dev_forward, run.dev, on_progress=run.on_progress_or_stop)
        chosen = chosen_on_dev(run, outputs)
        scores = scores_of(kinds_with(run.network, chosen), outputs, run.dev)
        evaluation = _evaluation(run, stage, progress, scores)
        for place in run.save_again:
            keep_evaluated(run, place, evaluation, outputs, chosen)


def chosen_on_dev(run: Run, outputs: Outputs) -> Chosen:
    """The settings that tasks leave to the dev rows, such as a decision threshold."""
    found = {
        task: run.network.tasks[task].labels.chosen_on_dev(output, np.asarray(run.dev[task].target))
        for task, output in outputs.items()
    }
    return {task: settings for task, settings in found.items() if settings}


def kinds_with(network: Network, chosen: Chosen) -> dict[str, Kind]:
    """The kinds of all tasks, with the settings that were chosen on the dev rows."""
    return {
        name: replace(task.labels, **chosen[name]) if name in chosen else task.labels
        for name, task in network.tasks.items()
    }


def _evaluation(
    run: Run, stage: Stage, progress: Progress, scores: Mapping[str, Score]
) -> Evaluation:
    value = kept_score(scores, run.keep)
    return Evaluation(
        step=progress.step,
        epoch=stage.epoch(max(progress.step - 1, stage.first)),
        keep=run.keep,
        value=value if math.isfinite(value) else None,
        scores={task: asdict(found) for task, found in scores.items()},
        overall=overall(scores),
    )


def keep(run: Run, place: Path, chosen: Chosen, *, beside: Sequence[Path] = ()) -> None:
    """Save the network without scores; it shares equal files with those ``beside`` it."""
    with run.meter.phase("save"):
        write_checkpoint(
            place,
            tensors=_network_tensors(run),
            documents=_documents(run, chosen),
            beside=beside,
        )


def keep_evaluated(
    run: Run,
    place: Path,
    evaluation: Evaluation,
    outputs: Outputs,
    chosen: Chosen,
    *,
    beside: Sequence[Path] = (),
) -> None:
    """Save the network with its scores and what they were computed from."""
    scored = {DOCUMENT: without_nan(evaluation.document())}
    with run.meter.phase("save"):
        write_checkpoint(
            place,
            tensors={**_network_tensors(run), "dev": _dev_tensors(run, outputs)},
            documents={**_documents(run, chosen), **scored},
            beside=beside,
        )


def _documents(run: Run, chosen: Chosen) -> dict[str, Any]:
    """The documents of the run; its settings have the values chosen on the dev rows."""
    documents: dict[str, Any] = dict(run.documents)
    if chosen:
        settings = documents["settings"]
        tasks = {name: {**part, **chosen.get(name, {})} for name, part in settings["tasks"].items()}
        documents["settings"] = {**settings, "tasks": tasks}
    return documents


def _dev_tensors(run: Run, outputs: Outputs) -> dict[str, torch.Tensor]:
    """For each task the outputs for its dev rows, their labels, and a hash of each row's texts.

    Tasks about words also have the number of words of each row.
    """
    found: dict[str, np.ndarray] = {}
    for task, output in outputs.items():
        corpus, counts = run.dev[task], run.dev[task].site_counts()
        found[f"{task}.output"] = np.ascontiguousarray(output)
        found[f"{task}.target"] = np.array(corpus.target)
        found[f"{task}.rows"] = np.array(corpus.fingerprint).view(np.int64)
        if counts is not None:
            found[f"{task}.counts"] = counts
    return {name: torch.from_numpy(array) for name, array in found.items()}


def _network_tensors(run: Run) -> dict[str, dict[str, torch.Tensor]]:
    saved = {"model": finite(merged_tensors(run.network))}
    if run.splits is None:
        return saved
    arrays = split_arrays(run.splits)
    return saved | {"splits": {name: torch.from_numpy(array) for name, array in arrays.items()}}


def _newly_best(progress: Progress, scores: Mapping[str, Score]) -> list[str]:
    """The tasks with a new best score; for the others, counts the evaluations since theirs."""
    best = []
    for task, found in scores.items():
        if found.score > progress.task_best.get(task, -math.inf):
            progress.task_best[task], progress.stale[task] = found.score, 0
            best.append(task)
        else:
            progress.stale[task] = progress.stale.get(task, 0) + 1
    return best


def _record(run: Run, evaluation: Evaluation) -> None:
    shown = {
        task: {key: score[key] for key in ("metric", "score", "low", "high", "more")}
        for task, score in evaluation.scores.items()
    }
    where = {"event": "dev", "step": evaluation.step, "epoch": evaluation.epoch}
    run.folder.append_metrics({**where, "scores": shown, **evaluation.overall})


def _findings(run: Run, kinds: Mapping[str, Kind], outputs: Outputs) -> list[Finding]:
    found = []
    for name, output in outputs.items():
        predicted = kinds[name].predict_labels(output)
        gold = kinds[name].shaped(np.asarray(run.dev[name].target))
        if kinds[name].reads_words and np.isfinite(predicted).any():
            read = np.isfinite(predicted)  # words beyond max_tokens have no prediction
            predicted, gold = predicted[read], gold[read]
        found += guards.on_dev(run.network.tasks[name], predicted, gold)
    return found


def outputs_on(
    forward: Forward, corpora: Mapping[str, Corpus], *, on_progress: OnProgress = ignore_progress
) -> dict[str, np.ndarray]:
    """The outputs of every task for its rows."""
    return {task: forward.outputs(task, on_progress=on_progress) for task in corpora}


def scores_of(
    kinds: Mapping[str, Kind], outputs: Outputs, corpora: Mapping[str, Corpus]
) -> dict[str, Score]:
    """The score of every task on its labelled rows."""
    return {task: score_of(kinds[task], output, corpora[task]) for task, output in outputs.items()}


def score_of(kind: Kind, output: np.ndarray, corpus: Corpus) -> Score:
    """``rows`` are those of the corpus, even if a row has several predictions."""
    found = kind.scores(output, np.asarray(corpus.target), counts=corpus.site_counts())
    return replace(found, rows=len(corpus))


def kept_score(scores: Mapping[str, Score], keep: str) -> float:
    """The value that ``train.keep`` names: official, mean, sum, or one task's score."""
    value = scores[keep].score if keep in scores else overall(scores)[keep]
    return value if math.isfinite(value) else -math.inf
