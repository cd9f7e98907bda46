"""The scores and the CPU time of 8-bit layers beside those of float32."""

import time
from dataclasses import asdict, dataclass

import numpy as np

from cotrunk.cli.terminal import progress
from cotrunk.cli.terminal.output import Document
from cotrunk.infer.forward import Live
from cotrunk.infer.int8 import to_int8
from cotrunk.kinds.metrics import Score, overall
from cotrunk.learn.evaluate import kinds_with, outputs_on, scores_of


@dataclass(frozen=True)
class Timed:
    outputs: dict[str, np.ndarray]
    cpu_seconds: float


def timed(forward: Live) -> Timed:
    with progress.counting() as counter:
        start = time.process_time()  # CPU time, because other programs may be running
        found = outputs_on(forward, forward.corpora, on_progress=counter)
    return Timed(found, time.process_time() - start)


def int8_document(forward: Live, exact: Timed) -> Document:
    """The same rows with 8-bit layers, compared with ``exact``; changes the network."""
    to_int8(forward.network)
    rough, kinds = timed(forward), kinds_with(forward.network, {})
    before = scores_document(scores_of(kinds, exact.outputs, forward.corpora))
    document = scores_document(scores_of(kinds, rough.outputs, forward.corpora))
    for name, score in document["tasks"].items():
        score["difference"] = score["score"] - before["tasks"][name]["score"]
        score["changed"] = kinds[name].changed(exact.outputs[name], rough.outputs[name])
        score["changed_is"] = kinds[name].change_is
    spent, now = exact.cpu_seconds, rough.cpu_seconds
    return document | {"cpu_seconds": {"float32": spent, "int8": now}, "times_less": spent / now}


def scores_document(scores: dict[str, Score]) -> Document:
    both = overall(scores)
    return {
        "tasks": {task: asdict(score) for task, score in scores.items()},
        "overall": {"official": both["official"], "mean": both["mean"]},
    }
