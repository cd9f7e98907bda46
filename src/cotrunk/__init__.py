"""Several text tasks, one shared trunk: multitask fine-tuning of BERT-family encoders.

``cotrunk.train("run.toml", "runs/x")`` trains a config; ``cotrunk.load("runs/x")`` gives a
`Predictor`, as in ``cotrunk.load("runs/x").predict("sst", ["A lovely film."])``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotrunk.infer.predictor import Predictor

__version__ = "0.1.0"
__all__ = ["__version__", "load", "train"]


def train(
    config: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    changes: Sequence[str] = (),
) -> dict[str, object]:
    """Train a config into a run folder; ``changes`` are as ``--set``: ``["train.epochs=1"]``.

    ``resume`` goes on with the run that is there, with the same config and changes; with ``force``
    it does so although they, or the data, are others now.
    """
    from cotrunk.cli.train import train_into
    from cotrunk.config.settings import read_settings
    from cotrunk.errors import UserError

    if isinstance(changes, str):
        raise UserError(f"changes: give a list, as in changes=[{changes!r}]")
    path = Path(config)
    settings = read_settings(path, list(changes))
    return train_into(settings, path.parent, Path(out), title=path.stem, resume=resume, force=force)


def load(run: str | Path, *, which: str = "best", int8: bool = False) -> "Predictor":
    """The trained network of a run folder, ready to answer; says so if more training may change it.

    ``int8``: on the CPU, faster and rougher; ``cotrunk evaluate RUN --int8`` says how much.
    """
    from cotrunk.build.experiment import load_model
    from cotrunk.cli.terminal.output import note_unfinished
    from cotrunk.infer.int8 import to_int8
    from cotrunk.infer.predictor import Predictor

    note_unfinished(Path(run), which)
    model = load_model(Path(run), which=which, device="cpu" if int8 else "auto")
    if int8:
        to_int8(model.network)
    return Predictor(model)
