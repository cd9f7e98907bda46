"""Checks of the settings before any data file is read; all errors are reported at once."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.freezing import frozen_places, refuse_wrong_freezing
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.load import device_of
from cotrunk.build.plan import plan_of, trunk_of
from cotrunk.build.read import read_reporting_all
from cotrunk.build.sources import Sources, absent_files, share_of, sources_of
from cotrunk.build.stage import (
    sampler_of,
    tasks_in,
    trained_names,
    updated_in_stage,
    weighting_of,
)
from cotrunk.build.tasks import tasks_of
from cotrunk.config.settings import Settings, Train
from cotrunk.data.batches.samplers import ALL_TASKS_PER_STEP, DRAWN
from cotrunk.data.reading.files import CONLL
from cotrunk.errors import Errors, UserError, complaints
from cotrunk.kinds.task import Task
from cotrunk.learn.combine import combiner, compares_tasks
from cotrunk.learn.regularize import regularizer
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.place import AddPlaces
from cotrunk.model.weights.locate import local_shape
from cotrunk.track.follow import missing

StageCheck = Callable[[Train, Collection[str]], Iterable[str]]
"""(stage, keys that it sets itself) -> error lines; each line starts with its key."""


def read_checked(
    path: Path,
    changes: Sequence[str] = (),
    *,
    unset: Sequence[str] = (),
    extensions: Extensions = NO_EXTENSIONS,
) -> Settings:
    """The settings of a config file. If some are wrong, the others are checked as well."""

    def check(others: Settings) -> None:
        refuse_wrong(others, path.parent, extensions)

    return read_reporting_all(path, changes, unset=unset, kinds=extensions.all_kinds, check=check)


def refuse_wrong(settings: Settings, base: Path, extensions: Extensions) -> list[Task]:
    """Check what needs neither data files nor weights; returns the tasks."""
    errors = Errors()
    with errors.gathered():
        tasks = tasks_of(settings, extensions.all_kinds)
        refuse_wrong_settings(settings, tasks, sources_of(settings, tasks, base))
    if errors.lines:  # else the whole network is checked next
        errors.lines += complaints(partial(_refuse_wrong_trunk, settings, base))
    errors.refuse()
    return tasks


def _refuse_wrong_trunk(settings: Settings, base: Path) -> None:
    """Check the places below the heads, if the shape of the encoder is on this machine."""
    if (shape := local_shape(settings.encoder.weights, base=base)) is not None:
        trunk_of(settings, shape)


def refuse_wrong_settings(settings: Settings, tasks: list[Task], sources: Sources) -> None:
    """Check what needs only the settings and which files exist."""
    errors = Errors()
    errors.lines += complaints(partial(head_plans, settings, tasks))
    errors.lines += wrong_stages(settings, tasks)
    errors.lines += complaints(partial(device_of, settings.train.device))
    errors.lines += missing(settings.track.to)
    errors.lines += _missing_files(settings, tasks, sources)
    errors.lines += _choices_without_dev(settings, tasks)
    errors.lines += _unused_columns(settings, sources)
    errors.lines += absent_files(settings, tasks, sources)
    errors.refuse()


def wrong_stages(settings: Settings, tasks: list[Task]) -> list[str]:
    """Error lines about the training stages, each with its key."""
    by_name = {task.name: task for task in tasks}
    return [
        *in_stages(settings, partial(_wrong_options, settings, by_name)),
        *in_stages(settings, partial(_wrong_combination, settings)),
        *in_stages(settings, partial(_wrong_shares, settings)),
        *_untrained_tasks(settings),
    ]


def refuse_wrong_network(
    settings: Settings,
    shape: Shape,
    tasks: list[Task],
    heads: Mapping[str, HeadPlan],
    more: Sequence[AddPlaces] = (),
) -> None:
    """Check what needs the encoder's shape: the plan, and which tasks train which parameters."""
    errors = Errors()
    errors.lines += complaints(partial(pair_formats_of, settings, shape, tasks))
    with errors.gathered():
        plan = plan_of(settings, shape, tasks, heads, more=more)
        errors.lines += complaints(partial(refuse_wrong_freezing, settings, plan))
        with torch.device("meta"):  # names and owners of parameters, without allocating them
            network = Network(shape, plan, tasks, heads)
        errors.lines += in_stages(settings, partial(_frozen_tasks, settings, network))
        refuse_methods_without_effect(settings, network)
    errors.refuse()


def in_stages(settings: Settings, find: StageCheck) -> list[str]:
    """Error lines of all stages, each with the place where its key is set.

    ``train.lr``; or ``stages 2: lr`` if the stage sets it, and ``stages 2: train.lr`` if the value
    from [train] is wrong only for that stage.
    """
    found: dict[str, list[int]] = {}
    own = [frozenset(stage) for stage in settings.stages] or [frozenset()]
    for number, train in enumerate(settings.stages_of_training):
        for line in find(train, own[number]):
            found.setdefault(line, []).append(number)
    lines = []
    for line, numbers in found.items():
        key = re.split(r"\W", line, maxsplit=1)[0]
        where = "" if key == "tasks" else "train."
        if len(numbers) == len(own) and not any(key in own[number] for number in numbers):
            lines.append(f"{where}{line}")
            continue
        lines += [f"stages {n + 1}: {'' if key in own[n] else where}{line}" for n in numbers]
    return lines


def _wrong_options(
    settings: Settings, tasks: Mapping[str, Task], train: Train, _own: Collection[str]
) -> list[str]:
    """Unknown options of methods, or missing packages: found by creating the methods."""
    mine = [tasks[name] for name in tasks_in(settings, train)]
    return [
        *complaints(partial(sampler_of, settings, train)),
        *complaints(partial(combiner, train.gradients, train.gradient_options)),
        *complaints(partial(regularizer, train.regularize, train.regularize_options)),
        *complaints(partial(weighting_of, settings, train, mine)),
    ]


def _wrong_combination(settings: Settings, train: Train, own: Collection[str]) -> list[str]:
    """Settings that are valid alone, but not together."""
    wrong = []
    drawn_alone = train.sampling not in ALL_TASKS_PER_STEP and train.accumulate == 1
    wanted = train.gradients if compares_tasks(train.gradients) else ""
    several = len(tasks_in(settings, train)) > 1
    if drawn_alone and several and (wanted or train.loss_weighting == "gradnorm"):
        key = f"gradients = {wanted!r}" if wanted else 'loss_weighting = "gradnorm"'
        wrong.append(
            f"{key} compares the tasks of a step, but sampling = {train.sampling!r} trains one "
            'task per step; use sampling = "together", or set accumulate above 1'
        )
    if train.evaluate == "never" and (train.early_stopping or train.keep_each):
        key = "early_stopping" if train.early_stopping else "keep_each"
        wrong.append(f'{key} needs evaluations, but train.evaluate = "never"')
    if train.schedule == "one-cycle" and train.warmup == 0:
        mine = "warmup" in own  # then train.warmup has no effect
        key = "warmup" if mine else "train.warmup"
        fix = ", as in warmup = 0.3" if mine else ", as in train.warmup = 0.3"
        wrong.append(
            'warmup = 0, but schedule = "one-cycle" needs a warmup; '
            f"remove {key}, or set it above 0{fix}"
        )
    return wrong


def _wrong_shares(settings: Settings, train: Train, _own: Collection[str]) -> list[str]:
    tasks = tasks_in(settings, train)
    shares = {name: share for name in tasks if (share := settings.tasks[name].share) is not None}
    if not shares or len(tasks) == 1:
        return []
    keys = ", ".join(f"tasks.{name}.share" for name in shares)
    if train.sampling in ALL_TASKS_PER_STEP:
        return [
            f'{keys}: has no effect, because sampling = "{train.sampling}" trains all tasks in '
            "every step; use weight or batch instead"
        ]
    if train.sampling not in DRAWN:
        return [
            f'{keys}: has no effect, because sampling = "{train.sampling}" has a fixed order; '
            f"use a sampler that draws tasks: {', '.join(sorted(DRAWN))}"
        ]
    total, everyone = sum(shares.values()), len(shares) == len(tasks)
    if everyone and abs(total - 1) > 1e-6:
        return [f"{keys}: the shares of all tasks must add up to 1; found {total:g}"]
    if not everyone and total >= 1:
        return [
            f"{keys}: must add up to less than 1 unless all tasks have a share; found {total:g}"
        ]
    return []


def _untrained_tasks(settings: Settings) -> list[str]:
    trained = {name for train in settings.stages_of_training for name in tasks_in(settings, train)}
    return [
        f"tasks.{name}: no stage trains it; add it to the tasks of a stage, or remove it"
        for name in settings.tasks
        if name not in trained
    ]


def _choices_without_dev(settings: Settings, tasks: Sequence[Task]) -> list[str]:
    """Settings to be chosen on the dev rows, although the last network is not evaluated."""
    if settings.stages_of_training[-1].evaluate != "never":
        return []
    raw = {task.name: settings.tasks[task.name].model_extra or {} for task in tasks}
    return [
        f"tasks.{task.name}.{key} = {raw[task.name].get(key)!r} needs evaluations, "
        'but train.evaluate = "never"; set train.evaluate = "epoch", or give a value'
        for task in tasks
        for key in task.labels.left_to_dev
    ]


def _missing_files(settings: Settings, tasks: Sequence[Task], sources: Sources) -> list[str]:
    measured = any(train.evaluate != "never" for train in settings.stages_of_training)
    wrong = []
    for name in (task.name for task in tasks if not task.labels.texts_of):
        if name not in sources["train"]:
            wrong.append(f"tasks.{name}.train is missing: name the training file")
        if name not in sources["dev"] and measured:
            wrong.append(
                f"tasks.{name}.dev is missing: name the file to evaluate on, "
                'a share of the training rows (dev = 0.1), or set train.evaluate = "never"'
            )
        held = [share_of(settings.tasks[name], split) for split in ("dev", "test")]
        if sum(held) >= 1:
            wrong.append(
                f"tasks.{name}.dev + test = {sum(held):g}: nothing is left to train on; "
                "give shares that add up to less than 1"
            )
    return wrong


def _unused_columns(settings: Settings, sources: Sources) -> list[str]:
    read = {
        name: [s for by in sources.values() for s in by.get(name, ())] for name in settings.tasks
    }
    return [
        f"tasks.{name}.columns: has no effect, because none of its files is a CoNLL file "
        f"({', '.join(CONLL)}); remove it"
        for name, part in settings.tasks.items()
        if part.columns and not any(s.path.suffix.lower() in CONLL for s in read[name])
    ]


def _frozen_tasks(
    settings: Settings, network: Network, train: Train, _own: Collection[str]
) -> list[str]:
    """Tasks of a stage that update nothing: their loss would have no gradient."""
    if complaints(partial(frozen_places, train, network.plan)):
        return []  # refused as a whole
    updated_by = updated_in_stage(network, tasks_in(settings, train))
    updated = trained_names(settings, train, network)
    return [
        f"freeze = {train.freeze!r}: nothing that task {name} trains is left; "
        "leave out a part that it uses, such as its head"
        for name in tasks_in(settings, train)
        if not any(name in updated_by[parameter] for parameter in updated)
    ]


def refuse_methods_without_effect(settings: Settings, network: Network) -> None:
    """A gradient method has no effect if no two tasks train the same parameter in any stage."""
    stages = settings.stages_of_training
    chosen = [train for train in stages if compares_tasks(train.gradients)]
    if chosen and not any(_trained_together(settings, train, network) for train in chosen):
        layers = {place.name for place in network.plan.acting("layer")}
        frozen = all(layers <= frozen_places(train, network.plan) for train in chosen)
        neck = "share a neck, because the encoder is frozen"
        raise UserError(
            f"train.gradients = {chosen[0].gradients!r} has no effect: in this plan no two tasks "
            f'train the same parameter; {neck if frozen else "share a layer"}, or use "sum"'
        )
    balanced = [train for train in stages if train.loss_weighting == "gradnorm"]
    if balanced and not any(
        set(tasks_in(settings, train)) in _trained_together(settings, train, network)
        for train in balanced
    ):
        raise UserError(
            'train.loss_weighting = "gradnorm" needs parameters that all tasks train, '
            "and this plan has none; share a layer among all tasks"
        )


def _trained_together(settings: Settings, train: Train, network: Network) -> list[frozenset[str]]:
    """The groups of two or more tasks that train the same parameter in a stage."""
    updated_by = updated_in_stage(network, tasks_in(settings, train))
    frozen, places = frozen_places(train, network.plan), network.places_of()
    return [
        group
        for name, group in updated_by.items()
        if len(group) > 1 and places[name].name not in frozen
    ]
