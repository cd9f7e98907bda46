"""Guards against silent mistakes: what is wrong, where, and how to fix it.

Every guard is a function of plain values and returns nothing in a healthy run. The caller reports
the findings, and stops at a fatal one.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import torch

from cotrunk.data.batches.sampling import EpochCounts
from cotrunk.errors import plural
from cotrunk.kinds import Loss
from cotrunk.kinds.task import Task
from cotrunk.model.head_plan import HeadPlan
from cotrunk.runs.events import Finding

NEARLY_CONSTANT = 100
PROBE_ROWS = 64
LEAST_DECAY = 2.0**-25
QUOTED = 3
MOST_PASSES, LEAST_PASSES, NEARLY_ALL = 20, 0.5, 0.99


def on_dev(task: Task, predicted: np.ndarray, gold: np.ndarray) -> list[Finding]:
    """What is wrong with a task's predictions; at most one finding per task."""
    if not task.labels.can_answer:  # its outputs are not predictions of row labels
        return []
    found = undefined_score(task, predicted, gold) or constant_predictions(task, predicted, gold)
    return [found] if found else []


def constant_predictions(task: Task, predicted: np.ndarray, gold: np.ndarray) -> Finding | None:
    """One label for all rows, or for 99 % of the rows whose gold label is another one."""
    if len(predicted) < 2:
        return None
    values, counts = np.unique(predicted, axis=0, return_counts=True)
    commonest = values[counts.argmax()]
    other, other_gold = (_differing(labels, commonest) for labels in (predicted, gold))
    if other * NEARLY_CONSTANT >= other_gold:
        return None
    rows = f"all {len(gold)}" if not other else f"{len(gold) - other} of {len(gold)}"
    unit = task.labels.of_unit
    value = unit.value(predicted, gold)
    worth = f" ({unit.metric} {value:.3f})" if math.isfinite(value) else ""
    return Finding(
        "constant-predictions",
        f"dev of task {task.name}",
        f"{rows} rows get the same prediction, {unit.spelled(commonest)}{worth}",
        "the task is not learning: check its loss and gradient, train.lr and the task's weight",
    )


def _differing(labels: np.ndarray, other: np.ndarray) -> int:
    """How many labels, of one number or several, are not ``other``."""
    return int((labels != other).reshape(len(labels), -1).any(axis=1).sum())


def undefined_score(task: Task, predicted: np.ndarray, gold: np.ndarray) -> Finding | None:
    """The score is NaN; says whether labels or predictions cause it."""
    place = f"dev of task {task.name}"
    if not np.isfinite(predicted).all():
        broken = int((~np.isfinite(predicted)).reshape(len(gold), -1).any(axis=1).sum())
        lost = f"{plural(broken, 'row')} of {len(gold):,}"
        why = f"{task.labels.metric} is NaN: the outputs for {lost} are not finite"
        return Finding("undefined-score", place, why, "lower train.lr, or start a new run")
    if not len(gold) or np.isfinite(task.labels.of_unit.value(predicted, gold)):
        return None
    if len(gold) < 2:
        why = f"there is only {plural(len(gold), 'row')}"
        fix = "a correlation needs two or more rows"
    elif np.ptp(gold) == 0:
        why, fix = f"every row has the label {gold[0]:g}", "use dev rows with different labels"
    elif np.ptp(predicted) == 0:
        why = f"the prediction is {predicted[0]:g} for all {len(gold)} rows"
        fix = "the head is stuck: check its gradient and its range, or lower train.lr"
    else:
        return None
    return Finding("undefined-score", place, f"{task.labels.metric} is NaN: {why}", fix)


def rounded_output(task: Task, loss: Loss) -> Finding | None:
    """A loss without a gradient for the outputs; tested on random outputs before training."""
    random = torch.Generator().manual_seed(0)
    output_RO = torch.randn(PROBE_ROWS, task.outputs, generator=random)
    numbers = PROBE_ROWS * (task.labels.width or 1)
    target = task.labels.probe_targets(torch.rand(numbers, generator=random))
    value = loss(output_RO.requires_grad_(), target).mean()
    slope = torch.autograd.grad(value, output_RO, allow_unused=True)[0] if value.grad_fn else None
    if slope is not None and slope.any():
        return None
    return Finding(
        "rounded-output",
        f"tasks.{task.name}.loss",
        "its gradient with respect to the outputs is zero, so nothing can be learned",
        "do not round, compare or detach the outputs",
        fatal=True,
    )


def idle_decay(rates: Iterable[float], decay: float) -> Finding | None:
    """``1 - lr * decay`` rounds to 1 in float32, so neither AdamW decays any weight.

    ``rates`` are the highest learning rates of the groups that decay.
    """
    idle = [rate for rate in rates if decay > 0 and _rounds_to_one(rate * decay)]
    if not idle:
        return None
    lr = min(idle)
    return Finding(
        "idle-decay",
        "train.decay",
        f"has no effect: at lr = {lr:g} and decay = {decay:g}, 1 - lr * decay is 1 in float32",
        f"set it above {LEAST_DECAY / lr:.2g}, or to 0",
    )


def _rounds_to_one(shrink: float) -> bool:
    return np.float32(1.0 - shrink) == 1


def unreachable_labels(task: Task, head: HeadPlan) -> Finding | None:
    """A head whose output range does not include all labels."""
    low, high = reach(task, head)
    cosine = head.pair == "cosine" and task.texts == 2
    found = task.labels.unreachable(low, high)
    if found is None:
        return None
    spans, wants = found
    return Finding(
        "unreachable-labels",
        f"tasks.{task.name}.head",
        f"its outputs are limited to {spans}, but {wants}",
        'set cosine = "shifted"' if cosine else "set activate_last = false",
    )


def reach(task: Task, head: HeadPlan) -> tuple[float, float]:
    """The output range of a head."""
    if head.pair == "cosine" and task.texts == 2:
        side = 1 / (1 + math.e)
        bottom, top = (side, 1 - side) if head.cosine == "sigmoid" else (0.0, 1.0)
        assert task.labels.span is not None, "a cosine needs a range to be scaled to"
        least, most = task.labels.span
        return least + (most - least) * bottom, least + (most - least) * top
    if not head.activate_last:
        return -math.inf, math.inf
    # gelu(x) = x Phi(x) is least near x = -0.7518.
    ranges = {"relu": (0.0, math.inf), "gelu": (-0.16997, math.inf), "tanh": (-1.0, 1.0)}
    zero, unit = task.labels.output_unit
    low, high = ranges[head.activation]
    return zero + unit * low, zero + unit * high


def not_finite(
    step: int,
    losses: Mapping[str, float],
    norm: float,
    row_ids: Callable[[str], Iterable[str]],
) -> Finding | None:
    """A loss or the gradient's ``norm`` is NaN or infinite; checked before the update."""
    blamed = [task for task, loss in losses.items() if not math.isfinite(loss)]
    if not blamed and math.isfinite(norm):
        return None
    what = "loss" if blamed else "gradient"
    named = "; ".join(f"task {task}, rows {', '.join(row_ids(task))}" for task in blamed or losses)
    return Finding(
        "not-finite",
        f"step {step}",
        f"the {what} is not finite ({named}); this step changed no weights",
        "lower train.lr, check these rows, or set train.on_nan = 'skip' to skip such steps",
        fatal=True,
    )


def train_dev_overlap(task: str, *, shared: int, rows: int) -> Finding | None:
    """``shared`` of the dev ``rows`` are in train too."""
    if not shared:
        return None
    return Finding(
        "train-dev-overlap",
        f"tasks.{task}.dev",
        f"{shared} of {rows} rows ({shared / rows:.1%}) are also in train",
        "remove them from train: the score counts rows the model has memorised",
    )


def selected_by_test(task: str, digests: Mapping[str, str]) -> list[Finding]:
    """Dev must differ from train and test; ``digests`` are those of the files' contents."""
    dev = digests.get("dev")
    found = []
    if dev and dev == digests.get("test"):
        finding = "dev and test have the same rows, so the best checkpoint is selected on test"
        fix = "select on other rows than those you report"
        found.append(Finding("test-for-selection", f"tasks.{task}.test", finding, fix, fatal=True))
    if dev and dev == digests.get("train"):
        finding = "dev and train have the same rows, so the score measures memorisation"
        fix = "name a file of rows that are not in train"
        found.append(Finding("test-for-selection", f"tasks.{task}.dev", finding, fix))
    return found


def uneven_sampling(plans: Sequence[EpochCounts], cut: Sequence[EpochCounts] = ()) -> list[Finding]:
    """Tasks that get no batch in some epochs or in all (fatal), too few batches, or far too many.

    ``plans``: the epochs of a stage; ``cut``: the one that ``max_steps`` shortens. Its few batches
    are not the sampler's fault, but they count for how often the run sees a row.
    """
    tasks = plans[0]["batches"] if plans else cut[0]["batches"] if cut else ()
    found = [_no_batches(task, plans) or _odd_passes(task, plans, cut) for task in tasks]
    return [finding for finding in found if finding is not None]


def _no_batches(task: str, plans: Sequence[EpochCounts]) -> Finding | None:
    empty = [plan for plan in plans if plan["batches"][task] < 1]
    if not empty:
        return None
    never = len(empty) == len(plans)
    share = empty[0]["probabilities"][task]
    listed = ", ".join(str(plan["epoch"]) for plan in empty[:QUOTED]) + (
        ", ..." if len(empty) > QUOTED else ""
    )
    when = "any epoch" if never else f"{len(empty)} of {len(plans)} epochs ({listed})"
    finding = f"task {task} (share {share:.2g}) has no batch in {when}"
    fix = "lengthen the epoch, lower alpha, or use a sampler that gives every task batches"
    return Finding("starved-task", "train.sampling", finding, fix, fatal=never)


def _odd_passes(
    task: str, plans: Sequence[EpochCounts], cut: Sequence[EpochCounts]
) -> Finding | None:
    whole, all_made = _passes(task, plans), _passes(task, (*plans, *cut))
    if max(all_made) > MOST_PASSES:
        return Finding(
            "repeated-task",
            "train.sampling",
            f"every row of task {task} is seen about {max(all_made):.0f} times in "
            + ("an epoch" if whole else "the steps before train.max_steps"),
            f'lower tasks.{task}.batch, or set sampling = "proportional" (each row about once) '
            'or "sqrt"',
        )
    seen = _share_seen(all_made)
    if min(whole, default=1.0) >= LEAST_PASSES or seen > NEARLY_ALL:
        return None
    return Finding(
        "starved-task",
        "train.sampling",
        f"task {task}: an epoch sees {min(whole):.0%} of its rows, the whole run {seen:.0%}",
        f"lengthen the epoch or raise train.epochs or tasks.{task}.batch, or set sampling = "
        '"proportional" (each row about once)',
    )


def _passes(task: str, plans: Iterable[EpochCounts]) -> list[float]:
    return [plan["passes"][task] for plan in plans if task in plan["passes"]]


def _share_seen(passes: Iterable[float]) -> float:
    """The share of the rows that these epochs see; each of them is shuffled again."""
    return 1 - math.prod(max(0.0, 1 - some) for some in passes)


def cut_short(
    tasks: Iterable[str],
    plans: Sequence[EpochCounts],
    *,
    ended: Collection[str],
    steps: int,
    whole: int,
) -> list[Finding]:
    """Tasks of which less than half is seen because max_steps leaves ``steps`` of ``whole`` steps.

    ``plans``: the epochs of all stages, as far as these steps go. Tasks that have ``ended`` an
    epoch are only named if they had no batch: ``uneven_sampling`` finds the rest.
    """
    seen = {task: _share_seen(_passes(task, plans)) for task in sorted(tasks)}
    place, where = "train.max_steps", f"the first {steps:,} of {whole:,} steps"
    found = [
        Finding(
            "starved-task",
            place,
            f"task {task} has no batch in {where}",
            "train more steps, or use a sampler that gives every task batches early",
        )
        for task, share in seen.items()
        if not share
    ]
    few = {t: share for t, share in seen.items() if 0 < share < LEAST_PASSES and t not in ended}
    if few:
        listed = ", ".join(f"{share:.0%} of {task}" for task, share in few.items())
        fix = "raise it, unless the run is only a trial"
        found.append(Finding("starved-task", place, f"{where} see few rows: {listed}", fix))
    return found
