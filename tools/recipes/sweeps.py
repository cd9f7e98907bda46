"""Recipes as sweeps, one process per run, which the same command continues."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.recipes.recipes import RECIPES
from tools.recipes.sets import OVERRIDES

ONLY_AT_THE_END = 100_000
ALWAYS = {"train.evaluate": ONLY_AT_THE_END, "train.checkpoint": "never"}


def sweep(config: Path, recipes: Iterable[str], seeds: Sequence[int], out: Path) -> None:
    """Train recipes on a set; ``config`` is in its folder."""
    path = out.with_suffix(".toml")
    path.write_text("\n".join(_lines(config, recipes, seeds)) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "cotrunk", "sweep", str(path), "-o", str(out)]
    subprocess.run([*command, "--engine", "local"], check=True)


def _lines(config: Path, recipes: Iterable[str], seeds: Sequence[int]) -> Iterator[str]:
    yield from (f'base = "{config.name}"', f"seeds = {list(seeds)}")
    yield from ("max_concurrent = 2", "threads = 1", "[overrides]")
    yield from _keys(ALWAYS | dict(OVERRIDES.get(config.parent.name, {})))
    tasks = list(tomllib.loads(config.read_text(encoding="utf-8"))["tasks"])
    for recipe in recipes:
        yield f"[axes.recipe.variants.{recipe}]"
        yield from _keys(RECIPES[recipe].changes(tasks))


def _keys(settings: Mapping[str, object]) -> Iterator[str]:
    return (f'"{key}" = {json.dumps(value)}' for key, value in settings.items())
