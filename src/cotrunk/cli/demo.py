"""``cotrunk demo``: three plans on the sample data, in one table."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from cotrunk.build.load import load_model
from cotrunk.build.sources import corpora_of
from cotrunk.cli.terminal import tables
from cotrunk.cli.terminal.output import Document
from cotrunk.cli.train import train_into
from cotrunk.config import presets
from cotrunk.errors import UserError


def demo(arguments: Namespace) -> Document:
    """The three plans of Hybrid BERT on the sample data, in one table."""
    out = Path(arguments.out)
    taken = [name for name in presets.DEMO if (out / name / "run.json").exists()]
    if taken:
        raise UserError(f"{out / taken[0]}: already exists; choose another folder with --out")
    document: Document = {"runs": []}
    for name in presets.DEMO:
        settings = presets.settings(name, changes=[*presets.DEMO_CHANGES, *arguments.set])
        result = train_into(settings, Path.cwd(), out / name, title=name)
        document["runs"].append({"plan": name, "sharing": settings.sharing.encoder, **result})
    if not arguments.json:
        tables.show_demo(document["runs"], baselines=_baselines(document["runs"][0]))
    return document


def _baselines(run: Document) -> dict[str, float]:
    """The dev score of always giving the same answer."""
    model = load_model(Path(run["run"]))
    tasks = list(model.network.tasks.values())
    dev = corpora_of(model.sources, "dev", tasks, model.tokenizer)
    return {
        task.name: task.labels.baseline(np.asarray(dev[task.name].target))
        for task in tasks
        if task.labels.can_answer
    }
