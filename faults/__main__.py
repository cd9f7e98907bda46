"""Attacks runs, files and processes; prints one line per test and writes results/faults.json."""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from faults.figure import Figure, Size
from faults.lines import ALL


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few attacks each, in a minute or two")
    parser.add_argument("--only", nargs="+", choices=list(ALL), metavar="NAME", default=list(ALL))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/faults.json"))
    chosen = parser.parse_args()
    size: Size = "quick" if chosen.quick else "long"
    how = {"size": size, "seed": chosen.seed, "commit": commit_of(Path(__file__).parent)}
    broken = 0
    for name in chosen.only:
        begun = time.monotonic()
        figure = ALL[name](chosen.seed, size)
        seconds = round(time.monotonic() - begun, 1)
        say(line(figure, seconds))
        keep(figure, chosen.out, how | {"seconds": seconds})
        broken += not figure.holds
    say(f"{len(chosen.only) - broken} of {len(chosen.only)} lines hold")
    return 1 if broken else 0


def line(figure: Figure, seconds: float) -> str:
    verdict = "" if figure.holds else "FAILS "
    note = f" ({figure.note})" if figure.note else ""
    counts = f"{figure.held:,} of {figure.tried:,}"
    return f"{figure.name:4}{verdict}{counts:>16}  {figure.claim}{note}, {seconds} s"


def keep(figure: Figure, file: Path, how: dict[str, object]) -> None:
    """Replace the figure of this name, if the file has one of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(file.read_text()) if file.exists() else []
    found = {one["name"]: one for one in kept} | {figure.name: asdict(figure) | how}
    in_order = sorted(found.values(), key=lambda one: _number(str(one["name"])))
    file.write_text(json.dumps(in_order, indent=1) + "\n")


def _number(name: str) -> tuple[str, int]:
    return name[:1], int(name[1:]) if name[1:].isdigit() else 0


def commit_of(folder: Path) -> str:
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
