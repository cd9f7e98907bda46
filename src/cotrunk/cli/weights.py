"""``cotrunk weights``: fetch pretrained weights, so that training needs no network."""

from argparse import Namespace

from cotrunk.cli.terminal.output import Document, out
from cotrunk.model.weights.fetch import fetch


def weights(arguments: Namespace) -> Document:
    folder, source = fetch(arguments.name)
    if not arguments.json:
        out().print(f"{arguments.name}: from {source}, in {folder}")
    return {"weights": arguments.name, "folder": str(folder), "source": source}
