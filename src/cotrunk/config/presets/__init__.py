"""Ready-to-train configs: base.toml with the changes in each preset's own file.

``as_reported/`` has a second layer for them: the settings of the reports, for BERT-base.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotrunk.config.overrides import apply_changes, remove_keys
from cotrunk.config.presets.depth import fit_plan
from cotrunk.config.presets.layers import Entry, Layer, read_layer
from cotrunk.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from cotrunk.config.settings import Settings

FOLDER = Path(__file__).parent
AS_REPORTED = FOLDER / "as_reported"
BASE = "base"
NOT_REPORTED = ("headline", "pals-late")
"""Presets that no report has trained."""
REPORTED_LAYERS = 12  # of BERT-base
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


def text(
    name: str,
    *,
    data: str | None = None,
    weights: str | None = None,
    layers: int | None = None,
    as_reported: bool = False,
) -> str:
    """A complete config; with ``data``, it reads the course's files in that folder.

    ``weights`` is another encoder and ``layers`` its depth, to which the plan is fitted.
    ``as_reported``: the report's own settings, for BERT-base unless ``weights`` says otherwise.
    """
    if name not in names():
        hint = did_you_mean(name, names()) or f"; the presets are {', '.join(names())}"
        raise UserError(f"--preset {name}: no such preset{hint}")
    layer = _layer(name)
    if as_reported:
        layer = _as_reported(layer, name)
        layers = layers or REPORTED_LAYERS
    if weights is not None:
        layer = layer.with_value("encoder.weights", Entry(_quoted(weights), "# the encoder"))
    if layers is not None:
        layer = _fitted(layer, layers)
    written = layer.text()
    if data is not None:
        for sample, course in COURSE_FILES.items():
            written = written.replace(sample, (Path(data) / course).as_posix())
    return written


def summaries() -> dict[str, str]:
    """The one-line description of each preset, from the first line of its file."""
    return {name: _file(name).partition("\n")[0].partition(": ")[2] for name in names()}


def raw(name: str, *, data: str | None = None) -> dict[str, Any]:
    """A preset as a table, not yet checked."""
    return tomllib.loads(text(name, data=data))


def settings(name: str, *, changes: list[str], unset: Sequence[str] = ()) -> "Settings":
    from cotrunk.config.check import check_settings

    table = raw(name)
    remove_keys(table, unset)
    changed = apply_changes(table, changes)
    return check_settings(table, place=f"preset {name}", changed=changed)


def _layer(name: str) -> Layer:
    first, *rest = (read_layer(_file(each)) for each in _ancestry(name))
    for own in rest:
        own.entries.pop("extends", None)
        first = own.over(first)
    return first


def _ancestry(name: str) -> list[str]:
    """The presets that a preset extends, from the base to itself."""
    if name == BASE:
        return [BASE]
    return [*_ancestry(tomllib.loads(_file(name)).get("extends", BASE)), name]


def _as_reported(layer: Layer, name: str) -> Layer:
    """With the report's own settings, for a preset and for those it extends."""
    if name in NOT_REPORTED:
        raise UserError(f"--preset {name} --as-reported: no report has trained it")
    files = [AS_REPORTED / f"{each}.toml" for each in _ancestry(name)]
    own = [read_layer(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    about = own[0].introduction if len(own) == 1 else own[0].introduction + own[-1].introduction
    introduction = (layer.introduction[0], *about)
    for each in own:
        layer = each.over(layer)
    return replace(layer, introduction=introduction)


def _fitted(layer: Layer, layers: int) -> Layer:
    """The same shares of the depth shared, for an encoder of ``layers``."""
    key = "sharing.encoder"
    plan = tomllib.loads(f"plan = {layer.entries[key].value}")["plan"]
    fitted = fit_plan(plan, layers)
    if fitted == plan:
        return layer
    comment = f"# the preset's {_quoted(plan)}, fitted to {layers} layers"
    return layer.with_value(key, Entry(_quoted(fitted), comment))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _file(name: str) -> str:
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
