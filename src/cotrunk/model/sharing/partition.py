"""Partitions of the tasks, and the grammar for them in a config."""

import re
from collections.abc import Sequence
from itertools import groupby

from cotrunk.errors import UserError, did_you_mean

Group = frozenset[str]
Partition = tuple[Group, ...]

TOKEN = re.compile(r"(S|I|\([^()]*\))(\d*)")


def everyone(tasks: Sequence[str]) -> Partition:
    return (frozenset(tasks),)


def alone(tasks: Sequence[str]) -> Partition:
    return tuple(frozenset([task]) for task in tasks)


def group_name(group: Group) -> str:
    """The sorted members, e.g. ``sst+sts``; names a copy in checkpoints."""
    return "+".join(sorted(group))


def parse_partitions(text: str, tasks: Sequence[str], *, place: str) -> tuple[Partition, ...]:
    """``"S4 (para+sts)2 I"`` as one partition per depth: S shares among all, I among none.

    Tokens are separated by spaces or ``-``, each with an optional count; a task not named in a
    parenthesis has its own copy.
    """
    depths: list[Partition] = []
    rest = text.strip()
    while rest:
        token = TOKEN.match(rest)
        if token is None or (token.end() < len(rest) and rest[token.end()] not in " \t-"):
            raise UserError(
                f"{place} = {text!r}: cannot read {rest!r}; write S, I or (a+b|c+d), each with an "
                "optional count, separated by spaces or '-'"
            )
        count = int(token[2] or 1)
        if not 1 <= count <= 1000:
            raise UserError(f"{place} = {text!r}: a count must be in 1..1000; found {token[2]}")
        depths += [_partition(token[1], tasks, place=f"{place} = {text!r}")] * count
        rest = rest[token.end() :].lstrip(" \t-")
    return tuple(depths)


def parse_partition(text: str, tasks: Sequence[str], *, place: str) -> Partition:
    """A partition written as exactly one token."""
    depths = parse_partitions(text, tasks, place=place)
    if len(depths) != 1:
        raise UserError(f"{place} = {text!r}: must be one token; found {len(depths)}")
    return depths[0]


def written(depths: Sequence[Partition]) -> str:
    """The text of ``parse_partitions`` for some depths: ``"S4 (para+sts)2"``."""
    alike = [(token, len(list(same))) for token, same in groupby(map(_token, depths))]
    return " ".join(token if count == 1 else f"{token}{count}" for token, count in alike)


def _token(partition: Partition) -> str:
    if len(partition) == 1:
        return "S"
    together = sorted(group_name(group) for group in partition if len(group) > 1)
    return f"({'|'.join(together)})" if together else "I"


def suggest(layers: int, *, like: str = "") -> str:
    """An example of a plan with this many layers: only S or only I if ``like`` is, else halves."""
    if alike := re.fullmatch(r"\s*([SI])\d*\s*", like):
        return f"{alike[1]}{layers}"
    half = layers // 2
    return f"S{half} I{layers - half}" if half else f"S{layers}"


def _partition(token: str, tasks: Sequence[str], *, place: str) -> Partition:
    if token == "S":
        return everyone(tasks)
    if token == "I":
        return alone(tasks)
    groups = [
        [name.strip() for name in part.split("+") if name.strip()]
        for part in token[1:-1].split("|")
    ]
    named = [name for group in groups for name in group]
    unknown = [name for name in named if name not in tasks]
    if unknown or not all(groups):
        finding = f"{token} has an empty group"
        if unknown:
            finding = f"{unknown[0]!r} is not a task{did_you_mean(unknown[0], tasks)}"
        raise UserError(f"{place}: {finding}; tasks are {', '.join(tasks)}")
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise UserError(f"{place}: {token} names {twice[0]!r} twice")
    rest = [[task] for task in tasks if task not in named]
    return tuple(frozenset(group) for group in groups + rest)
