"""Presets for any encoder: their plans are fitted to its depth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotrunk.build.heads import head_plans
from cotrunk.build.plan import plan_of
from cotrunk.build.tasks import tasks_of
from cotrunk.config import presets
from cotrunk.config.check import check_settings
from cotrunk.model.sharing.parameter_table import parameter_table
from cotrunk.model.weights.locate import shape_of

PUBLISHED_LAYERS = {
    "bert-base-uncased": 12,
    "bert-base-cased": 12,
    "bert-large-uncased": 24,
    "bert-large-cased": 24,
    "roberta-base": 12,
    "roberta-large": 24,
    "distilbert-base-uncased": 6,
}
"""Depths of popular models, so that the hub is not needed for them."""


def preset_text(
    name: str,
    *,
    data: str | None = None,
    weights: str | None = None,
    as_reported: bool = False,
    base: Path,
) -> str:
    """A complete config; a folder of ``weights`` is relative to ``base``."""
    layers = None if weights is None else layers_of(weights, base=base)
    return presets.text(name, data=data, weights=weights, layers=layers, as_reported=as_reported)


def layers_of(weights: str, *, base: Path) -> int:
    if weights in PUBLISHED_LAYERS and not (base / weights).is_dir():
        return PUBLISHED_LAYERS[weights]
    return shape_of(weights, base=base).layers


def parameters_of(raw: Mapping[str, Any], place: str) -> int:
    """The size of the network that a config describes, without weights or data."""
    settings = check_settings(dict(raw), place=place)
    tasks = tasks_of(settings)
    shape = shape_of(settings.encoder.weights, base=Path())
    plan = plan_of(settings, shape, tasks, head_plans(settings, tasks))
    return parameter_table(plan).parameters["total"]
