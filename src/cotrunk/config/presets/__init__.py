"""Ready-to-train configs: base.toml with the changes in each preset's own file."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.config.overrides import apply_changes
from cotrunk.config.presets.layers import Layer, read_layer
from cotrunk.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from cotrunk.config.settings import Settings

FOLDER = Path(__file__).parent
BASE = "base"
DEMO = ("1-bert", "3-bert", "hybrid-bert")
DEMO_CHANGES = ["train.steps_per_epoch=27"]  # so that all three take five minutes on two cores
COURSE_FILES = {
    "sample:sentiment-train.csv": "ids-sst-train.csv",
    "sample:sentiment-dev.csv": "ids-sst-dev.csv",
    "sample:paraphrase-train.csv": "quora-train.csv",
    "sample:paraphrase-dev.csv": "quora-dev.csv",
    "sample:similarity-train.csv": "sts-train.csv",
    "sample:similarity-dev.csv": "sts-dev.csv",
}


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != BASE)


def text(name: str, *, data: str | None = None) -> str:
    """A complete config; with ``data``, it reads the course's files in that folder."""
    if name not in names():
        hint = did_you_mean(name, names()) or f"; the presets are {', '.join(names())}"
        raise UserError(f"--preset {name}: no such preset{hint}")
    written = _layer(name).text()
    if data is not None:
        for sample, course in COURSE_FILES.items():
            written = written.replace(sample, (Path(data) / course).as_posix())
    return written


def summaries() -> dict[str, str]:
    """The one-line description of each preset, from the first line of its file."""
    return {name: _file(name).partition("\n")[0].partition(": ")[2] for name in names()}


def settings(name: str, *, changes: list[str]) -> "Settings":
    from cotrunk.config.settings import check_settings

    raw = tomllib.loads(text(name))
    changed = apply_changes(raw, changes)
    return check_settings(raw, place=f"preset {name}", changed=changed)


def _layer(name: str) -> Layer:
    own = read_layer(_file(name))
    if name == BASE:
        return own
    extended = own.entries.pop("extends", None)
    return own.over(_layer(tomllib.loads(f"name = {extended.value}")["name"] if extended else BASE))


def _file(name: str) -> str:
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
