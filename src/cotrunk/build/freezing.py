"""The frozen places of a stage, and the learning rates of the others."""

from collections.abc import Iterator, Mapping

from cotrunk.config.settings import Settings, Train
from cotrunk.errors import UserError
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import Plan
from cotrunk.model.sharing.select import select

NOTHING = "nothing"


def frozen_places(train: Train, plan: Plan, *, key: str = "train.freeze") -> frozenset[str]:
    """Names of the places that a stage does not train; ``key`` names the setting in errors."""
    if train.freeze == NOTHING:
        return frozenset()
    frozen = select(train.freeze, plan, place=f"{key} = {train.freeze!r}")
    if len(frozen) == len(plan.places):
        raise UserError(
            f"{key} = {train.freeze!r} freezes the whole network; leave a part out, such as heads"
        )
    return frozenset(place.name for place in frozen)


def always_frozen(settings: Settings, plan: Plan) -> frozenset[str]:
    """Names of the places that no stage trains."""
    stages = [frozen_places(train, plan, key=key) for train, key in _stages(settings, "freeze")]
    return frozenset.intersection(*stages)


def own_rates(train: Train, plan: Plan, *, key: str = "train.rates") -> dict[str, float]:
    """Learning rates of the places that ``rates`` names."""
    frozen, rates = frozen_places(train, plan), {}
    written: dict[str, str] = {}
    for words, rate in train.rates.items():
        places = select(words, plan, place=f"{key}, {words!r}")
        if all(place.name in frozen for place in places):
            raise UserError(
                f"{key}: {words!r} has no effect, because freeze = {train.freeze!r} freezes it; "
                "remove one of them"
            )
        for place in places:
            if place.name in written:
                raise UserError(
                    f"{key}: {place.name} is in {written[place.name]!r} and in {words!r}; "
                    "it can have only one rate"
                )
            written[place.name], rates[place.name] = words, rate
    return rates


def learning_rate_factors(
    train: Train, plan: Plan, places: Mapping[str, Place]
) -> dict[str, float]:
    """Factors of ``lr`` by parameter name, where they are not 1.

    Heads have ``head_lr``; each layer further from them is slower by ``layer_decay``.
    """
    layers, own = len(plan.acting("layer")), own_rates(train, plan)
    head = 1.0 if train.head_lr == "lr" else train.head_lr / train.lr

    def factor(place: Place) -> float:
        if place.name in own:
            return own[place.name] / train.lr
        if place.rate == "head":
            return head
        if place.acts == "embed":
            return train.layer_decay**layers
        return 1.0 if place.depth is None else train.layer_decay ** (layers - 1 - place.depth)

    factors = {name: factor(place) for name, place in places.items()}
    return {name: value for name, value in factors.items() if value != 1}


def can_cache_vectors(plan: Plan, frozen: frozenset[str]) -> bool:
    """Whether everything below pooling is frozen, so that pooled vectors can be cached."""
    below = [place for place in plan.places if place.encodes]
    return all(place.name in frozen and place.options is not None for place in below)


def refuse_wrong_freezing(settings: Settings, plan: Plan) -> None:
    """Check ``freeze`` and ``rates`` against the plan."""
    for train, key in _stages(settings, "freeze"):
        frozen = frozen_places(train, plan, key=key)
        if train.regularize == "smart" and can_cache_vectors(plan, frozen):
            raise UserError(
                'train.regularize = "smart" perturbs the embeddings, but with '
                f'freeze = "{train.freeze}" they are not computed in training'
            )
    for train, key in _stages(settings, "rates"):
        own_rates(train, plan, key=key)
    _refuse_equal_copies(settings, plan)


def _refuse_equal_copies(settings: Settings, plan: Plan) -> None:
    """Copies that no stage trains stay equal, unless they come from a trained run."""
    never = always_frozen(settings, plan)
    copied = [p for p in plan.places if p.name in never and len(p.partition) > 1]
    if copied and settings.train.init_from is None:
        first = copied[0]
        fix = f"share {first.name} among all tasks"
        if first.pretrained:
            layers = f'sharing.encoder = "S{len(plan.acting("layer"))}"'
            more = "" if first.acts == "layer" else f' and sharing.{first.part} = "S"'
            fix = f"write {layers}{more}"
        freeze = settings.stages_of_training[0].freeze
        raise UserError(
            f'train.freeze = "{freeze}", but the plan has several copies of {first.name}: frozen '
            f"copies stay equal; {fix}"
        )


def _stages(settings: Settings, key: str) -> Iterator[tuple[Train, str]]:
    """Each stage with the place where its ``key`` is set, for errors."""
    for number, train in enumerate(settings.stages_of_training):
        own = settings.stages and key in settings.stages[number]
        yield train, f"stages {number + 1}: {key}" if own else f"train.{key}"
