"""Several text tasks, one shared trunk: multitask fine-tuning of BERT-family encoders.

``cotrunk.train("run.toml", "runs/x")`` trains a config; ``cotrunk.load("runs/x")`` gives a
`Predictor`, as in ``cotrunk.load("runs/x").predict("sst", ["A lovely film."])``;
``cotrunk.compare(["runs/x", "runs/y"])`` compares runs.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotrunk.build.extensions import Extensions
    from cotrunk.build.train import TrainedRun
    from cotrunk.infer.predictor import Predictor
    from cotrunk.learn.run import Interrupt
    from cotrunk.progress import OnProgress
    from cotrunk.runs.events import Event
    from cotrunk.study.comparison import Comparison

# OpenMP reads this once, when torch is first imported. By default waiting threads spin, which on a
# busy machine takes up to ten times the CPU time of the work itself.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.2.0"
__all__ = ["__version__", "compare", "load", "train", "train_events"]


def train(
    config: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    extensions: "Extensions | None" = None,
) -> "TrainedRun":
    """Train a config into a run folder; ``overrides`` are as in ``--set``: ``["train.epochs=1"]``.

    ``resume`` continues the run in ``out``, with the same config, overrides and data; ``force``
    continues even if they have changed. Prints nothing; problems are reported as Python warnings.
    """
    from cotrunk.build.extensions import NO_EXTENSIONS
    from cotrunk.build.train import train as train_config

    return train_config(
        config,
        out,
        resume=resume,
        force=force,
        overrides=overrides,
        extensions=extensions or NO_EXTENSIONS,
    )


def train_events(
    config: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    extensions: "Extensions | None" = None,
    on_progress: "OnProgress | None" = None,
    interrupt: "Interrupt | None" = None,
) -> "Iterator[Event]":
    """Like ``train``, but an iterator over events (`cotrunk.runs.events`).

    Training advances as events are consumed; the last one is `Finished`. ``on_progress`` reports
    long operations between events. Setting ``interrupt.signal`` stops training after the current
    step, with a checkpoint.
    """
    from cotrunk.build.extensions import NO_EXTENSIONS
    from cotrunk.build.train import train_events as events_of_config
    from cotrunk.progress import ignore_progress

    return events_of_config(
        config,
        out,
        resume=resume,
        force=force,
        overrides=overrides,
        extensions=extensions or NO_EXTENSIONS,
        on_progress=on_progress or ignore_progress,
        interrupt=interrupt,
    )


def load(
    run: str | Path,
    *,
    which: str = "best",
    int8: bool = False,
    extensions: "Extensions | None" = None,
) -> "Predictor":
    """Load a trained run for prediction; warns if its training has not finished.

    ``int8``: 8-bit layers on the CPU, faster but less exact; ``cotrunk evaluate RUN --int8``
    measures the difference.
    """
    from warnings import warn

    from cotrunk.build.extensions import NO_EXTENSIONS
    from cotrunk.build.load import load_model
    from cotrunk.infer.int8 import to_int8
    from cotrunk.infer.predictor import Predictor
    from cotrunk.runs.folder import unfinished

    if note := unfinished(Path(run), which):
        warn(note, stacklevel=2)
    device = "cpu" if int8 else "auto"
    model = load_model(
        Path(run), which=which, device=device, extensions=extensions or NO_EXTENSIONS
    )
    if int8:
        to_int8(model.network)
    return Predictor(model)


def compare(
    runs: str | Path | Sequence[str | Path],
    baseline: str | Path | None = None,
    *,
    margin: float = 0.01,
    extensions: "Extensions | None" = None,
) -> "Comparison":
    """Compare runs on their dev rows with a baseline: a run, or a folder of its seeds.

    ``runs`` are run folders, or folders with runs in them; the default baseline is the first run.
    A difference below ``margin`` does not matter. ``.to_json()`` is what ``cotrunk compare --json``
    prints.
    """
    from cotrunk.build.extensions import NO_EXTENSIONS
    from cotrunk.study.compare import compare as compare_runs

    named = [runs] if isinstance(runs, str | Path) else runs
    return compare_runs(
        [Path(run) for run in named],
        baseline=None if baseline is None else Path(baseline),
        margin=margin,
        kinds=(extensions or NO_EXTENSIONS).all_kinds,
    )
