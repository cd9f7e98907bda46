"""Refusals: all of them before the first data file is read, all at once, each with its key."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import torch

from cotrunk.build.freezing import frozen_places, refuse_senseless_freezing
from cotrunk.build.heads import head_plans, pair_formats_of
from cotrunk.build.load import device_of
from cotrunk.build.plan import plan_of
from cotrunk.build.sources import Sources, refuse_absent
from cotrunk.build.stage import sampler_of, tasks_in, updated_in_stage, weighting_of
from cotrunk.config.settings import Settings, Train
from cotrunk.data.batches.samplers import ALL_TASKS_PER_STEP, DRAWN
from cotrunk.errors import Errors, UserError, complaints
from cotrunk.kinds.task import Task
from cotrunk.learn.combine import combiner
from cotrunk.learn.regularize import regularizer
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.place import AddPlaces

Find = Callable[[Train, Collection[str]], Iterable[str]]
"""What is wrong with a stage, given the keys that it sets itself. A line begins with its key."""


def refuse_wrong_settings(settings: Settings, tasks: list[Task], sources: Sources) -> None:
    """What needs nothing but the settings, and to know which files there are."""
    errors = Errors()
    errors.lines += complaints(partial(head_plans, settings, tasks))
    errors.lines += wrong_stages(settings, tasks)
    errors.lines += complaints(partial(device_of, settings.train.device))
    errors.lines += _missing_files(settings, tasks, sources)
    own = {task.name for task in tasks if not task.labels.texts_of}  # others are told by theirs
    for split, by_task in sources.items():
        for task, files in by_task.items():
            for source in files if task in own else ():
                with errors.gathered():
                    refuse_absent(source.path, place=f"tasks.{task}.{split}")
    errors.refuse()


def wrong_stages(settings: Settings, tasks: list[Task]) -> list[str]:
    """What is wrong with how the stages train, each line with its key."""
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
    """What can be seen once the encoder's shape is known: who is trained, and with whom."""
    errors = Errors()
    errors.lines += complaints(partial(pair_formats_of, settings, shape, tasks))
    with errors.gathered():
        plan = plan_of(settings, shape, tasks, heads, more=more)
        errors.lines += complaints(partial(refuse_senseless_freezing, settings, plan))
        with torch.device("meta"):  # its parameters have names and owners, but no memory
            network = Network(shape, plan, tasks, heads)
        refuse_idle_methods(settings, network)
    errors.refuse()


def in_stages(settings: Settings, find: Find) -> list[str]:
    """What is wrong with the stages, each line with the place where its key is written.

    ``train.lr``; or ``stages 2: lr`` where the stage sets it, and ``stages 2: train.lr`` where it
    is wrong only for that stage, which takes it from [train].
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
    """Methods that do not know their options, or lack a package: made here as their stage will."""
    mine = [tasks[name] for name in tasks_in(settings, train)]
    return [
        *complaints(partial(sampler_of, settings, train)),
        *complaints(partial(combiner, train.gradients, train.gradient_options)),
        *complaints(partial(regularizer, train.regularize, train.regularize_options)),
        *complaints(partial(weighting_of, settings, train, mine)),
    ]


def _wrong_combination(settings: Settings, train: Train, own: Collection[str]) -> list[str]:
    """Settings that are good by themselves, but not together."""
    wrong = []
    drawn_alone = train.sampling not in ALL_TASKS_PER_STEP and train.accumulate == 1
    wanted = train.gradients if train.gradients not in ("sum", "mean") else ""
    several = len(tasks_in(settings, train)) > 1
    if drawn_alone and several and (wanted or train.loss_weighting == "gradnorm"):
        key = f"gradients = {wanted!r}" if wanted else 'loss_weighting = "gradnorm"'
        wrong.append(
            f"{key} compares a step's tasks, but sampling = {train.sampling!r} never gives it two; "
            'use sampling = "together", or accumulate several batches'
        )
    if train.evaluate == "never" and (train.early_stopping or train.keep_each):
        key = "early_stopping" if train.early_stopping else "keep_each"
        wrong.append(f'{key} needs evaluations, but train.evaluate = "never"')
    if train.schedule == "one-cycle" and train.warmup == 0:
        mine = "warmup" in own  # --set train.warmup would not reach it
        key = "warmup" if mine else "train.warmup"
        fix = " there, as in warmup = 0.3" if mine else ", as in --set train.warmup=0.3"
        wrong.append(
            'warmup = 0, but schedule = "one-cycle" needs a share of the steps to rise in; '
            f"leave {key} out, or set it above 0{fix}"
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
            f'{keys}: sampling = "{train.sampling}" gives every step all tasks; '
            "use weight or batch instead"
        ]
    if train.sampling not in DRAWN:
        return [
            f'{keys}: sampling = "{train.sampling}" gives the tasks their turns in order; '
            f"use one that draws them: {', '.join(sorted(DRAWN))}"
        ]
    total, everyone = sum(shares.values()), len(shares) == len(tasks)
    if everyone and abs(total - 1) > 1e-6:
        return [f"{keys}: shares of all tasks must add up to 1; found {total:g}"]
    if not everyone and total >= 1:
        return [
            f"{keys}: must add up to less than 1, to leave some for the others; found {total:g}"
        ]
    return []


def _untrained_tasks(settings: Settings) -> list[str]:
    trained = {name for train in settings.stages_of_training for name in tasks_in(settings, train)}
    return [
        f"tasks.{name}: no stage trains it; name it in the tasks of a stage, or leave it out"
        for name in settings.tasks
        if name not in trained
    ]


def _missing_files(settings: Settings, tasks: Sequence[Task], sources: Sources) -> list[str]:
    measured = any(train.evaluate != "never" for train in settings.stages_of_training)
    wrong = []
    for name in (task.name for task in tasks if not task.labels.texts_of):
        if name not in sources["train"]:
            wrong.append(f"tasks.{name}.train is missing: name the file of training rows")
        if name not in sources["dev"] and measured:
            wrong.append(
                f"tasks.{name}.dev is missing: name the file to measure on, "
                'or set train.evaluate = "never"'
            )
    return wrong


def refuse_idle_methods(settings: Settings, network: Network) -> None:
    """A gradient method has nothing to do where no stage lets two tasks move one parameter."""
    stages = settings.stages_of_training
    chosen = [train for train in stages if train.gradients not in ("sum", "mean")]
    if chosen and not any(_trained_together(settings, train, network) for train in chosen):
        layers = {place.name for place in network.plan.acting("layer")}
        frozen = all(layers <= frozen_places(train, network.plan) for train in chosen)
        neck = "share a neck, which a frozen encoder leaves to be trained"
        raise UserError(
            f"train.gradients = {chosen[0].gradients!r}: no two tasks train a parameter together "
            "in this plan, so there is nothing to combine; "
            f'{neck if frozen else "share a layer"}, or write "sum"'
        )
    balanced = [train for train in stages if train.loss_weighting == "gradnorm"]
    if balanced and not any(
        set(tasks_in(settings, train)) in _trained_together(settings, train, network)
        for train in balanced
    ):
        raise UserError(
            'train.loss_weighting = "gradnorm" compares gradients in a block that all tasks '
            "train, and this plan has none; share a layer among all tasks"
        )


def _trained_together(settings: Settings, train: Train, network: Network) -> list[frozenset[str]]:
    """The groups of two or more tasks of a stage that move some parameter that it trains."""
    updated_by = updated_in_stage(network, tasks_in(settings, train))
    frozen, places = frozen_places(train, network.plan), network.places_of()
    return [
        group
        for name, group in updated_by.items()
        if len(group) > 1 and places[name].name not in frozen
    ]
