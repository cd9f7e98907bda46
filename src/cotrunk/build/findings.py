"""The guards that run before the first step."""

from collections.abc import Mapping, Sequence

from cotrunk.build.freezing import frozen_places, learning_rate_factors
from cotrunk.build.stage import loss_of, steps_of
from cotrunk.config.settings import Settings
from cotrunk.data.batches.sampling import EpochCounts
from cotrunk.data.batches.stream import Stream
from cotrunk.data.tokens.cache import Corpus
from cotrunk.data.tokens.overlap import shared_rows
from cotrunk.learn import guards
from cotrunk.model.sharing.network import Network
from cotrunk.runs.events import Finding

Corpora = Mapping[str, Corpus]


def findings_before(
    settings: Settings,
    network: Network,
    streams: Sequence[Stream],
    *,
    train: Corpora,
    dev: Corpora,
    test: Mapping[str, str],
) -> list[Finding]:
    """All findings before training; ``test`` has digests of the test files, by task."""
    found: list[Finding | None] = []
    for stage, stream in zip(settings.stages_of_training, streams, strict=True):
        frozen, places = frozen_places(stage, network.plan), network.places_of()
        decaying = {
            name: places[name]
            for name, parameter in network.named_parameters()
            if parameter.ndim > 1 and places[name].name not in frozen
        }
        factors = learning_rate_factors(stage, network.plan, decaying)
        rates = {stage.lr * factors.get(name, 1.0) for name in decaying}
        found.append(guards.idle_decay(rates, stage.decay))
        found += _uneven_sampling(stream, steps_of(stage, stream))
    found += _cut_short(settings, streams, train)
    for task in network.tasks.values():
        found.append(guards.unreachable_labels(task, network.head_plans[task.name]))
        found.append(guards.rounded_output(task, loss_of(settings, task)))
        if task.name in dev:
            found += _dev_findings(task.name, train[task.name], dev[task.name], test)
    return [finding for finding in found if finding is not None]


def _uneven_sampling(stream: Stream, steps: int) -> list[Finding]:
    """Findings about the sampler in the first ``steps`` steps.

    A task without a batch in any epoch is fatal even if training stops earlier; tasks that are left
    without rows only by ``max_steps`` are found by ``_cut_short``.
    """
    found = guards.uneven_sampling(stream.plans)
    if steps == stream.steps:
        return found
    ended, cut = epochs_within(stream, steps)
    made = guards.uneven_sampling(ended, cut)
    return [*(f for f in found if f.fatal), *(f for f in made if not f.fatal)]


def epochs_within(stream: Stream, steps: int) -> tuple[list[EpochCounts], list[EpochCounts]]:
    """The epochs that ``steps`` steps complete, and the epoch that they end in, if any."""
    made = stream.plans_until(steps)
    count = sum(end <= steps for end in stream.epoch_ends)
    return made[:count], made[count:]


def _cut_short(settings: Settings, streams: Sequence[Stream], train: Corpora) -> list[Finding]:
    """Tasks whose rows are hardly seen because ``max_steps`` shortens the stages."""
    stages = zip(settings.stages_of_training, streams, strict=True)
    steps = [steps_of(stage, stream) for stage, stream in stages]
    whole = sum(stream.steps for stream in streams)
    if not 0 < sum(steps) < whole:
        return []
    made = [epochs_within(stream, own) for stream, own in zip(streams, steps, strict=True)]
    return guards.cut_short(
        train,
        [plan for ended, cut in made for plan in (*ended, *cut)],
        ended={task for ended, _ in made for plan in ended for task in plan["batches"]},
        steps=sum(steps),
        whole=whole,
    )


def _dev_findings(task: str, train: Corpus, dev: Corpus, test: Mapping[str, str]) -> list[Finding]:
    digests = {"train": train.digest, "dev": dev.digest}
    same = guards.selected_by_test(task, digests | ({"test": test[task]} if task in test else {}))
    if same:
        return same
    overlap = guards.train_dev_overlap(task, shared=shared_rows(train, dev), rows=len(dev))
    return [overlap] if overlap else []
