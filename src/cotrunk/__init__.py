"""Several text tasks, one shared trunk: multitask fine-tuning of BERT-family encoders.

Look at labelled files and write a config, train it, and ask the trained run:

>>> import cotrunk
>>> config = cotrunk.init(["reviews.csv"], "run.toml")
>>> run = cotrunk.train("run.toml", "runs/one", overrides=["train.epochs=1"])
>>> model = cotrunk.load("runs/one")
>>> list(model.tasks)
['stars']
>>> [answer] = model.predict("stars", ["A lovely film."])
>>> answer.prediction in ("bad", "good")
True

A mistake in a config, a file or a call is a `UserError`, a ``ValueError`` with one line for each.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotrunk.build.extensions import Extensions
    from cotrunk.build.train import TrainedRun
    from cotrunk.build.trained_model import TrainedModel
    from cotrunk.errors import UserError as UserError
    from cotrunk.learn.run import Interrupt
    from cotrunk.progress import OnProgress
    from cotrunk.runs.events import Event
    from cotrunk.study.shown import ShownComparison

# OpenMP reads this once, when torch is first imported. By default waiting threads spin, which on a
# busy machine takes up to ten times the CPU time of the work itself.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# oneDNN keeps the last 1,024 operations, one for every shape, and for GELU up to 10 MB each. Hardly
# two packed batches have the same shape, so that would take gigabytes and save no time.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")

__version__ = "0.2.0"
__all__ = ["UserError", "__version__", "compare", "init", "load", "train", "train_events"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name == "UserError":
        from cotrunk.errors import UserError

        return UserError
    raise AttributeError(f"module 'cotrunk' has no attribute {name!r}")


def init(files: str | Path | Sequence[str | Path], output: str | Path | None = None) -> str:
    """Look at labelled files and return a config that trains as it is: a task per label column.

    ``output`` is where to write it; it must not exist yet. Paths in the config are relative to it.

    >>> print(cotrunk.init("reviews.csv"))
    # Made from reviews.csv. Check the comments: they say what was seen, and why.
    ...
    [tasks.stars]
    kind = "classes"
    classes = ["bad", "good"]
    ...
    """
    from cotrunk.build.guessed import write_config
    from cotrunk.errors import UserError

    named = [files] if isinstance(files, str | Path) else files
    if not named:
        raise UserError("no files to look at; name at least one")
    return write_config([Path(file) for file in named], None if output is None else Path(output))


def train(
    config: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    extensions: "Extensions | None" = None,
) -> "TrainedRun":
    """Train a config into a run folder; ``overrides`` change settings: ``["train.epochs=1"]``.

    ``resume`` continues the run in ``out``, with the same config, overrides and data; ``force``
    continues even if they have changed. Prints nothing; problems are reported as Python warnings.

    >>> run = cotrunk.train("run.toml", "runs/one", resume=True, overrides=["train.epochs=1"])
    >>> run.scores["stars"]["metric"]
    'accuracy'
    >>> run.load().plan
    'S2'
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
    long operations between events. Setting ``interrupt.signal`` of a
    `cotrunk.learn.run.Interrupt` stops training after the current step: a checkpoint is saved, and
    `cotrunk.learn.run.Interrupted` is raised.

    >>> events = cotrunk.train_events("run.toml", "runs/two", overrides=["train.max_steps=1"])
    >>> [type(event).__name__ for event in events]
    ['Started', 'Stepped', 'Evaluated', 'Saved', 'Finished']
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
) -> "TrainedModel":
    """Load a trained run to predict, embed and evaluate; warns if its training has not finished.

    ``which`` is ``best``, ``final`` or ``best-TASK``. ``int8``: 8-bit layers on the CPU, faster but
    less exact.

    >>> model = cotrunk.load("runs/one")
    >>> model.predict_all(["A lovely film.", "So dull."])[1]["stars"].prediction in ("bad", "good")
    True
    >>> model.embed(["A lovely film."]).shape
    (1, 32)
    >>> scores = model.evaluate("reviews.csv", detail=True)
    >>> scores["stars"].metric, scores["stars"].rows, scores["stars"].baseline
    ('accuracy', 40, 0.5)
    >>> [(found.name, found.support) for found in scores.detail["stars"].classes]
    [('bad', 20), ('good', 20)]
    >>> model.evaluate("old.csv", tasks=["stars"], label="opinion")
    runs/one: old.csv
    task     metric                 score  constant answer  rows
    stars  accuracy  ... [..., ...]            0.500    40
    >>> model.predict("star", ["A lovely film."])
    Traceback (most recent call last):
    cotrunk.errors.UserError: 'star' is not a task of this run; ...
    """
    from warnings import warn

    from cotrunk.build.extensions import NO_EXTENSIONS
    from cotrunk.build.trained_model import load_trained
    from cotrunk.runs.folder import unfinished

    if note := unfinished(Path(run), which):
        warn(note, stacklevel=2)
    return load_trained(Path(run), which=which, int8=int8, extensions=extensions or NO_EXTENSIONS)


def compare(
    runs: str | Path | Sequence[str | Path],
    baseline: str | Path | None = None,
    *,
    margin: float = 0.01,
    extensions: "Extensions | None" = None,
) -> "ShownComparison":
    """Compare runs on their dev rows with a baseline: a run, or a folder of its seeds.

    ``runs`` are run folders, or folders with runs in them; the default baseline is the first run.
    A difference below ``margin`` does not matter. A notebook shows the result as tables;
    ``.to_json()`` has everything.

    >>> cotrunk.compare(["runs/one", "runs/two"]).tasks
    ['stars']
    """
    from cotrunk.build.extensions import NO_EXTENSIONS
    from cotrunk.study.compare import compare as compare_runs
    from cotrunk.study.shown import shown

    named = [runs] if isinstance(runs, str | Path) else runs
    return shown(
        compare_runs(
            [Path(run) for run in named],
            baseline=None if baseline is None else Path(baseline),
            margin=margin,
            kinds=(extensions or NO_EXTENSIONS).all_kinds,
        )
    )
