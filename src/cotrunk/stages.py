"""One stage of training, wired from the settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotrunk.data.cache import Corpus
from cotrunk.data.sampling import Law
from cotrunk.data.stream import Stream
from cotrunk.data.text import Template, View
from cotrunk.errors import UserError
from cotrunk.learn.combine import combiner
from cotrunk.learn.forward import (
    ENCODER_PLACES,
    Cached,
    Forward,
    Live,
    encode_corpus,
    encoder_digest,
)
from cotrunk.learn.gradients import Surgery, blocks_of
from cotrunk.learn.losses import loss_for
from cotrunk.learn.optimizer import OPTIMIZERS, parameter_groups, schedule
from cotrunk.learn.train import Planned, Recipe, Stage
from cotrunk.model.network import Network
from cotrunk.model.plan import Plan
from cotrunk.settings import Settings, Train
from cotrunk.tasks import Task


@dataclass(frozen=True)
class Parts:
    """What all stages of a run share."""

    settings: Settings
    network: Network
    tasks: Sequence[Task]
    train: Mapping[str, Corpus]
    dev: Mapping[str, Corpus]
    views: Mapping[str, View]
    template: Template


def stream_of(settings: Settings, train: Train, corpora: Mapping[str, Corpus]) -> Stream:
    law = Law(
        train.sampling,
        alpha=train.alpha,
        temperature=train.temperature,
        cap=train.cap,
        steps_per_epoch=train.steps_per_epoch,
        batches_per_epoch=train.batches_per_epoch,
        share_of_data=train.share_of_data,
    )
    batch = {name: part.batch or train.batch for name, part in settings.tasks.items()}
    return Stream(corpora, law, batch, train.seed, train.epochs, train.accumulate)


def plan_stages(parts: Parts, streams: Sequence[Stream]) -> tuple[Planned, ...]:
    """When each stage begins, how long it is, and how to make it."""
    planned: list[Planned] = []
    first = 0
    for train, stream in zip(parts.settings.stages_of_training, streams, strict=True):
        steps = stream.steps if train.max_steps is None else min(train.max_steps, stream.steps)

        def make(
            train: Train = train, stream: Stream = stream, first: int = first, steps: int = steps
        ) -> Stage:
            return make_stage(parts, train, stream, first=first, steps=steps)

        planned.append(Planned(first, steps, make))
        first += steps
    return tuple(planned)


def make_stage(parts: Parts, train: Train, stream: Stream, *, first: int, steps: int) -> Stage:
    settings, network = parts.settings, parts.network
    frozen = train.freeze == "encoder"
    trained = {
        name: parameter
        for name, parameter in network.named_parameters()
        if not (frozen and name.startswith(ENCODER_PLACES))
    }
    factors = learning_rate_factors(train, network.shape.layers, list(trained))
    groups = parameter_groups(trained.items(), lr=train.lr, decay=train.decay, factors=factors)
    surgery = None
    if train.gradients != "sum":
        blocks = blocks_of(trained.items(), network.moved_by())
        surgery = Surgery(blocks, list(settings.tasks), combiner(train.gradients), seed=train.seed)
    return Stage(
        first=first,
        network=network,
        trained=trained,
        stream=stream,
        forward=forward_of(parts, parts.train, frozen=frozen),
        judge=forward_of(parts, parts.dev, frozen=frozen),
        optimizer=OPTIMIZERS[train.optimizer](groups),
        surgery=surgery,
        recipe=recipe_of(settings, train, parts.tasks, steps=steps, all_steps=stream.steps),
        device=next(network.parameters()).device,
    )


def forward_of(parts: Parts, corpora: Mapping[str, Corpus], *, frozen: bool) -> Forward:
    """The way of rows through the network; a frozen encoder is passed only once."""
    network = parts.network
    device = next(network.parameters()).device
    if not frozen:
        return Live(network, corpora, parts.views, parts.template, device)
    encoder = encoder_digest(network)
    features = {
        task: encode_corpus(network, encoder, task, corpus, parts.views[task], parts.template)
        for task, corpus in corpora.items()
    }
    return Cached(network, features, device)


def recipe_of(
    settings: Settings, train: Train, tasks: Sequence[Task], *, steps: int, all_steps: int
) -> Recipe:
    parts = settings.tasks
    return Recipe(
        steps=steps,
        seed=train.seed,
        weights={name: part.weight for name, part in parts.items()},
        losses={
            task.name: loss_for(
                task, parts[task.name].loss, smoothing=parts[task.name].label_smoothing
            )
            for task in tasks
        },
        lr=train.lr,
        schedule=schedule(train.schedule, steps=max(all_steps, 1), warmup=train.warmup),
        clip=train.clip,
        evaluate=train.evaluate,
        checkpoint=train.checkpoint,
        keep=train.keep,
        max_seconds=train.max_seconds,
        on_nan=train.on_nan,
        soft_l2=settings.sharing.soft.l2,
        soft_trace=settings.sharing.soft.trace,
    )


def learning_rate_factors(train: Train, layers: int, names: Sequence[str]) -> dict[str, float]:
    """Heads at their own rate; each layer further from the heads slower by ``layer_decay``."""
    head = (train.head_lr or train.lr) / train.lr
    factors = {}
    for name in names:
        place, second = name.split(".")[:2]
        if place == "layers":
            factors[name] = train.layer_decay ** (layers - 1 - int(second))
        elif place == "embeddings":
            factors[name] = train.layer_decay**layers
        elif place in ("heads", "neck", "pooled_norm", "projected"):
            factors[name] = head
    return {name: factor for name, factor in factors.items() if factor != 1}


def refuse_senseless_freezing(settings: Settings, plan: Plan) -> None:
    """Copies of a frozen encoder would stay equal for ever."""
    if not any(train.freeze == "encoder" for train in settings.stages_of_training):
        return
    if len(settings.stages_of_training) > 1:
        return  # a later stage may train what this one leaves alone
    copied = [place for place, groups in plan.partitions() if len(groups) > 1]
    inside = [place for place in copied if place.startswith(("embeddings", "layers", "pooler"))]
    if inside:
        raise UserError(
            f'train.freeze = "encoder", but the plan copies {inside[0]}: copies that are not '
            f'trained stay equal; write sharing.encoder = "S{len(plan.layers)}"'
        )
