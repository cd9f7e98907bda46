"""A run folder -> a trained model."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.plan import new_places, plan_of
from cotrunk.build.saved import saved_splits
from cotrunk.build.sources import sources_of, unlabelled_sources
from cotrunk.build.tasks import bound_tasks, tasks_of
from cotrunk.config.check import check_settings
from cotrunk.data.batches.text import PairFormat, Template, template_of
from cotrunk.data.reading.splits import Splits
from cotrunk.errors import UserError, option, shown, spelled
from cotrunk.infer.model import Model
from cotrunk.model.encoder.shape import Shape, shape_of_saved
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.finite import not_finite
from cotrunk.model.weights.tokenizer import tokenizer_from
from cotrunk.model.weights.warm_start import difference, have_same_heads, warm_start
from cotrunk.runs.checkpoint import Checkpoint, read_checkpoint
from cotrunk.runs.folder import RunFolder

PASS_EXTENSIONS = spelled(
    command="use it from Python, with the extensions it was trained with",
    python="pass the extensions it was trained with",
)
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

    Only those places in ``extensions`` are added that the run was trained with.
    """
    place = _saved_network(RunFolder.open(folder), which)
    checkpoint = read_checkpoint(place)
    document, kinds = _table(checkpoint, "settings"), extensions.all_kinds
    _refuse_unknown_kinds(document, kinds, place=f"{place}/settings.json")
    settings = check_settings(document, place=f"{place}/settings.json", kinds=kinds)
    base = _base(checkpoint)
    shape = shape_of_saved(_table(checkpoint, "config"), f"{place}/config.json")
    tokenizer = tokenizer_from(
        _table(checkpoint, "tokenizer"), f"{place}/tokenizer.json", vocabulary=shape.vocabulary
    )
    tasks = tasks_of(settings, kinds)
    tasks = bound_tasks(tasks, tokenizer, vocabulary=shape.vocabulary)
    heads, tensors = head_plans(settings, tasks), checkpoint.tensors("model")
    plan = plan_of(settings, shape, tasks, heads).with_saved_places(
        list(tensors), more=new_places(extensions.places, shape, tasks, heads)
    )
    with torch.device("meta"):  # allocates nothing: a wrong shape could need too much memory
        _refuse_other_tensors(Network(shape, plan, tasks, heads), tensors, place)
    network = Network(shape, plan, tasks, heads)
    if broken := not_finite(tensors):
        raise UserError(f"{place}: {broken}, so it cannot be used; train it again")
    network.load_state_dict(tensors, strict=True)
    network.to(device_of(device))
    return Model(
        network,
        tokenizer,
        template_of(tokenizer, segments=shape.segments),
        pair_formats_of(settings, shape, tasks),
        sources_of(settings, tasks, base, _splits(checkpoint)),
        unlabelled_sources(settings),
    )


def _splits(checkpoint: Checkpoint) -> Splits | None:
    if "splits" not in checkpoint.loaded:
        return None
    arrays = {name: tensor.numpy() for name, tensor in checkpoint.tensors("splits").items()}
    return saved_splits(arrays, checkpoint.folder)


def _table(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    content = checkpoint.documents.get(name)
    if isinstance(content, dict):
        return content
    raise UserError(
        f"{checkpoint.folder}/{name}.json: must be a JSON object; found {shown(content)}"
    )


def _base(checkpoint: Checkpoint) -> Path:
    """The folder that paths in the settings are relative to."""
    content = checkpoint.documents.get("base")
    if isinstance(content, str) and content and "\0" not in content:
        return Path(content)
    raise UserError(f"{checkpoint.folder}/base.json: must be a path; found {shown(content)}")


def _saved_network(run: RunFolder, which: str) -> Path:
    place = run.path / which
    if not re.fullmatch(r"final|best(-[A-Za-z0-9_-]+)?", which):
        raise UserError(f"{option('which', which)}: give best, final or best-TASK")
    if not (place.is_dir() or place.with_name(f"{which}.old").is_dir()):
        if run.is_finished and which.startswith("best-"):
            why = "it was trained without train.keep_each = true, or has no such task"
        else:
            why = f"its training has not saved one yet; continue it with {option('resume')}"
        raise UserError(f"{run.path} has no {which}/: {why}")
    return place


def _refuse_unknown_kinds(
    settings: Mapping[str, Any], kinds: Collection[str], *, place: str
) -> None:
    """Kinds of extensions that are not given."""
    tasks = settings.get("tasks")
    parts = tasks.items() if isinstance(tasks, dict) else ()
    found = {name: part.get("kind") for name, part in parts if isinstance(part, dict)}
    wrong = [
        f"{place}: tasks.{name}.kind = {kind!r}: must be one of {', '.join(kinds)}; "
        + PASS_EXTENSIONS
        for name, kind in found.items()
        if isinstance(kind, str) and kind not in kinds
    ]
    if wrong:
        raise UserError(*wrong)


def _refuse_other_tensors(
    network: Network, tensors: Mapping[str, torch.Tensor], folder: Path
) -> None:
    """A run trained with places of extensions cannot be loaded without them."""
    needed = network.state_dict()
    unknown = sorted(tensors.keys() - needed.keys())
    if unknown:
        raise UserError(
            f"{folder} has the parameter {shown(unknown[0])}, which is not in its plan; "
            + PASS_EXTENSIONS
        )
    for name, tensor in needed.items():
        size = list(tensors[name].shape) if name in tensors else "missing"
        if size != list(tensor.shape):
            wanted = f"its settings need the size {list(tensor.shape)}"
            raise UserError(f"{folder}: the parameter {name} is {size}, but {wanted}")


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
    notes = [f"started from a trained run; {same if alike else 'no heads are the same'}"]
    if fresh:
        more = f" and {len(fresh) - LISTED} more" if len(fresh) > LISTED else ""
        names = ", ".join(fresh[:LISTED])
        notes.append(f"not in the source run, so initialised at random: {names}{more}")
    return tuple(notes)


def _without_dropout(shape: Shape) -> Shape:
    return replace(shape, dropout=0.0, attention_dropout=0.0)
