"""Refusals that need nothing but the settings: said before the first file is read."""

from collections.abc import Callable
from functools import partial

from cotrunk.build.tasks import tasks_of
from cotrunk.config.settings import Settings
from cotrunk.errors import UserError
from cotrunk.learn.combine import combiner
from cotrunk.learn.loss_weighting import loss_weighting
from cotrunk.learn.regularize import regularizer


def refuse_wrong_options(settings: Settings) -> None:
    """Ways of training that do not know their options, or lack a package; all at once.

    They are made only when their stage begins, and that would be too late to say so.
    """
    tasks = tasks_of(settings)
    weights = {name: part.weight for name, part in settings.tasks.items()}
    wrong: list[str] = []
    for train in settings.stages_of_training:
        wrong += complaints(partial(combiner, train.gradients, train.gradient_options))
        wrong += complaints(partial(regularizer, train.regularize, train.regularize_options))
        options = train.loss_weighting_options
        wrong += complaints(partial(loss_weighting, train.loss_weighting, tasks, weights, options))
    if wrong:
        raise UserError(*dict.fromkeys(wrong))


def complaints(make: Callable[[], object]) -> list[str]:
    try:
        make()
    except UserError as error:
        return list(error.lines)
    return []
