"""Guards against silent mistakes: what is wrong, where, and how to fix it.

Every guard is a function of plain values and returns nothing in a healthy run. The caller reports
the findings, and stops at a fatal one.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cotrunk.data.batches.sampling import Plan
from cotrunk.errors import plural
from cotrunk.kinds import Loss
from cotrunk.kinds.task import Task
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.partition import Group
from cotrunk.model.sharing.place import Place
from cotrunk.runs.events import Finding

NEARLY_CONSTANT = 100
PATIENCE = 20
LOOK_EVERY = 50
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
    if not len(predicted):
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


@dataclass
class _Watched:
    """A leaf module, the tasks that update it, and each one's steps with a zero gradient."""

    name: str
    place: Place
    group: Group
    parameters: list[nn.Parameter]
    zero_steps: Counter[str]
    suspect: bool = True
    reported: bool = False

    def has_zero_gradient(self) -> bool:
        return not any(p.grad is not None and p.grad.any() for p in self.parameters)

    def is_stuck(self, patience: int) -> bool:
        return all(self.zero_steps[task] >= patience for task in self.group)


class GradientWatch:
    """Finds trainable blocks whose gradient is exactly zero.

    A block is stuck once every task that updates it has given it a zero gradient ``patience`` times
    in a row. Blocks that had a gradient are checked only every ``LOOK_EVERY`` steps, so a healthy
    run pays only for its first steps. It has no state to save: a resumed run starts over.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        updated_by: Mapping[str, Group],
        places: Mapping[str, Place],
        *,
        patience: int = PATIENCE,
    ) -> None:
        self.patience, self.steps = patience, 0
        self.blocks: dict[str, _Watched] = {}
        for name, parameter in parameters.items():
            if parameter.requires_grad:
                block = name.rpartition(".")[0]
                fresh = _Watched(block, places[name], updated_by[name], [], Counter())
                self.blocks.setdefault(block, fresh).parameters.append(parameter)
        for watched in self.blocks.values():
            watched.parameters.sort(key=Tensor.numel)  # cheap checks first: biases before tables

    def look(self, tasks: Collection[str]) -> list[Finding]:
        """Called with a step's gradients set; ``tasks`` had a batch, and a loss weight above 0."""
        present = frozenset(tasks)
        everything = self.steps % LOOK_EVERY == 0
        self.steps += 1
        stuck: dict[Group, list[_Watched]] = {}
        for block in self.blocks.values():
            if not (block.group & present and (everything or block.suspect)):
                continue
            block.suspect = block.has_zero_gradient()
            if not block.suspect:
                block.zero_steps.clear()
                continue
            block.zero_steps.update(block.group & present)
            if not block.reported and block.is_stuck(self.patience):
                block.reported = True
                stuck.setdefault(block.group, []).append(block)
        return [
            _stuck(group, found, whole=self._heads_in(found), patience=self.patience)
            for group, found in stuck.items()
        ]

    def _heads_in(self, found: Sequence[_Watched]) -> list[str]:
        """The heads whose blocks are all in ``found``."""
        names = {block.name for block in found}
        whole: dict[str, bool] = {}
        for block in self.blocks.values():
            if block.place.acts == "head":
                head = block.place.name
                whole[head] = whole.get(head, True) and block.name in names
        return [head for head, is_whole in whole.items() if is_whole]


def _stuck(
    group: Group, found: Sequence[_Watched], *, whole: Sequence[str], patience: int
) -> Finding:
    when = f"in {patience} steps with {' and with '.join(sorted(group))}"
    names = [block.name for block in found]
    if whole:
        others = sum(block.place.name not in whole for block in found)
        more = f" or {plural(others, 'block')} below it" if others else ""
        return Finding(
            "rounded-output",
            ", ".join(whole),
            f"no gradient reached the head{more} {when}",
            "do not round, clip, compare or detach between its outputs and the loss",
        )
    more = f" and {len(names) - QUOTED} more" if len(names) > QUOTED else ""
    return Finding(
        "zero-gradient",
        ", ".join(names[:QUOTED]) + more,
        f"the gradient was exactly zero {when}",
        "look for a detach, dead units or a weight of 0; or freeze it on purpose",
    )


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
    return ranges[head.activation]


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


def uneven_sampling(plans: Sequence[Plan]) -> list[Finding]:
    """Tasks that get no batch in some epochs or in all (fatal), too few batches, or far too many.

    ``plans``: the epochs of a stage.
    """
    tasks = plans[0]["batches"] if plans else ()
    found = [_no_batches(task, plans) or _odd_passes(task, plans) for task in tasks]
    return [finding for finding in found if finding is not None]


def _no_batches(task: str, plans: Sequence[Plan]) -> Finding | None:
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


def _odd_passes(task: str, plans: Sequence[Plan]) -> Finding | None:
    passes = [plan["passes"][task] for plan in plans]
    if max(passes) > MOST_PASSES:
        return Finding(
            "repeated-task",
            "train.sampling",
            f"every row of task {task} is seen about {max(passes):.0f} times in an epoch",
            f'lower tasks.{task}.batch, or set sampling = "proportional" (each row about once) '
            'or "sqrt"',
        )
    seen = 1 - math.prod(max(0.0, 1 - some) for some in passes)  # each epoch shuffles anew
    if min(passes) >= LEAST_PASSES or seen > NEARLY_ALL:
        return None
    return Finding(
        "starved-task",
        "train.sampling",
        f"task {task}: an epoch sees {min(passes):.0%} of its rows, the whole run {seen:.0%}",
        f"lengthen the epoch or raise train.epochs or tasks.{task}.batch, or set sampling = "
        '"proportional" (each row about once)',
    )


def unreached_tasks(
    tasks: Iterable[str], batches: Iterable[str], *, steps: int, whole: int
) -> list[Finding]:
    """Tasks without a batch in the ``steps`` that max_steps leaves of the ``whole``."""
    left = set(tasks)
    for task in batches:
        left.discard(task)
        if not left:
            return []
    return [
        Finding(
            "starved-task",
            "train.max_steps",
            f"task {task} has no batch in the first {steps} of {whole} steps",
            "train more steps, or use a sampler that gives every task batches early",
        )
        for task in sorted(left)
    ]
