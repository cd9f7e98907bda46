"""``study sharing``: how much should the tasks of a config share? Plans, and a recommendation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cotrunk.build.presets import layers_of
from cotrunk.build.trial import Base, config_base
from cotrunk.errors import UserError, plural
from cotrunk.learn.combine import compares_tasks
from cotrunk.study.definition import (
    SHARING,
    Budget,
    BudgetPart,
    Claim,
    Row,
    Study,
    SweepPart,
    Table,
)
from cotrunk.study.measures import score_of, shown_number
from cotrunk.study.records import RunRecord, TaskRecord
from cotrunk.study.statistics.difference import Difference, seeds_and_rows
from cotrunk.study.statistics.verdict import verdicts

MOST_DEPTHS = 13
MOST_GROUPINGS = 12
MARGIN = 0.01
FEW_ROWS = 30
SEEDS: Mapping[Budget, int] = {"quick": 2, "full": 3}
COLUMNS = ["parameters", "train-cpu-seconds"]


def sharing_study(config: Path, budget: Budget, *, weights: str | None = None) -> Study:
    """Every number of shared layers, and every grouping of the tasks in the upper half.

    The quick budget trains for one epoch, the full one as the config says. ``weights``: another
    encoder than the config's, which may have another depth.
    """
    base = config_base(config)
    tasks = list(_tables(base, "tasks"))
    if len(tasks) < 2:
        raise UserError(f"{config}: one task has nothing to share; add another under [tasks]")
    layers = layers_of(
        weights or _tables(base, "encoder").get("weights", "minilm"), base=base.folder
    )
    depths, grouped = depth_plans(layers), grouping_plans(tasks, layers)
    plans = [*depths, *grouped]
    short = budget == "quick" and not base.raw.get("stages")
    return Study(
        name=SHARING,
        folder=config.parent,
        title=f"How much should {', '.join(tasks)} share?",
        report=f"{config}, {layers} layers",
        budget=BudgetPart(seeds=SEEDS[budget], overrides={"train.epochs": 1} if short else {}),
        sweeps={
            "plans": SweepPart(
                base=config.name, variants={plan: _changes(plan, base) for plan in plans}
            )
        },
        tables=[
            Table(
                title="Plans, from nothing shared to everything",
                # One epoch is evaluated once, which has no spread.
                columns=[*tasks, "official", *COLUMNS, *([] if short else ["spread"])],
                rows=[Row(name=plan, runs=plan) for plan in plans],
            )
        ],
        claims=_claims(depths),
        notes=[_note_on_groupings(tasks, len(grouped))] if _has_many_groupings(tasks) else [],
    )


def depth_plans(layers: int) -> list[str]:
    """``I6``, ``S1 I5``, ... ``S6``; at most thirteen of a deep encoder."""
    count = min(layers + 1, MOST_DEPTHS)
    shared = sorted({round(step) for step in np.linspace(0, layers, count)})
    return [_plan(("S", number), ("I", layers - number)) for number in shared]


def grouping_plans(tasks: Sequence[str], layers: int) -> list[str]:
    """The lower half shared by all, the upper half by the groups of a partition.

    Of many tasks, only two share it, because there are too many partitions.
    """
    half, partitions = layers // 2, _groupings(tasks)
    if _has_many_groupings(tasks):
        partitions = [groups for groups in partitions if len(groups) == len(tasks) - 1]
    tokens = [
        "(" + "|".join("+".join(group) for group in groups if len(group) > 1) + ")"
        for groups in partitions[: 2 * MOST_GROUPINGS]
    ]
    return [_plan(("S", half), (token, layers - half)) for token in tokens]


def _groupings(tasks: Sequence[str]) -> list[list[list[str]]]:
    """The partitions in which some tasks share, but not all."""
    return [groups for groups in _partitions(list(tasks)) if 1 < len(groups) < len(tasks)]


def _has_many_groupings(tasks: Sequence[str]) -> bool:
    return len(_groupings(tasks)) > MOST_GROUPINGS


def _note_on_groupings(tasks: Sequence[str], tried: int) -> str:
    return (
        f"{len(tasks)} tasks can be grouped in {len(_groupings(tasks))} ways in the upper half; "
        f"only {tried} are tried, those in which two tasks share it"
    )


def _partitions(tasks: list[str]) -> Iterator[list[list[str]]]:
    if not tasks:
        yield []
        return
    first, *rest = tasks
    for groups in _partitions(rest):
        yield [[first], *groups]
        for number, group in enumerate(groups):
            yield [*groups[:number], [first, *group], *groups[number + 1 :]]


def _plan(*parts: tuple[str, int]) -> str:
    return " ".join(f"{token}{count}" for token, count in parts if count)


def _changes(plan: str, base: Base) -> dict[str, Any]:
    """Methods that compare gradients are turned off if nothing is shared: they have no effect."""
    train = _tables(base, "train")
    changes: dict[str, Any] = {"sharing.encoder": plan}
    if not plan.startswith("I"):
        return changes
    if compares_tasks(train.get("gradients", "sum")):
        changes["train.gradients"] = "sum"
        if "gradient_options" in train:
            changes["train.gradient_options"] = {}
    if train.get("loss_weighting") == "gradnorm":
        changes["train.loss_weighting"] = "fixed"
    return changes


def _tables(base: Base, key: str) -> Mapping[str, Any]:
    found = base.raw.get(key, {})
    return found if isinstance(found, Mapping) else {}


def _claims(depths: Sequence[str]) -> list[Claim]:
    return [
        Claim(
            id="share-all",
            claim="sharing all layers is as good as sharing none",
            test="equivalent",
            one=depths[-1],
            other=depths[0],
            on="official",
            margin=MARGIN,
        ),
        Claim(
            id="trend",
            claim="the more layers are shared, the better",
            test="trend",
            one=list(depths),
            on="official",
        ),
    ]


@dataclass(frozen=True)
class Recommendation:
    """``difference``: how much better the best plan is; None if the plan is the best itself.

    ``rival`` is the plan that may be better by most, and ``may_lose`` the end of its interval;
    ``seeds`` are those of the plan with the fewest.
    """

    plan: str
    best: str
    seeds: int
    score: float
    difference: Difference | None
    rival: str | None
    may_lose: float
    parameters: float
    share: float
    cpu_seconds: float
    worse: tuple[str, ...]
    is_smallest: bool
    """No plan has fewer parameters."""
    unlearned: tuple[str, ...] = ()
    """Tasks in which no plan is better than a constant answer."""
    few_rows: tuple[str, ...] = ()
    """Tasks with fewer than ``FEW_ROWS`` dev rows."""

    @property
    def is_sure(self) -> bool:
        """No interval of another plan reaches the margin, and the intervals cover seeds."""
        return self.rival is None or (self.seeds > 1 and self.may_lose < MARGIN)

    def document(self) -> dict[str, Any]:
        found = self.difference
        return {
            "plan": self.plan,
            "best": self.best,
            "score": self.score,
            "seeds": self.seeds,
            "best_is_better_by": None
            if found is None
            else {"difference": found.difference, "low": found.low, "high": found.high},
            "rival": self.rival,
            "may_lose": self.may_lose,
            "is_sure": self.is_sure,
            "parameters": self.parameters,
            "share_of_largest": self.share,
            "train_cpu_seconds": self.cpu_seconds,
            "worse": list(self.worse),
            "unlearned": list(self.unlearned),
            "few_rows": list(self.few_rows),
            "sentence": " ".join(self.sentences()),
        }

    def sentences(self) -> list[str]:
        size = f"{self.parameters:,.0f} parameters"
        if self.parameters >= 1e6:
            size = f"{self.parameters / 1e6:.1f} million parameters"
        take = f"Take {self.plan}" if self.is_sure else f"Undecided. Take {self.plan} for now"
        said = [
            f"{take}: {size}, {self.share:.0%} of the largest plan, "
            f"{plural(round(self.cpu_seconds), 'CPU second')} to train, "
            f"overall score {self.score:.3f}."
        ]
        if self.unlearned:
            said.append(
                f"No plan has learned {', '.join(self.unlearned)}: none is better than a constant "
                "answer, so these scores say little; train for more steps."
            )
        if self.few_rows:
            said.append(
                f"Fewer than {FEW_ROWS} dev rows: {', '.join(self.few_rows)}; "
                "scores on so few rows are rough."
            )
        found = self.difference
        if found is None and self.is_smallest:
            said.append("It has the best score, and no plan is smaller.")
        elif found is None:
            said.append("It has the best score, and every smaller plan is shown to be worse.")
        else:
            said.append(
                f"It is the smallest of the plans that are not shown to be worse than the best, "
                f"{self.best}; the difference is {found.difference:+.3f} "
                f"[{found.low:+.3f}, {found.high:+.3f}] ({plural(self.seeds, 'seed')})."
            )
        said += self._how_sure()
        if self.worse:
            said.append(f"Shown to be worse: {', '.join(self.worse)}.")
        return said

    def _how_sure(self) -> list[str]:
        if self.rival is None:
            return []
        if self.is_sure:
            return [f"With 95 % confidence, no plan is better by more than {MARGIN}."]
        if self.seeds == 1:
            return ["With one seed, the order of plans is not certain: train more seeds."]
        if not math.isfinite(self.may_lose):
            return []
        most = max(self.may_lose, 0)
        return [f"{self.rival} may be up to {most:.3f} better; more seeds or dev rows are needed."]


def recommend(groups: Mapping[str, Sequence[RunRecord]]) -> Recommendation | None:
    """The smallest plan that is not shown to be worse than the best; None without runs.

    Differences from the best plan are tested over seeds and rows, and corrected for their number
    (Holm). Plans within the margin of the best count as equally good. A plan that is too noisy to
    judge is not ruled out, but its interval is reported.
    """
    scored = {
        plan: [score for run in runs if (score := score_of(run, "official")) is not None]
        for plan, runs in groups.items()
        if runs
    }
    scored = {plan: scores for plan, scores in scored.items() if scores}
    if not scored:
        return None
    best = max(scored, key=lambda plan: np.mean([score.value for score in scored[plan]]))
    others = [plan for plan in scored if plan != best]
    differences = {plan: seeds_and_rows(scored[best], scored[plan]) for plan in others}
    words = verdicts(list(differences.values()), margin=MARGIN)
    worse = tuple(plan for plan, (_, word) in zip(others, words, strict=True) if word == "better")
    size = {plan: shown_number(groups[plan], "parameters") or 0.0 for plan in scored}
    chosen = min((plan for plan in scored if plan not in worse), key=lambda plan: size[plan])
    leads = {
        plan: seeds_and_rows(scores, scored[chosen]).high
        for plan, scores in scored.items()
        if plan != chosen
    }
    rival = max(leads, key=lambda plan: _unknown_first(leads[plan]), default=None)
    return Recommendation(
        plan=chosen,
        best=best,
        seeds=min(map(len, scored.values())),
        score=float(np.mean([score.value for score in scored[chosen]])),
        difference=differences.get(chosen),
        rival=rival,
        may_lose=math.nan if rival is None else leads[rival],
        parameters=size[chosen],
        share=size[chosen] / max(size.values()),
        cpu_seconds=shown_number(groups[chosen], "train-cpu-seconds") or 0.0,
        worse=worse,
        is_smallest=size[chosen] == min(size.values()),
        unlearned=_unlearned([runs for runs in groups.values() if runs]),
        few_rows=_with_few_rows(next(runs[0] for runs in groups.values() if runs)),
    )


def _unlearned(plans: Sequence[Sequence[RunRecord]]) -> tuple[str, ...]:
    tasks = plans[0][0].tasks
    best = {task: max(shown_number(runs, task) or 0.0 for runs in plans) for task in tasks}
    return tuple(task for task in tasks if best[task] <= _constant_answer(tasks[task]))


def _with_few_rows(run: RunRecord) -> tuple[str, ...]:
    return tuple(name for name, task in run.tasks.items() if task.score["rows"] < FEW_ROWS)


def _constant_answer(task: TaskRecord) -> float:
    """Its score; 0 for a correlation, which it does not have."""
    if not task.labels.can_answer:
        return -math.inf
    value = task.labels.baseline(task.target)
    return value if math.isfinite(value) else 0.0


def _unknown_first(lead: float) -> float:
    """A plan without an interval may be better by any amount."""
    return math.inf if math.isnan(lead) else lead
