"""One stage of training, wired from the settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotrunk.config.settings import Settings, Train
from cotrunk.data.batches.sampling import ALL_TASKS_PER_STEP, Sampler, dry_run
from cotrunk.data.batches.stream import Stream
from cotrunk.data.batches.text import PairFormat, Template
from cotrunk.data.tokens.cache import Corpus
from cotrunk.data.tokens.overlap import shared_rows
from cotrunk.errors import UserError
from cotrunk.infer.features import Reading, encode_corpus, encoder_digest
from cotrunk.infer.forward import Cached, Forward, Live
from cotrunk.kinds import Loss
from cotrunk.kinds.task import Task
from cotrunk.learn import guards
from cotrunk.learn.combine import combiner
from cotrunk.learn.gradients import Surgery, blocks_of
from cotrunk.learn.guards import Finding, GradientWatch
from cotrunk.learn.loss_weighting import loss_weighting
from cotrunk.learn.optimizer import OPTIMIZERS, parameter_groups, schedule, start_average
from cotrunk.learn.regularize import regularizer
from cotrunk.learn.stage import Recipe, Stage, StageSpec
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.plan import Plan, is_in_encoder
from cotrunk.progress import OnProgress, ignore_progress

SEED_STRIDE = 0x9E3779B9
USUAL_WARMUP = {"none": 0.0, "linear": 0.1, "cosine": 0.1, "one-cycle": 0.3}


@dataclass(frozen=True)
class Inputs:
    """What all stages of a run share."""

    settings: Settings
    network: Network
    tasks: Sequence[Task]
    train: Mapping[str, Corpus]
    dev: Mapping[str, Corpus]
    pair_formats: Mapping[str, PairFormat]
    template: Template


def stream_of(
    settings: Settings, train: Train, corpora: Mapping[str, Corpus], *, number: int
) -> Stream:
    """The batches of stage ``number``; each stage shuffles anew."""
    sampler = Sampler(
        train.sampling,
        alpha=train.alpha,
        temperature=train.temperature,
        cap=train.cap,
        steps_per_epoch=train.steps_per_epoch and train.steps_per_epoch * train.accumulate,
        batches_per_epoch=train.batches_per_epoch,
        share_of_data=train.share_of_data,
    )
    batch = {name: part.batch or train.batch for name, part in settings.tasks.items()}
    seed = (train.seed + number * SEED_STRIDE) % 2**32
    return Stream(corpora, sampler, batch, seed, train.epochs, train.accumulate)


def steps_of(train: Train, stream: Stream) -> int:
    return stream.steps if train.max_steps is None else min(train.max_steps, stream.steps)


def plan_stages(inputs: Inputs, streams: Sequence[Stream]) -> tuple[StageSpec, ...]:
    """When each stage begins, how long it is, and how to make it."""
    specs: list[StageSpec] = []
    first = 0
    for train, stream in zip(inputs.settings.stages_of_training, streams, strict=True):
        steps = steps_of(train, stream)

        def make(
            on_progress: OnProgress,
            train: Train = train,
            stream: Stream = stream,
            first: int = first,
            steps: int = steps,
        ) -> Stage:
            return make_stage(
                inputs, train, stream, first=first, steps=steps, on_progress=on_progress
            )

        specs.append(StageSpec(first, steps, make))
        first += steps
    return tuple(specs)


def make_stage(
    inputs: Inputs,
    train: Train,
    stream: Stream,
    *,
    first: int,
    steps: int,
    on_progress: OnProgress = ignore_progress,
) -> Stage:
    settings, network = inputs.settings, inputs.network
    frozen = train.freeze == "encoder"
    trained = {
        name: parameter
        for name, parameter in network.named_parameters()
        if not (frozen and is_in_encoder(name))
    }
    for name, parameter in network.named_parameters():  # an earlier stage may have frozen it
        parameter.requires_grad_(name in trained)
    factors = learning_rate_factors(train, network.shape.layers, list(trained))
    groups = parameter_groups(trained.items(), lr=train.lr, decay=train.decay, factors=factors)
    weights = {name: part.weight for name, part in settings.tasks.items()}
    weighting = loss_weighting(
        train.loss_weighting, inputs.tasks, weights, train.loss_weighting_options
    )
    surgery = None
    if train.gradients != "sum" or weighting.needs_norms:
        surgery = Surgery(
            blocks_of(trained.items(), network.updated_by()),
            list(settings.tasks),
            combiner(train.gradients, train.gradient_options),
            seed=train.seed if train.gradient_seed is None else train.gradient_seed,
            scope=train.gradient_scope,
        )
    return Stage(
        first=first,
        network=network,
        trained=trained,
        average=start_average(trained) if train.ema is not None else {},
        stream=stream,
        forward=forward_of(inputs, inputs.train, frozen=frozen, on_progress=on_progress),
        dev_forward=forward_of(inputs, inputs.dev, frozen=frozen, on_progress=on_progress),
        optimizer=OPTIMIZERS[train.optimizer](groups),
        surgery=surgery,
        loss_weighting=weighting,
        watch=GradientWatch(trained, network.updated_by()),
        recipe=recipe_of(settings, train, inputs.tasks, steps=steps, all_steps=stream.steps),
        device=next(network.parameters()).device,
    )


def forward_of(
    inputs: Inputs,
    corpora: Mapping[str, Corpus],
    *,
    frozen: bool,
    on_progress: OnProgress = ignore_progress,
) -> Forward:
    """The way of rows through the network; a frozen encoder is passed only once.

    Projected attention lies inside the encoder: with it there is nothing to keep.
    """
    network = inputs.network
    device = next(network.parameters()).device
    live = Live(network, corpora, inputs.pair_formats, inputs.template, device)
    if not frozen or network.projected is not None:
        return live
    encoder = encoder_digest(network)
    features = {
        task: encode_corpus(
            Reading(network, task, corpus, inputs.pair_formats[task], inputs.template),
            encoder,
            on_progress=on_progress,
        )
        for task, corpus in corpora.items()
        if not network.tasks[task].is_about_tokens
    }
    return Cached(network, features, live, device)


def recipe_of(
    settings: Settings, train: Train, tasks: Sequence[Task], *, steps: int, all_steps: int
) -> Recipe:
    warmup = USUAL_WARMUP[train.schedule] if train.warmup is None else train.warmup
    return Recipe(
        steps=steps,
        seed=train.seed,
        losses={task.name: loss_of(settings, task) for task in tasks},
        regularizer=regularizer(train.regularize, train.regularize_options),
        lr=train.lr,
        schedule=schedule(train.schedule, steps=max(all_steps, 1), warmup=warmup),
        clip=train.clip,
        evaluate=train.evaluate,
        checkpoint=train.checkpoint,
        keep=train.keep,
        keep_each=train.keep_each,
        patience=train.early_stopping,
        ema=train.ema,
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
    """Copies of an encoder that no stage trains would stay equal for ever."""
    if any(train.freeze != "encoder" for train in settings.stages_of_training):
        return
    copied = [place for place, groups in plan.partitions() if len(groups) > 1]
    inside = [place for place in copied if is_in_encoder(place)]
    if inside:
        place = inside[0].split(".")[0]
        instead = "" if place == "layers" else f' and sharing.{place} = "S"'
        raise UserError(
            f'train.freeze = "encoder", but the plan copies {inside[0]}: copies that are not '
            f'trained stay equal; write sharing.encoder = "S{len(plan.layers)}"{instead}'
        )


def refuse_senseless_training(settings: Settings) -> None:
    """Settings that are good by themselves, but not together."""
    for train in settings.stages_of_training:
        alone = train.sampling not in ALL_TASKS_PER_STEP and train.accumulate == 1
        wanted = train.gradients if train.gradients not in ("sum", "mean") else ""
        if alone and (wanted or train.loss_weighting == "gradnorm"):
            key = f"gradients = {wanted!r}" if wanted else 'loss_weighting = "gradnorm"'
            raise UserError(
                f"train.{key} compares a step's tasks, but sampling = {train.sampling!r} never "
                'gives it two; use sampling = "together", or accumulate several batches'
            )
        if train.evaluate == "never" and (train.early_stopping or train.keep_each):
            key = "early_stopping" if train.early_stopping else "keep_each"
            raise UserError(f'train.{key} needs evaluations, but train.evaluate = "never"')
        if train.regularize == "smart" and train.freeze == "encoder":
            raise UserError(
                'train.regularize = "smart" perturbs the embeddings, which freeze = "encoder" skips'
            )
    _refuse_one_cycle_without_rise(settings)


def _refuse_one_cycle_without_rise(settings: Settings) -> None:
    for number, train in enumerate(settings.stages_of_training):
        if train.schedule != "one-cycle" or train.warmup != 0:
            continue
        place, key, fix = "", "train.warmup", ", as in --set train.warmup=0.3"
        if settings.stages:
            place = f"stages {number + 1}: "
            if "warmup" in settings.stages[number]:  # --set train.warmup would not reach it
                key, fix = "warmup", " there, as in warmup = 0.3"
        raise UserError(
            f'{place}{key} = 0, but schedule = "one-cycle" needs a share of the steps to rise in; '
            f"leave {key} out, or set it above 0{fix}"
        )


def refuse_idle_methods(settings: Settings, network: Network) -> None:
    """A gradient method has nothing to do where no stage lets two tasks move one parameter."""
    stages = settings.stages_of_training
    moved = {name: group for name, group in network.updated_by().items() if len(group) > 1}
    fix = "share a layer"
    if all(train.freeze == "encoder" for train in stages):
        moved = {n: group for n, group in moved.items() if not is_in_encoder(n)}
        fix = "share a neck, which a frozen encoder leaves to be trained"
    for train in stages:
        if train.gradients not in ("sum", "mean") and not moved:
            raise UserError(
                f"train.gradients = {train.gradients!r}: no two tasks train a parameter together "
                f'in this plan, so there is nothing to combine; {fix}, or write "sum"'
            )
        everyone = [group for group in moved.values() if len(group) == len(settings.tasks)]
        if train.loss_weighting == "gradnorm" and not everyone:
            raise UserError(
                'train.loss_weighting = "gradnorm" compares gradients in a block that all tasks '
                "train, and this plan has none; share a layer among all tasks"
            )


def findings_before(
    inputs: Inputs, streams: Sequence[Stream], test: Mapping[str, str]
) -> list[Finding]:
    """What can be seen to be wrong before the first step; ``test`` has digests of test files."""
    found: list[Finding | None] = []
    for train, stream in zip(inputs.settings.stages_of_training, streams, strict=True):
        frozen = train.freeze == "encoder"
        names = [
            name
            for name, parameter in inputs.network.named_parameters()
            if parameter.ndim > 1 and not (frozen and is_in_encoder(name))
        ]
        factors = learning_rate_factors(train, inputs.network.shape.layers, names)
        rates = {train.lr * factors.get(name, 1.0) for name in names}
        found.append(guards.idle_decay(rates, train.decay))
        plans = dry_run(
            stream.sampler, stream.sizes, batch=stream.batch, seed=stream.seed, epochs=stream.epochs
        )
        found += guards.starved_tasks(plans)
    found += _unreached(inputs, streams)
    for task in inputs.tasks:
        found.append(guards.unreachable_labels(task, inputs.network.head_plans[task.name]))
        found.append(guards.rounded_output(task, loss_of(inputs.settings, task)))
        if task.name in inputs.dev:
            found += _dev_findings(inputs, task.name, test)
    return [finding for finding in found if finding is not None]


def _unreached(inputs: Inputs, streams: Sequence[Stream]) -> list[Finding]:
    """Over all stages together, each as long as it will be."""
    stages = zip(inputs.settings.stages_of_training, streams, strict=True)
    made = [steps_of(train, stream) for train, stream in stages]
    whole = sum(stream.steps for stream in streams)
    if not 0 < sum(made) < whole:
        return []
    specs = (
        spec.task
        for stream, steps in zip(streams, made, strict=True)
        for step in range(steps)
        for spec in stream.specs(step)
    )
    return guards.unreached_tasks(inputs.train, specs, steps=sum(made), whole=whole)


def _dev_findings(inputs: Inputs, task: str, test: Mapping[str, str]) -> list[Finding]:
    train, dev = inputs.train[task], inputs.dev[task]
    digests = {"train": train.digest, "dev": dev.digest}
    same = guards.selected_by_test(task, digests | ({"test": test[task]} if task in test else {}))
    if same:
        return same
    overlap = guards.train_dev_overlap(task, shared=shared_rows(train, dev), rows=len(dev))
    return [overlap] if overlap else []


def loss_of(settings: Settings, task: Task) -> Loss:
    part = settings.tasks[task.name]
    return task.labels.loss(part.loss, smoothing=part.label_smoothing)
