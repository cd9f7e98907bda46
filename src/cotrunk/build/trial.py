"""A config with choices applied: the settings of one trial of a sweep."""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cotrunk.build.checks import refuse_wrong_network, refuse_wrong_settings
from cotrunk.build.corpora import corpora_of
from cotrunk.build.heads import head_plans
from cotrunk.build.plan import with_dropout
from cotrunk.build.prepare import use_threads
from cotrunk.build.resume import differences
from cotrunk.build.sources import sources_of
from cotrunk.build.stage import steps_of, stream_of
from cotrunk.build.tasks import bound_tasks, fitted_tasks, tasks_of
from cotrunk.config import presets
from cotrunk.config.check import check_settings, read_raw
from cotrunk.config.overrides import Keys, remove_keys, set_value
from cotrunk.config.settings import Settings, Train
from cotrunk.errors import UserError, did_you_mean
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.weights.locate import shape_of
from cotrunk.model.weights.pretrained import find, load_tokenizer
from cotrunk.runs.folder import RunFolder

Raw = dict[str, Any]
DEFAULT_SEED = Train().seed


@dataclass(frozen=True)
class Base:
    """A config before choices are applied; its paths are relative to ``folder``.

    ``place`` names it in messages; ``changed`` are the keys that it does not set itself.
    """

    raw: Mapping[str, Any]
    folder: Path
    place: str
    changed: frozenset[Keys] = frozenset()


def config_base(path: Path) -> Base:
    return Base(read_raw(path), path.parent, str(path))


def preset_base(name: str, folder: Path, *, data: str | None = None) -> Base:
    """``data``: a folder with the course's files, instead of the sample data."""
    return Base(presets.raw(name, data=data), folder, f"preset {name}")


def with_changes(base: Base, *, unset: Sequence[str], overrides: Mapping[str, Any]) -> Base:
    """``base`` without the ``unset`` keys and with ``overrides`` by dotted key."""
    raw = deepcopy(dict(base.raw))
    remove_keys(raw, unset, said="unset")
    changed = {set_value(raw, tuple(key.split(".")), value) for key, value in overrides.items()}
    return replace(base, raw=raw, changed=frozenset(changed))


def raw_settings(
    base: Base, changes: Mapping[str, Any], *, removed: Collection[str], seed: int, threads: int
) -> tuple[Raw, set[Keys]]:
    """The config of a trial and the keys that were changed.

    ``changes`` by dotted key; ``tasks`` set to a list keeps only these tasks. Removals come last,
    so that no other choice can add what a trial removes.
    """
    raw = deepcopy(dict(base.raw))
    changed = set(base.changed)
    for key, value in changes.items():
        if key != "tasks" or not isinstance(value, list):
            changed.add(set_value(raw, tuple(key.split(".")), deepcopy(value)))
    for key in removed:
        *above, last = key.split(".")
        table: Any = raw
        for part in above:
            table = table.get(part, {})
        table.pop(last, None)
    if isinstance(wanted := changes.get("tasks"), list):
        raw["tasks"] = _subset(raw.get("tasks", {}), wanted)
    train = raw.setdefault("train", {})
    if isinstance(train, dict):
        train |= {"seed": seed, "threads": threads}
    return raw, changed


def _subset(tasks: Raw, wanted: Sequence[str]) -> Raw:
    unknown = [name for name in wanted if name not in tasks]
    if unknown:
        hint = did_you_mean(unknown[0], tasks) or f"; tasks are {', '.join(tasks)}"
        raise UserError(f"tasks: {unknown[0]!r} is not a task of the base{hint}")
    return {name: task for name, task in tasks.items() if name in wanted}


def check_trial(raw: Raw, base: Base, *, changed: Collection[Keys], place: str) -> Settings:
    """All checks that need no data; errors in ``changed`` keys are reported at ``place``."""
    settings = check_settings(raw, place=base.place, changed=changed, changed_by=f"{place}: ")
    tasks = tasks_of(settings)
    refuse_wrong_settings(settings, tasks, sources_of(settings, tasks, base.folder))
    shape = with_dropout(_shape(settings.encoder.weights, base.folder), settings)
    refuse_wrong_network(settings, shape, tasks, head_plans(settings, tasks))
    return settings


@lru_cache
def _shape(weights: str, folder: Path) -> Shape:
    return shape_of(weights, base=folder)


def settings_of_job(raw: Raw, place: str) -> Settings:
    return check_settings(raw, place=place)


def changes_since(run: RunFolder, settings: Settings) -> list[str]:
    """One line for each setting that differs from those a run was trained with."""
    before = run.read_document("run")
    trained = before.get("settings") if isinstance(before, dict) else None
    return list(differences({"settings": trained}, {"settings": settings.model_dump()}))


def steps_of_settings(settings: Settings, folder: Path) -> int:
    """How many steps a run makes: reads its rows, or the cache, but builds no network."""
    use_threads(settings.train.threads)
    pretrained = find(settings.encoder.weights, base=folder)
    tokenizer = load_tokenizer(pretrained)
    tasks = tasks_of(settings)
    tasks = bound_tasks(tasks, tokenizer, vocabulary=pretrained.shape.vocabulary)
    tasks = fitted_tasks(settings, tasks, folder)
    train = corpora_of(sources_of(settings, tasks, folder), "train", tasks, tokenizer)
    stages = enumerate(settings.stages_of_training)
    return sum(
        steps_of(stage, stream_of(settings, stage, train, number=number))
        for number, stage in stages
    )
