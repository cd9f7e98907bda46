"""MiniLM before any training: the cosine of mean-pooled vectors, on the course's dev pairs."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import pearsonr

from cotrunk.build.corpora import corpora_of
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.plan import plan_of
from cotrunk.build.prepare import use_threads
from cotrunk.build.sources import sources_of
from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import check_settings
from cotrunk.config.presets import text
from cotrunk.data.batches.text import template_of
from cotrunk.data.tokens.cache import Corpus
from cotrunk.infer.embedding import embed
from cotrunk.infer.model import Model
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.initial import initialise
from cotrunk.model.weights.pretrained import find, load_tokenizer

PRESET = "1-bert"
"""One encoder and mean pooling; its heads are not used."""
PAIRS = ("para", "sts")


def zero_shot(data: Path, *, weights: str = "minilm") -> dict[str, Any]:
    """The content of results/zero-shot.json."""
    corpora, model = _read(data, weights)
    para, sts = (cosines(model, corpora[task], task) for task in PAIRS)
    is_duplicate = np.asarray(corpora["para"].target) > 0.5
    threshold, accuracy = best_threshold(para, is_duplicate)
    similarity = np.asarray(corpora["sts"].target, dtype=np.float64)
    return {
        "weights": weights,
        "pooling": "mean",
        "score": "cosine of the two texts' vectors",
        "para": {"accuracy": accuracy, "threshold": threshold, "rows": len(para)},
        "sts": {"pearson": float(pearsonr(sts, similarity)[0]), "rows": len(sts)},
    }


def cosines(model: Model, corpus: Corpus, task: str) -> np.ndarray:
    """One number per pair."""
    left, right = zip(*map(corpus.pieces, range(len(corpus))), strict=True)
    sides = [embed(model, [(text,) for text in side], task) for side in (left, right)]
    one, other = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
    found: np.ndarray = (one * other).sum(axis=1)
    return found


def best_threshold(score_N: np.ndarray, is_one_N: np.ndarray) -> tuple[float, float]:
    """The threshold above which label 1 is predicted with the best accuracy, and that accuracy."""
    order = np.argsort(score_N)
    score, is_one = score_N[order], is_one_N[order]
    zeros_below = np.concatenate([[0], np.cumsum(~is_one)])
    ones_above = is_one.sum() - np.concatenate([[0], np.cumsum(is_one)])
    cut = np.concatenate([[True], np.diff(score) > 0, [True]])  # equal scores stay together
    right = np.where(cut, zeros_below + ones_above, -1)
    best = int(right.argmax())
    limits = np.concatenate([[score[0] - 1e-6], (score[1:] + score[:-1]) / 2, [score[-1]]])
    return float(limits[best]), float(right[best] / len(score))


def _read(data: Path, weights: str) -> tuple[dict[str, Corpus], Model]:
    """The dev pairs, and a network with the pretrained weights."""
    raw = tomllib.loads(text(PRESET, data=str(data.resolve())))
    raw["tasks"] = {task: raw["tasks"][task] for task in PAIRS}
    raw["encoder"]["weights"] = weights
    pretrained = find(weights, base=Path.cwd())
    raw["sharing"]["encoder"] = f"S{pretrained.shape.layers}"
    settings = check_settings(raw, place=f"preset {PRESET}")
    tasks, tokenizer = tasks_of(settings), load_tokenizer(pretrained)
    heads = head_plans(settings, tasks)
    network = Network(
        pretrained.shape, plan_of(settings, pretrained.shape, tasks, heads), tasks, heads
    )
    initialise(network, pretrained.tensors, seed=settings.train.seed)
    network.eval()
    use_threads(None)
    model = Model(
        network=network,
        tokenizer=tokenizer,
        template=template_of(tokenizer, segments=pretrained.shape.segments),
        pair_formats=pair_formats_of(settings, pretrained.shape, tasks),
        sources={},
        unlabelled={},
    )
    return corpora_of(sources_of(settings, tasks, Path.cwd()), "dev", tasks, tokenizer), model
