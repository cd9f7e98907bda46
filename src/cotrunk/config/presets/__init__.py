"""Ready configs, one TOML file each; they train on the sample data as they are."""

import tomllib
from pathlib import Path

from cotrunk.config.overrides import apply_changes
from cotrunk.config.settings import Settings, check_settings
from cotrunk.errors import UserError, did_you_mean

FOLDER = Path(__file__).parent
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
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def text(name: str, *, data: str | None = None) -> str:
    """The file of a preset; with ``data`` it reads the course's files in that folder."""
    if name not in names():
        hint = did_you_mean(name, names()) or f"; there are {', '.join(names())}"
        raise UserError(f"--preset {name}: there is no such preset{hint}")
    written = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    if data is not None:
        for sample, course in COURSE_FILES.items():
            written = written.replace(sample, (Path(data) / course).as_posix())
    return written


def summaries() -> dict[str, str]:
    """Each preset with what the first line of its file says of it."""
    return {name: text(name).splitlines()[0].partition(": ")[2] for name in names()}


def settings(name: str, *, changes: list[str]) -> Settings:
    raw = tomllib.loads(text(name))
    changed = apply_changes(raw, changes)
    return check_settings(raw, place=f"preset {name}", changed=changed)
