"""R7, R8, R9 and V1: files that are cut, changed or deleted."""

import random
from collections.abc import Callable
from pathlib import Path

from faults.commands import Said
from faults.figure import Figure, Size
from faults.preload import shared
from faults.world import World, outcome, steps, world

Harm = Callable[[Path], None]


def r7(seed: int, size: Size) -> Figure:
    """The newest checkpoint of a finished run, each file cut at four places."""
    shares = (0.0, 0.01, 0.5, 0.99)
    with world(shared()) as here:
        run = here.finished()
        whole = outcome(run)
        cuts = [(file, share) for file in _newest(run) for share in shares]
        if size == "quick":
            cuts = random.Random(seed).sample(cuts, 3)
        held = sum(_falls_back(here, run, whole, file, _cut(share)) for file, share in cuts)
    claim = "a cut file: named, the checkpoint before it used, byte-identical"
    return Figure("R7", claim, len(cuts), held)


def r8(seed: int, size: Size) -> Figure:
    """One flipped bit in any file of the newest checkpoint, of best and of final."""
    tried = 200 if size == "long" else 6
    draw, held = random.Random(seed), 0
    with world(shared()) as here:
        run = here.finished()
        whole = outcome(run)
        for _ in range(tried):
            file = draw.choice(_newest(run) + _files(run / "best") + _files(run / "final"))
            if file.parent.name.startswith("step-"):
                held += _falls_back(here, run, whole, file, _flip(draw))
            else:
                held += _is_refused(here, run, file, _flip(draw))
    return Figure("R8", "a flipped bit: noticed before training or predicting", tried, held)


def r9(seed: int, size: Size) -> Figure:
    """Each file of the newest checkpoint, of best and of final, deleted alone."""
    with world(shared()) as here:
        run = here.finished()
        whole = outcome(run)
        checkpoint, networks = _newest(run), _files(run / "best") + _files(run / "final")
        if size == "quick":
            draw = random.Random(seed)
            checkpoint, networks = draw.sample(checkpoint, 2), draw.sample(networks, 2)
        held = sum(_falls_back(here, run, whole, file, Path.unlink) for file in checkpoint)
        held += sum(_is_refused(here, run, file, Path.unlink) for file in networks)
    claim = "a deleted file: refused, or the checkpoint before it used"
    return Figure("R9", claim, len(checkpoint) + len(networks), held)


def v1(seed: int, size: Size) -> Figure:
    """Every file of a finished run: flipped, cut or deleted, ``verify`` names it and no other.

    Quick: each file is harmed in one of these ways.
    """
    draw, tried, held = random.Random(seed), 0, 0
    with world(shared()) as here:
        run = here.finished()
        sound = not here.verify(run)
        harms = [Path.unlink, _cut(0.0), _cut(0.99), *[_flip(draw)] * (40 if size == "long" else 1)]
        for number, file in enumerate(sorted(path for path in run.rglob("*") if path.is_file())):
            name = str(file.relative_to(run))
            for harm in harms if size == "long" else [harms[number % len(harms)]]:
                before = file.read_bytes()
                file.unlink()  # equal files of best and final are one file with two names
                file.write_bytes(before)
                harm(file)
                held += sound and here.verify(run) == [name]
                file.write_bytes(before)
                tried += 1
    return Figure("V1", "any damaged file of a run: `cotrunk verify` names it alone", tried, held)


def _falls_back(here: World, run: Path, whole: dict[str, bytes], file: Path, harm: Harm) -> bool:
    copy = here.copy(run)
    damaged = copy / file.relative_to(run)
    harm(damaged)
    said = here.train(copy, "--resume")
    named = _names(said, damaged)
    return said.code == 0 and said.is_clean and named and outcome(copy) == whole


def _is_refused(here: World, run: Path, file: Path, harm: Harm) -> bool:
    copy = here.copy(run)
    damaged = copy / file.relative_to(run)
    harm(damaged)
    rows, which = here.folder / "mood-dev.csv", damaged.parent.name
    said = here.commands.run("predict", copy, rows, "--which", which, env=here.env)
    named = _names(said, damaged)
    return said.code == 2 and not said.out and said.is_clean and named


def _names(said: Said, damaged: Path) -> bool:
    """A changed manifest may look like a change of the file that it lists."""
    name = "" if damaged.name == "manifest.json" else damaged.name
    return f"{damaged.parent} is damaged: {name}" in said.err


def _newest(run: Path) -> list[Path]:
    return _files(run / "checkpoints" / f"step-{max(steps(run)):08d}")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _cut(share: float) -> Harm:
    def cut(file: Path) -> None:
        data = file.read_bytes()
        file.write_bytes(data[: int(len(data) * share)])

    return cut


def _flip(draw: random.Random) -> Harm:
    def flip(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)

    return flip
