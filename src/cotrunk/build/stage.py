"""Settings -> a training stage, built when it starts."""

from collections.abc import Callable, Mapping, Sequence

from cotrunk.build.freezing import can_cache_vectors, frozen_places, learning_rate_factors
from cotrunk.config.settings import Settings, Train
from cotrunk.data.batches.samplers import DRAWN, Sampler
from cotrunk.data.batches.stream import Stream
from cotrunk.data.tokens.cache import Corpus
from cotrunk.infer.features import CorpusEncoding, encode_corpus, encoder_digest, is_encoded
from cotrunk.infer.forward import Cached, Forward, Live
from cotrunk.kinds import Loss
from cotrunk.kinds.task import Task
from cotrunk.learn.combine import combiner
from cotrunk.learn.gradient_watch import GradientWatch
from cotrunk.learn.gradients import Block, Surgery, blocks_of
from cotrunk.learn.loss_weighting import LossWeighting, loss_weighting
from cotrunk.learn.optimizer import OPTIMIZERS, parameter_groups, schedule, start_average
from cotrunk.learn.regularize import regularizer
from cotrunk.learn.run import Run
from cotrunk.learn.stage import Stage
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.partition import Group
from cotrunk.progress import OnProgress

SEED_STRIDE = 0x9E3779B9
USUAL_WARMUP = {"none": 0.0, "linear": 0.1, "cosine": 0.1, "one-cycle": 0.3}


def tasks_in(settings: Settings, train: Train) -> tuple[str, ...]:
    """The tasks that a stage trains, in the order of the config."""
    return tuple(name for name in settings.tasks if train.tasks is None or name in train.tasks)


def sampler_of(settings: Settings, train: Train) -> Sampler:
    tasks = tasks_in(settings, train)
    shares = [(name, share) for name in tasks if (share := settings.tasks[name].share) is not None]
    return Sampler(
        train.sampling,
        alpha=train.alpha,
        temperature=train.temperature,
        cap=train.cap,
        steps_per_epoch=train.steps_per_epoch and train.steps_per_epoch * train.accumulate,
        batches_per_epoch=train.batches_per_epoch,
        share_of_data=train.share_of_data,
        # A single task gets all batches, whatever its share.
        shares=tuple(shares) if len(tasks) > 1 and train.sampling in DRAWN else (),
    )


def stream_of(
    settings: Settings, train: Train, corpora: Mapping[str, Corpus], *, number: int
) -> Stream:
    """The batches of stage ``number``; each stage shuffles differently."""
    tasks = tasks_in(settings, train)
    batch = {name: settings.tasks[name].batch or train.batch for name in tasks}
    seed = (train.seed + number * SEED_STRIDE) % 2**32
    mine = {name: corpora[name] for name in tasks}
    sampler = sampler_of(settings, train)
    return Stream(mine, sampler, batch, seed, train.epochs, train.accumulate)


def steps_of(train: Train, stream: Stream) -> int:
    return stream.steps if train.max_steps is None else min(train.max_steps, stream.steps)


def make_stage(settings: Settings, run: Run, number: int) -> Stage:
    """Stage ``number`` of a run, from the network as it is now."""
    train, stream, network = settings.stages_of_training[number], run.streams[number], run.network
    names = tasks_in(settings, train)
    tasks = [network.tasks[name] for name in names]
    updated_by, places = updated_in_stage(network, names), network.places_of()
    frozen, updated = frozen_places(train, network.plan), trained_names(settings, train, network)
    trained = {name: parameter for name, parameter in network.named_parameters() if name in updated}
    for name, parameter in network.named_parameters():  # an earlier stage may have frozen it
        parameter.requires_grad_(name in trained)
    weighting = weighting_of(settings, train, tasks)
    factors = learning_rate_factors(train, network.plan, {name: places[name] for name in trained})
    groups = parameter_groups(trained.items(), lr=train.lr, decay=train.decay, factors=factors)
    mine = {name: run.train[name] for name in names}
    return Stage(
        first=run.first_step(number),
        steps=run.ends[number] - run.first_step(number),
        tasks=names,
        stopping=tuple(task.name for task in tasks if task.labels.in_overall) or names,
        network=network,
        device=next(network.parameters()).device,
        seed=train.seed,
        trained=trained,
        average=start_average(trained) if train.ema is not None else {},
        stream=stream,
        forward=forward_of(run, mine, frozen, on_progress=run.on_progress_or_stop),
        dev_forward=forward_of(run, run.dev, frozen, on_progress=run.on_progress_or_stop),
        losses={task.name: loss_of(settings, task) for task in tasks},
        regularizer=regularizer(train.regularize, train.regularize_options),
        loss_weighting=weighting,
        surgery=surgery_of(train, names, blocks_of(trained.items(), updated_by, places), weighting),
        watch=GradientWatch(trained, updated_by, places),
        optimizer=OPTIMIZERS[train.optimizer](groups),
        lr=train.lr,
        schedule=schedule_of(train, steps=stream.steps),
        clip=train.clip,
        ema=train.ema,
        soft_l2=settings.sharing.soft.l2,
        soft_trace=settings.sharing.soft.trace,
        on_nan=train.on_nan,
        evaluate=train.evaluate,
        checkpoint=train.checkpoint,
        keep_each=train.keep_each,
        patience=train.early_stopping,
    )


def trained_names(settings: Settings, train: Train, network: Network) -> set[str]:
    """The parameters that a stage updates: not frozen, and used by a task that it trains."""
    frozen, places = frozen_places(train, network.plan), network.places_of()
    updated_by = updated_in_stage(network, tasks_in(settings, train))
    return {name for name, by in updated_by.items() if by and places[name].name not in frozen}


def updated_in_stage(network: Network, tasks: Sequence[str]) -> dict[str, Group]:
    """The tasks that update each parameter while only ``tasks`` are trained; may be none."""
    return {name: group & frozenset(tasks) for name, group in network.updated_by().items()}


def weighting_of(settings: Settings, train: Train, tasks: Sequence[Task]) -> LossWeighting:
    weights = {task.name: settings.tasks[task.name].weight for task in tasks}
    return loss_weighting(train.loss_weighting, tasks, weights, train.loss_weighting_options)


def surgery_of(
    train: Train, tasks: Sequence[str], blocks: Sequence[Block], weighting: LossWeighting
) -> Surgery | None:
    """None if gradients are just summed and their norms are not needed."""
    if train.gradients == "sum" and not weighting.needs_norms:
        return None
    return Surgery(
        blocks,
        tasks,
        combiner(train.gradients, train.gradient_options),
        seed=train.seed if train.gradient_seed is None else train.gradient_seed,
        scope=train.gradient_scope,
    )


def schedule_of(train: Train, *, steps: int) -> Callable[[int], float]:
    warmup = USUAL_WARMUP[train.schedule] if train.warmup is None else train.warmup
    return schedule(train.schedule, steps=max(steps, 1), warmup=warmup)


def forward_of(
    run: Run, corpora: Mapping[str, Corpus], frozen: frozenset[str], *, on_progress: OnProgress
) -> Forward:
    """Through the whole network, or from cached vectors if the encoder is frozen."""
    network = run.network
    device = next(network.parameters()).device
    live = Live(network, corpora, run.pair_formats, run.template, device)
    if not can_cache_vectors(network.plan, frozen):
        return live
    encoder, features = encoder_digest(network), {}
    for task, corpus in corpora.items():
        if network.tasks[task].is_about_tokens:
            continue
        encoding = CorpusEncoding(network, task, corpus, run.pair_formats[task], run.template)
        with run.meter.phase("prepare" if is_encoded(encoding, encoder) else "encode"):
            features[task] = encode_corpus(encoding, encoder, on_progress=on_progress)
    return Cached(network, features, live, device)


def loss_of(settings: Settings, task: Task) -> Loss:
    part = settings.tasks[task.name]
    return task.labels.loss(part.loss, smoothing=part.label_smoothing)
