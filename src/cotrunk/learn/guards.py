"""Silent mistakes, named: what is wrong, where, and what to do about it.

Every guard is a function of plain values that finds nothing in a healthy run. The caller says the
findings, and stops at a fatal one.
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


def on_dev(task: Task, predicted: np.ndarray, gold: np.ndarray) -> list[Finding]:
    """What is wrong with a task's predictions, each cause said once."""
    if not task.labels.can_answer:  # what it predicts is not compared with labels of rows
        return []
    found = undefined_score(task, predicted, gold) or constant_predictions(task, predicted, gold)
    return [found] if found else []


def constant_predictions(task: Task, predicted: np.ndarray, gold: np.ndarray) -> Finding | None:
    """All rows get one answer, or less than 1 in 100 of those that should get another one does."""
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
    worth = f", which alone has {unit.metric} {value:.3f}" if math.isfinite(value) else ""
    return Finding(
        "constant-predictions",
        f"dev of task {task.name}",
        f"{rows} rows are predicted {unit.spelled(commonest)}{worth}",
        "the task is not learning: look at its loss and gradient, its lr and its weight",
    )


def _differing(labels: np.ndarray, other: np.ndarray) -> int:
    """How many labels, of one number or several, are not ``other``."""
    return int((labels != other).reshape(len(labels), -1).any(axis=1).sum())


def undefined_score(task: Task, predicted: np.ndarray, gold: np.ndarray) -> Finding | None:
    """A score that is no number, and which side is to blame."""
    place = f"dev of task {task.name}"
    if not np.isfinite(predicted).all():
        broken = int((~np.isfinite(predicted)).reshape(len(gold), -1).any(axis=1).sum())
        lost = f"{plural(broken, 'row')} of {len(gold):,}"
        why = f"the outputs for {lost} are not finite, so there is no {task.labels.metric}"
        return Finding("undefined-score", place, why, "lower train.lr, or begin anew")
    if not len(gold) or np.isfinite(task.labels.of_unit.value(predicted, gold)):
        return None
    if len(gold) < 2:
        why, fix = f"has {len(gold)} rows", "a correlation needs two or more rows"
    elif np.ptp(gold) == 0:
        why, fix = f"has the one label {gold[0]:g}", "measure on rows that differ in their labels"
    elif np.ptp(predicted) == 0:
        why = f"has the one prediction {predicted[0]:g} for all {len(gold)} rows"
        fix = "the head is stuck: look at its gradient and its range, lower train.lr"
    else:
        return None
    return Finding(
        "undefined-score", place, f"{task.labels.metric.capitalize()} is NaN, since it {why}", fix
    )


@dataclass
class _Watched:
    """A leaf module, the tasks that move it, and how many turns of each left it unmoved."""

    name: str
    place: Place
    group: Group
    parameters: list[nn.Parameter]
    unmoved: Counter[str]
    suspect: bool = True
    told: bool = False

    def is_still(self) -> bool:
        return not any(p.grad is not None and p.grad.any() for p in self.parameters)

    def is_stuck(self, patience: int) -> bool:
        return all(self.unmoved[task] >= patience for task in self.group)


class GradientWatch:
    """Finds trainable blocks whose gradient is exactly zero.

    A block is stuck once each task that could move it has had ``patience`` turns in a row that left
    it still. Blocks that were seen to move are looked at only every ``LOOK_EVERY`` steps, so a
    healthy run pays for its first steps alone. There is nothing to save: it may begin anew.
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
            watched.parameters.sort(key=Tensor.numel)  # a bias that moves spares a look at a table

    def look(self, tasks: Collection[str]) -> list[Finding]:
        """Called when the gradients of a step are in place; ``tasks`` had a turn, weighing > 0."""
        turns = frozenset(tasks)
        everything = self.steps % LOOK_EVERY == 0
        self.steps += 1
        stuck: dict[Group, list[_Watched]] = {}
        for block in self.blocks.values():
            if not (block.group & turns and (everything or block.suspect)):
                continue
            block.suspect = block.is_still()
            if not block.suspect:
                block.unmoved.clear()
                continue
            block.unmoved.update(block.group & turns)
            if not block.told and block.is_stuck(self.patience):
                block.told = True
                stuck.setdefault(block.group, []).append(block)
        return [
            _stuck(group, found, whole=self._heads_in(found), patience=self.patience)
            for group, found in stuck.items()
        ]

    def _heads_in(self, found: Sequence[_Watched]) -> list[str]:
        """The heads of which every block is among those ``found``."""
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
    turns = f"in {patience} turns of {' and of '.join(sorted(group))}"
    names = [block.name for block in found]
    if whole:
        others = sum(block.place.name not in whole for block in found)
        more = f", nor {others} blocks below it" if others else ""
        return Finding(
            "rounded-output",
            ", ".join(whole),
            f"no gradient reached the head{more} {turns}",
            "nothing between its outputs and the loss may round, clip, compare or detach",
        )
    more = f" and {len(names) - QUOTED} more" if len(names) > QUOTED else ""
    return Finding(
        "zero-gradient",
        ", ".join(names[:QUOTED]) + more,
        f"the gradient was exactly zero {turns}",
        "look for a detach, a unit that is always off, or a weight of 0; or freeze it on purpose",
    )


def rounded_output(task: Task, loss: Loss) -> Finding | None:
    """A loss that passes no gradient to the outputs, tried on random ones before training."""
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
        "its gradient with respect to the outputs is zero everywhere, so nothing can be learned",
        "do not round, compare or detach the outputs: a loss takes them as they are",
        fatal=True,
    )


def idle_decay(rates: Iterable[float], decay: float) -> Finding | None:
    """``1 - lr * decay`` is 1 in float32: both AdamW leave every weight as it is.

    ``rates`` are the highest learning rates of the groups that decay.
    """
    idle = [rate for rate in rates if decay > 0 and _rounds_to_one(rate * decay)]
    if not idle:
        return None
    lr = min(idle)
    return Finding(
        "idle-decay",
        "train.decay",
        f"at lr {lr:g} a decay of {decay:g} is lost in float32, where 1 - {lr * decay:.2g} is 1: "
        "no such weight ever decays",
        f"set it above {LEAST_DECAY / lr:.2g}, or to 0 if that is what you want",
    )


def _rounds_to_one(shrink: float) -> bool:
    return np.float32(1.0 - shrink) == 1


def unreachable_labels(task: Task, head: HeadPlan) -> Finding | None:
    """A head whose outputs cannot come near some labels, whatever it learns."""
    low, high = reach(task, head)
    cosine = head.pair == "cosine" and task.texts == 2
    found = task.labels.unreachable(low, high)
    if found is None:
        return None
    spans, wants = found
    return Finding(
        "unreachable-labels",
        f"tasks.{task.name}.head",
        f"its outputs span {spans}, but {wants}",
        'set cosine = "shifted"' if cosine else "set activate_last = false",
    )


def reach(task: Task, head: HeadPlan) -> tuple[float, float]:
    """The least and the greatest output that a head can give."""
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
    """A loss or the gradient's ``norm`` is not a number to step with; said before the step."""
    blamed = [task for task, loss in losses.items() if not math.isfinite(loss)]
    if not blamed and math.isfinite(norm):
        return None
    what = "loss" if blamed else "gradient"
    named = "; ".join(f"task {task}, rows {', '.join(row_ids(task))}" for task in blamed or losses)
    return Finding(
        "not-finite",
        f"step {step}",
        f"the {what} is not finite ({named}); no weight was changed by this step",
        "lower train.lr, look at these rows, or set train.on_nan = 'skip' to pass over such steps",
        fatal=True,
    )


def train_dev_overlap(task: str, *, shared: int, rows: int) -> Finding | None:
    """Of the dev ``rows``, ``shared`` are train rows as well."""
    if not shared:
        return None
    return Finding(
        "train-dev-overlap",
        f"tasks.{task}.dev",
        f"{shared} of {rows} rows ({shared / rows:.1%}) are also in train",
        "take them out of train, or their scores count what was learned by heart",
    )


def selected_by_test(task: str, digests: Mapping[str, str]) -> list[Finding]:
    """``digests`` of the contents of train, dev and test: what selects must be neither other."""
    dev = digests.get("dev")
    found = []
    if dev and dev == digests.get("test"):
        finding = "dev and test are the same rows, so the best checkpoint is chosen by test"
        fix = "choose by other rows than those you report"
        found.append(Finding("test-for-selection", f"tasks.{task}.test", finding, fix, fatal=True))
    if dev and dev == digests.get("train"):
        finding = "dev and train are the same rows, so the score is of what was learned by heart"
        fix = "name a file of rows that are not trained on"
        found.append(Finding("test-for-selection", f"tasks.{task}.dev", finding, fix))
    return found


def starved_tasks(plans: Sequence[Plan]) -> list[Finding]:
    """Tasks to which the law gives no batch in some epoch, or in none of them (fatal)."""
    found = []
    for task in plans[0]["batches"] if plans else ():
        empty = [plan for plan in plans if plan["batches"][task] < 1]
        if not empty:
            continue
        never = len(empty) == len(plans)
        share = empty[0]["probabilities"][task]
        listed = ", ".join(str(plan["epoch"]) for plan in empty[:QUOTED]) + (
            ", ..." if len(empty) > QUOTED else ""
        )
        when = "in no epoch" if never else f"not in {len(empty)} of {len(plans)} epochs ({listed})"
        finding = f"task {task} (share {share:.2g}) has a batch {when}"
        fix = "lengthen the epoch, lower alpha, or use a law that gives every task its turn"
        found.append(Finding("starved-task", "train.sampling", finding, fix, fatal=never))
    return found


def unreached_tasks(
    tasks: Iterable[str], turns: Iterable[str], *, steps: int, whole: int
) -> list[Finding]:
    """Tasks without a turn in the ``steps`` that are made, fewer than the ``whole`` would be."""
    left = set(tasks)
    for task in turns:
        left.discard(task)
        if not left:
            return []
    return [
        Finding(
            "starved-task",
            "train.max_steps",
            f"task {task} has no batch in the {steps} of {whole} steps that are made",
            "make more steps, or use a law that gives every task its turn",
        )
        for task in sorted(left)
    ]
