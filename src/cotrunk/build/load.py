"""A run folder -> a trained model."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.plan import new_places, plan_of
from cotrunk.build.sources import sources_of, unlabelled_sources
from cotrunk.build.tasks import bound_tasks, tasks_of
from cotrunk.config.settings import check_settings
from cotrunk.data.batches.text import PairFormat, Template, template_of
from cotrunk.errors import UserError
from cotrunk.infer.model import Model
from cotrunk.model.encoder.shape import Shape, shape_from_config
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.warm_start import difference, have_same_heads, warm_start
from cotrunk.runs.checkpoint import read_checkpoint
from cotrunk.runs.folder import RunFolder

LISTED = 12
"""Longest list of names in a note."""


def load_model(
    folder: Path,
    *,
    which: str = "best",
    device: str = "cpu",
    extensions: Extensions = NO_EXTENSIONS,
) -> Model:
    """A trained network from a run folder, verified by hash.

    Of the places in ``extensions``, those are added that the run was trained with.
    """
    place = _saved_network(RunFolder.open(folder), which)
    checkpoint = read_checkpoint(place)
    documents = checkpoint.documents
    settings = check_settings(
        documents["settings"], place=f"{place}/settings.json", kinds=extensions.all_kinds
    )
    shape = shape_from_config(documents["config"], f"{place}/config.json")
    tokenizer = Tokenizer.from_str(json.dumps(documents["tokenizer"]))
    tasks = tasks_of(settings, extensions.all_kinds)
    tasks = bound_tasks(tasks, tokenizer, vocabulary=shape.vocabulary)
    heads, tensors = head_plans(settings, tasks), checkpoint.tensors("model")
    plan = plan_of(settings, shape, tasks, heads).trained_before(
        list(tensors), more=new_places(extensions.places, shape, tasks, heads)
    )
    network = Network(shape, plan, tasks, heads)
    _refuse_other_tensors(network, tensors, place)
    network.load_state_dict(tensors, strict=True)
    network.to(device_of(device))
    return Model(
        network,
        tokenizer,
        template_of(tokenizer, segments=shape.segments),
        pair_formats_of(settings, shape, tasks),
        sources_of(settings, tasks, Path(documents["base"])),
        unlabelled_sources(settings),
    )


def _saved_network(run: RunFolder, which: str) -> Path:
    place = run.path / which
    if not re.fullmatch(r"final|best(-[A-Za-z0-9_-]+)?", which):
        raise UserError(f"--which {which}: give best, final or best-TASK")
    if not (place.is_dir() or place.with_name(f"{which}.old").is_dir()):
        if run.is_finished and which.startswith("best-"):
            why = "it was trained without train.keep_each = true, or has no such task"
        else:
            why = "its training has not saved one yet; continue it with `cotrunk train --resume`"
        raise UserError(f"{run.path} has no {which}/: {why}")
    return place


def _refuse_other_tensors(
    network: Network, tensors: Mapping[str, torch.Tensor], folder: Path
) -> None:
    """A run trained with places of extensions cannot be loaded without them."""
    unknown = sorted(tensors.keys() - network.state_dict().keys())
    if unknown:
        raise UserError(
            f"{folder} has the parameter {unknown[0]}, which is not in its plan; "
            "load it with the extensions it was trained with"
        )


def device_of(name: str) -> torch.device:
    """``auto`` is cuda, else mps, else cpu."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"train.device = {name!r} is not available here: {reason}") from None
    return device


def start_from(
    network: Network, source: Model, template: Template, pair_formats: Mapping[str, PairFormat]
) -> tuple[str, ...]:
    """Copy a trained run's parameters into a network, and compare the outputs; returns notes."""
    if _without_dropout(source.network.shape) != _without_dropout(network.shape):
        raise UserError(
            "train.init_from: the run has a different encoder; encoder.weights must match"
        )
    fresh = warm_start(network, source.network)
    known = [task for task in network.tasks if task in source.network.tasks]
    alike = [task for task in known if have_same_heads(network, source.network, task)]
    apart = difference(network, source.network, alike, template, pair_formats)
    if not fresh and apart > 1e-5:
        raise RuntimeError(f"all parameters were copied, but outputs differ by {apart:.2g}")
    same = f"outputs for {', '.join(alike)} match the source run (max difference {apart:.1g})"
    notes = [f"started from a trained run; {same if alike else 'no head is the same'}"]
    if fresh:
        more = f" and {len(fresh) - LISTED} more" if len(fresh) > LISTED else ""
        names = ", ".join(fresh[:LISTED])
        notes.append(f"not in the source run, so initialised at random: {names}{more}")
    return tuple(notes)


def _without_dropout(shape: Shape) -> Shape:
    return replace(shape, dropout=0.0, attention_dropout=0.0)
