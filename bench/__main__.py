"""Runs all comparisons, prints a table and writes results/bench.json."""

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench import busy, frozen, gradients, inference, reading, scale, serve, sweep, training
from bench.timing import Result, is_busy, spend
from bench.work import FILES, Bench

ALL: dict[str, Callable[[Bench], Iterator[Result]]] = {
    **training.FAMILY,
    **gradients.FAMILY,
    **inference.FAMILY,
    **reading.FAMILY,
    **frozen.FAMILY,
    **scale.FAMILY,
    **sweep.FAMILY,
    **busy.FAMILY,
    **serve.FAMILY,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of the rounds")
    parser.add_argument("--only", nargs="+", choices=list(ALL), metavar="NAME", default=list(ALL))
    parser.add_argument("--data", type=Path, help="folder with the course's files")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("-o", "--out", type=Path, default=Path("results/bench.json"))
    chosen = parser.parse_args()
    if chosen.threads < 1:
        parser.error("--threads must be 1 or more")
    if chosen.data and (missing := [n for n in FILES.values() if not (chosen.data / n).is_file()]):
        parser.error(f"--data {chosen.data} has no {', '.join(missing)}")
    torch.set_num_threads(chosen.threads)
    warnings.simplefilter("ignore")  # the peers' own
    logging.disable(logging.WARNING)
    if is_busy([spend(lambda: time.sleep(1))]):
        say("other processes are using this machine: intervals will be wide")
    bench, commit = Bench(chosen.data, chosen.quick), commit_of(Path(__file__).parent)
    how = {
        "threads": chosen.threads,
        "data": "course" if chosen.data else "sample",
        "quick": chosen.quick,
        "torch": torch.__version__,
    }
    if dropped := [one["name"] for one in _kept(chosen.out) if not how.items() <= one.items()]:
        say(f"{chosen.out}: replacing {len(dropped)} results of other settings")
    say(f"{'':30}{'ours':>10}{'peer':>10}  {'ratio':>6}  interval")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["COTRUNK_CACHE"] = cache
        for name in chosen.only:
            try:
                for result in ALL[name](bench):
                    keep(result, chosen.out, how, commit)
                    say(line(result))
            except ModuleNotFoundError as error:
                if str(error.name).split(".")[0] in ("bench", "cotrunk"):
                    raise
                say(f"{name:30}skipped: {error.name} is not installed")
            gc.collect()
    return 0


def keep(result: Result, file: Path, how: dict[str, Any], commit: str) -> None:
    """Replaces an older result of that name, and drops those with other settings."""
    file.parent.mkdir(exist_ok=True)
    alike = [one for one in _kept(file) if how.items() <= one.items()]
    found = {one["name"]: one for one in alike} | {
        result.name: result.as_json() | how | {"commit": commit}
    }
    file.write_text(json.dumps(list(found.values()), indent=1) + "\n")


def commit_of(folder: Path) -> str:
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip()


def _kept(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return found


def line(result: Result) -> str:
    numbers = f"{result.ours:10.3f}{result.peer:10.3f}  {result.ratio:6.2f}"
    busy = ", machine busy" if result.busy else ""
    spread = f"[{result.low:.2f}, {result.high:.2f}]"
    return f"{result.name:30}{numbers}  {spread} {result.meaning}, {result.unit}{busy}"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
