"""Dev and test rows as shares of the training files.

Rows are chosen by content, for each task on its own; the other tasks of a run matter only for the
dev rows with a text that one of them has in test, which are left out. Within a task, all rows that
share a text are on one side; no task trains on a text that any task holds out. Every task chooses
its texts in the order of their hashes, so tasks with the same texts hold out nearly the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Literal

from cotrunk import late_numpy as np
from cotrunk.data.reading.cuts import Row, cut_off
from cotrunk.data.reading.text_hash import folded, text_hash
from cotrunk.errors import plural

Split = Literal["train", "dev", "test"]
Text = str | tuple[str, ...]
"""A string, or a tuple of words for tasks that read words."""
HELD: tuple[Split, ...] = ("dev", "test")


@dataclass(frozen=True)
class HeldOut:
    """Fingerprints of the texts held out of training.

    If connected rows had to be cut, there are also marks of the texts on the other side of the cut
    (``beyond``). Rows with texts on both sides are in no split: ``left_out`` counts them.
    """

    dev: frozenset[int] = frozenset()
    test: frozenset[int] = frozenset()
    left_out: int = field(default=0, compare=False)

    def split_of(self, texts: Iterable[Text]) -> Split | None:
        return self.split_of_row([fingerprint(text) for text in texts])

    def split_of_row(self, marks: Sequence[int]) -> Split | None:
        sides: tuple[tuple[Split, frozenset[int]], ...] = (("test", self.test), ("dev", self.dev))
        for split, held in sides:
            if any(mark in held for mark in marks):
                return None if any(beyond(split, mark) in held for mark in marks) else split
        return "train"

    @cached_property
    def digest(self) -> str:
        content = sha256()
        for marks in (self.dev, self.test):
            content.update(np.sort(np.fromiter(marks, np.uint64, len(marks))).tobytes())
            content.update(b"|")
        return content.hexdigest()


@dataclass(frozen=True)
class Splits:
    """What each task holds out."""

    by_task: Mapping[str, HeldOut]

    def of(self, task: str, split: Split) -> HeldOut:
        """Training leaves out what any task holds out, and dev what any task has in test."""
        if split == "train":
            return self.of_all
        own = self.by_task[task]
        tested = own.dev & self.of_all.test if split == "dev" else frozenset()
        return HeldOut(own.dev, own.test | tested) if tested else own

    @cached_property
    def of_all(self) -> HeldOut:
        each = self.by_task.values()
        return HeldOut(
            dev=frozenset().union(*(held.dev for held in each)),
            test=frozenset().union(*(held.test for held in each)),
        )


@dataclass(frozen=True)
class Part:
    """The rows of a file that belong to ``split``."""

    split: Split
    held: HeldOut

    def has(self, texts: Iterable[Text]) -> bool:
        return self.held.split_of(texts) == self.split


@dataclass(frozen=True)
class Share:
    """The training rows of a task, of which some are held out.

    ``rows`` gives their texts and targets; ``strata`` returns the stratum of each target, and every
    stratum gets its share.
    """

    task: str
    dev: float
    test: float
    rows: Iterable[tuple[tuple[Text, ...], tuple[float, ...]]]
    strata: Callable[[Sequence[tuple[float, ...]]], Sequence[int]]


class Indivisible(Exception):
    """No rows can be held out for ``split``, because shared texts connect too many of them."""

    def __init__(self, split: Split, connected: int, rows: int) -> None:
        found = f"{connected:,} of {plural(rows, 'row')} are connected by shared texts"
        super().__init__(f"{found}, and no part of them can be held out as {split} rows")
        self.split: Split = split


def fingerprint(text: Text) -> int:
    """A hash of a text that ignores case and blanks, but not those inside a word of a list."""
    return text_hash(folded(text) if isinstance(text, str) else " ".join(text).casefold())


def beyond(split: Split, mark: int) -> int:
    """The mark of a text on the other side of the cut that made a split."""
    return text_hash(f"beyond {split} {mark}")


def hold_out(share: Share, *, seed: int) -> HeldOut:
    """Choose texts so that each stratum of the task gets its share of dev and test rows.

    Groups of rows that are connected by texts are visited in an order that depends only on their
    content and ``seed``; a group goes where at least half of its rows are still needed. If a split
    gets less than half of its rows in this way, texts are held out for the others, and the rows
    that connect them with the rest are in no split. Such a cut follows the texts alone: it is not
    stratified, and can have more rows than needed. ``Indivisible`` if a split has no rows at all.
    """
    groups = _Groups()
    targets, rows = [], list[Row]()
    for texts, target in share.rows:
        rows.append(tuple([fingerprint(text) for text in texts]))
        groups.connect(rows[-1])
        targets.append(target)
    strata = [int(number) for number in share.strata(targets)]
    needs = _needs(share, strata, seed)
    asked = {split: int(sum(needs[split].values())) for split in HELD}
    found, left_out = _whole_groups(groups, rows, strata, needs, seed), 0
    for split in HELD:
        whole = sum(row[0] in found[split] for row in rows)
        if 2 * whole >= asked[split]:
            continue
        held = HeldOut(dev=frozenset(found["dev"]), test=frozenset(found["test"]))
        left = [row for row in rows if held.split_of_row(row) == "train"]
        if cut := cut_off(left, needed=asked[split] - whole, seed=seed):
            found[split] |= cut.texts
            others = {mark for row in rows for mark in row} - found[split]
            found[split] |= {beyond(split, mark) for mark in others}
            left_out += cut.crossing
        elif not whole:
            raise Indivisible(split, groups.most_connected(rows), len(rows))
    return HeldOut(frozenset(found["dev"]), frozenset(found["test"]), left_out)


def _needs(share: Share, strata: Sequence[int], seed: int) -> dict[Split, dict[int, float]]:
    """How many rows of each stratum each split needs."""
    needs: dict[Split, dict[int, float]] = {split: {} for split in HELD}
    for stratum, count in Counter(strata).items():
        for split, part in zip(HELD, (share.dev, share.test), strict=True):
            drawn = _uniform(seed, split, share.task, stratum)
            needs[split][stratum] = int(part * count + drawn)  # rounds at random
    return needs


def _whole_groups(
    groups: _Groups,
    rows: Sequence[Row],
    strata: Sequence[int],
    needs: Mapping[Split, dict[int, float]],
    seed: int,
) -> dict[Split, set[int]]:
    """The texts of the groups that go to dev and test."""
    strata_of: dict[int, list[int]] = {}
    for row, stratum in zip(rows, strata, strict=True):
        strata_of.setdefault(row[0], []).append(stratum)
    found: dict[Split, set[int]] = {split: set() for split in HELD}
    members = groups.members(strata_of)
    for group in sorted(members, key=lambda group: _uniform(seed, group)):
        strata_of_group = [stratum for mark in members[group].rows for stratum in strata_of[mark]]
        for split in HELD:
            if _is_needed(Counter(strata_of_group), needs[split]):
                found[split] |= members[group].texts
                break
    return found


def _is_needed(counts: Mapping[int, int], need: dict[int, float]) -> bool:
    """Whether at least half of a group is needed; then the need is reduced by it."""
    useful = sum(min(count, need.get(stratum, 0)) for stratum, count in counts.items())
    if not useful or 2 * useful < sum(counts.values()):
        return False
    for stratum, count in counts.items():
        need[stratum] = max(0, need.get(stratum, 0) - count)
    return True


@dataclass
class _Members:
    rows: list[int]
    texts: set[int]


class _Groups:
    """Texts connected by rows (disjoint sets, with path halving)."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}

    def connect(self, marks: Sequence[int]) -> None:
        """Put all texts of a row into one group."""
        roots = [self.root(mark) for mark in marks]
        for root in roots[1:]:
            self.parent[max(root, roots[0])] = min(root, roots[0])
            roots[0] = min(root, roots[0])

    def root(self, mark: int) -> int:
        parent = self.parent
        parent.setdefault(mark, mark)
        while parent[mark] != mark:
            parent[mark] = parent[parent[mark]]
            mark = parent[mark]
        return mark

    def most_connected(self, rows: Iterable[Row]) -> int:
        """How many rows the largest group has."""
        return max(Counter(self.root(row[0]) for row in rows).values())

    def members(self, rows: Iterable[int]) -> dict[int, _Members]:
        """By root: the marks of rows, and all texts. The root is the smallest fingerprint."""
        found: dict[int, _Members] = {}
        for mark in self.parent:
            found.setdefault(self.root(mark), _Members([], set())).texts.add(mark)
        for mark in rows:
            found[self.root(mark)].rows.append(mark)
        return found


def _uniform(*parts: object) -> float:
    """A number in [0, 1) that depends only on ``parts``."""
    return text_hash("\0".join(map(str, parts))) / 2**64


def split_arrays(splits: Splits) -> dict[str, np.ndarray]:
    """Arrays to save with a run; signed, because few formats have unsigned 64-bit integers."""
    return {
        f"{task}.{split}": np.sort(np.fromiter(marks, np.uint64, len(marks)).view(np.int64))
        for task, held in splits.by_task.items()
        for split, marks in (("dev", held.dev), ("test", held.test))
    }


def splits_of(arrays: Mapping[str, np.ndarray]) -> Splits:
    """The splits from saved arrays; ValueError if they are something else."""
    tasks = dict.fromkeys(name.rpartition(".")[0] for name in arrays)
    expected = {f"{task}.{split}" for task in tasks for split in HELD}
    if arrays.keys() != expected or any(array.dtype != np.int64 for array in arrays.values()):
        raise ValueError("must have dev and test of each task, as int64")
    marks = {name: frozenset(array.view(np.uint64).tolist()) for name, array in arrays.items()}
    return Splits(
        {task: HeldOut(dev=marks[f"{task}.dev"], test=marks[f"{task}.test"]) for task in tasks}
    )
