"""Which places a stage of training holds as they are, and how fast the others learn."""

from collections.abc import Iterator, Mapping

from cotrunk.config.settings import Settings, Train
from cotrunk.errors import UserError
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import Plan
from cotrunk.model.sharing.select import select

NOTHING = "nothing"


def frozen_places(train: Train, plan: Plan, *, key: str = "train.freeze") -> frozenset[str]:
    """Names of the places that a stage does not train; ``key`` is where they are written."""
    if train.freeze == NOTHING:
        return frozenset()
    frozen = select(train.freeze, plan, place=f"{key} = {train.freeze!r}")
    if len(frozen) == len(plan.places):
        raise UserError(
            f"{key} = {train.freeze!r} is all of this plan, so nothing is left to train; "
            "leave a part out, such as heads"
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
                f"{key}: {words!r} is frozen by freeze = {train.freeze!r}, so its rate has no "
                "effect; leave one of them out"
            )
        for place in places:
            if place.name in written:
                raise UserError(
                    f"{key}: {place.name} is in {written[place.name]!r} and in {words!r}; "
                    "a place has one rate: leave it out of one of them"
                )
            written[place.name], rates[place.name] = words, rate
    return rates


def learning_rate_factors(
    train: Train, plan: Plan, places: Mapping[str, Place]
) -> dict[str, float]:
    """What multiplies ``lr`` for each parameter of ``places``, where it is not 1.

    Heads have a rate of their own; each layer further from them is slower by ``layer_decay``.
    """
    layers, own = len(plan.acting("layer")), own_rates(train, plan)
    head = (train.head_lr or train.lr) / train.lr

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


def keeps_vectors(plan: Plan, frozen: frozenset[str]) -> bool:
    """Whether all that pooled vectors go through is frozen, so that each text is encoded once."""
    below = [place for place in plan.places if place.encodes]
    return all(place.name in frozen and place.options is not None for place in below)


def refuse_senseless_freezing(settings: Settings, plan: Plan) -> None:
    """Wrong words in ``freeze`` and ``rates``, and what makes no sense with this plan."""
    for train, key in _stages(settings, "freeze"):
        frozen = frozen_places(train, plan, key=key)
        if train.regularize == "smart" and keeps_vectors(plan, frozen):
            raise UserError(
                'train.regularize = "smart" perturbs the embeddings, '
                f'which freeze = "{train.freeze}" skips'
            )
    for train, key in _stages(settings, "rates"):
        own_rates(train, plan, key=key)
    _refuse_equal_copies(settings, plan)


def _refuse_equal_copies(settings: Settings, plan: Plan) -> None:
    """Copies that no stage trains would stay equal for ever, unless a trained run had them."""
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
            f'train.freeze = "{freeze}", but the plan copies {first.name}: copies that are not '
            f"trained stay equal; {fix}"
        )


def _stages(settings: Settings, key: str) -> Iterator[tuple[Train, str]]:
    """Each stage with the place where its ``key`` is written."""
    for number, train in enumerate(settings.stages_of_training):
        own = settings.stages and key in settings.stages[number]
        yield train, f"stages {number + 1}: {key}" if own else f"train.{key}"
