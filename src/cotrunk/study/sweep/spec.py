"""A sweep file, checked: what is tried, in which order, and with what."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cotrunk.build.trial import DEFAULT_SEED, Base, config_base, preset_base, with_changes
from cotrunk.data.tokens.workers import cores
from cotrunk.errors import Errors, UserError, decapitalized, did_you_mean, near_config, shown
from cotrunk.study.sweep.asha import Asha
from cotrunk.study.sweep.axes import Axis, Listed
from cotrunk.study.sweep.read_axes import read_axes

Search = Literal["grid", "random", "tpe"]
Scheduler = Literal["none", "asha"]
OVERALL = ("official", "mean")
KEYS = (
    "base", "preset", "data", "overrides", "unset", "axes", "zip", "seeds", "search", "scheduler",
    "asha", "objective", "trials", "minutes", "max_concurrent", "threads",
)  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """``trials`` and ``minutes`` are the budget; None: no limit.

    ``asha`` is None without a scheduler. ``objective`` is the score that search and scheduler look
    at: official, mean or a task. ``place`` names the sweep in messages.
    """

    place: str
    base: Base
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    search: Search = "grid"
    asha: Asha | None = None
    objective: str = "official"
    trials: int | None = None
    minutes: float | None = None
    max_concurrent: int = 1
    threads: int = 1


def read_spec(path: Path) -> Spec:
    """Read a sweep file; reports all errors at once."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file{near_config(path)}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; give a sweep file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: a sweep must be a TOML file in UTF-8; {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML; {decapitalized(str(error))}") from None
    return spec_of(table, path.parent, place=str(path))


def spec_of(table: Mapping[str, Any], folder: Path, *, place: str) -> Spec:
    """A sweep from its table; ``base`` is relative to ``folder``."""
    errors = Errors()
    for key in table:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"; known: {', '.join(KEYS)}"
            errors.lines.append(f"{key} is not a key of a sweep{hint}")
    found = dict[str, Any]()
    for key, read in READERS.items():
        with errors.gathered():
            found[key] = read(table.get(key))
    base = None
    with errors.gathered():
        base = _base(table, folder)
    if base is not None:
        with errors.gathered():
            found["axes"] = read_axes(table.get("axes", {}), table.get("zip", []), base.raw)
    if errors.lines:
        raise UserError(*(f"{place}: {line}" for line in dict.fromkeys(errors.lines)))
    assert base is not None
    threads = found["threads"] or 1
    spec = Spec(
        place=place,
        base=base,
        axes=found["axes"],
        seeds=_seeds(found["seeds"], base),
        search=found["search"],
        asha=found["asha"] if found["scheduler"] == "asha" else None,
        objective=found["objective"],
        trials=found["trials"],
        minutes=found["minutes"],
        max_concurrent=found["max_concurrent"] or max(1, cores() // threads),
        threads=threads,
    )
    if wrong := [*_wrong_budget(spec), *_wrong_objective(spec), *_idle(table, spec)]:
        raise UserError(*(f"{place}: {line}" for line in wrong))
    return spec


def _base(table: Mapping[str, Any], folder: Path) -> Base:
    base, preset, data = (table.get(key) for key in ("base", "preset", "data"))
    if (base is None) == (preset is None):
        if base is None:
            raise UserError('set base = "run.toml" or preset = "hybrid-bert"')
        given = f"base = {_quoted(base)} and preset = {_quoted(preset)}"
        raise UserError(f"{given}: only one of them can be the base; remove one")
    for key, value in (("base", base), ("preset", preset), ("data", data)):
        if value is not None and not isinstance(value, str):
            raise UserError(f"{key}: must be text in quotes; found {shown(value)}")
    if base is not None and data is not None:
        raise UserError("data: only a preset has course files; name them in the base")
    found = config_base(folder / base) if base else preset_base(str(preset), folder, data=data)
    overrides, unset = table.get("overrides", {}), table.get("unset", [])
    if not isinstance(overrides, dict):
        raise UserError('overrides: must be a table, as in [overrides] "train.epochs" = 1')
    if not isinstance(unset, list) or not all(isinstance(key, str) for key in unset):
        raise UserError('unset: must be a list of keys, as in unset = ["tasks.para"]')
    return with_changes(found, unset=unset, overrides=_flat(overrides))


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else shown(value)


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted key: a table written out as [overrides.train] changes only the keys it names."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and "." not in key and key in ("train", "encoder", "sharing"):
            flat |= {f"{key}.{inner}": set_to for inner, set_to in value.items()}
        else:
            flat[key] = value
    return flat


def _whole(key: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{key}: must be a whole number above 0; found {shown(value)}")
    return value


def _seed_list(value: object) -> int | tuple[int, ...]:
    if value is None:
        return 1
    if isinstance(value, list):
        fits = [isinstance(s, int) and not isinstance(s, bool) and 0 <= s < 2**32 for s in value]
        if not value or not all(fits) or len(set(value)) < len(value):
            raise UserError("seeds: must be different whole numbers from 0 up, as in [1, 2, 3]")
        return tuple(value)
    return _whole("seeds", value) or 1


def _minutes(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise UserError(f"minutes: must be a number above 0; found {shown(value)}")
    return float(value)


def _one_of(key: str, known: tuple[str, ...], value: object) -> str:
    if value is None:
        return known[0]
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise UserError(f"{key} = {shown(value)}: must be one of {', '.join(known)}{hint}")
    return str(value)


def _asha(value: object) -> Asha:
    if value is None:
        return Asha()
    if not isinstance(value, dict) or not set(value) <= {"grace", "reduction"}:
        raise UserError("asha: must be a table with grace and reduction, as in { grace = 2 }")
    made = Asha(
        grace=_whole("asha.grace", value.get("grace")) or Asha.grace,
        reduction=_whole("asha.reduction", value.get("reduction")) or Asha.reduction,
    )
    if made.reduction < 2:
        raise UserError(f"asha.reduction = {made.reduction}: must be 2 or more")
    return made


READERS: dict[str, Callable[[object], Any]] = {
    "seeds": _seed_list,
    "search": lambda value: _one_of("search", get_args(Search), value),
    "scheduler": lambda value: _one_of("scheduler", get_args(Scheduler), value),
    "asha": _asha,
    "objective": lambda value: "official" if value is None else str(value),
    "trials": lambda value: _whole("trials", value),
    "minutes": _minutes,
    "max_concurrent": lambda value: _whole("max_concurrent", value),
    "threads": lambda value: _whole("threads", value),
}


def _seeds(wanted: int | tuple[int, ...], base: Base) -> tuple[int, ...]:
    """A number of seeds counts up from that of the base."""
    if isinstance(wanted, tuple):
        return wanted
    train = base.raw.get("train")
    first = train.get("seed", DEFAULT_SEED) if isinstance(train, dict) else DEFAULT_SEED
    return tuple(first + n for n in range(wanted)) if isinstance(first, int) else (first,) * wanted


def _wrong_budget(spec: Spec) -> list[str]:
    open_ended = [a.name for a in spec.axes if 0 in a.sizes and getattr(a, "samples", 1) is None]
    wrong = []
    if spec.search == "grid":
        if spec.trials is not None:
            wrong.append(
                'trials: search = "grid" tries all combinations; remove it, '
                'or use search = "random" or "tpe"'
            )
        wrong += [f"axes: {name}: set samples, the number of values to draw" for name in open_ended]
    elif spec.trials is None and spec.minutes is None and open_ended:
        wrong.append(f'trials: search = "{spec.search}" needs a budget: set trials or minutes')
    return wrong


def _wrong_objective(spec: Spec) -> list[str]:
    """Search and scheduler compare trials, so all of them must have the score."""
    if spec.search != "tpe" and spec.asha is None:
        return []
    raw = spec.base.raw.get("tasks")
    tasks = list(raw) if isinstance(raw, dict) else []
    if spec.objective not in [*OVERALL, *tasks]:
        hint = did_you_mean(spec.objective, tasks)
        known = ", ".join([*OVERALL, *tasks])
        return [f"objective = {spec.objective!r}: must be one of {known}{hint}"]
    subsets = [set(tasks) & _tasks_at(axis, point, tasks) for axis in spec.axes
               if isinstance(axis, Listed) for point in axis.points]  # fmt: skip
    common = set(tasks).intersection(*subsets)
    if spec.objective in OVERALL and any(subset != set(tasks) for subset in subsets):
        names = ", ".join(sorted(common)) or "none"
        return [
            "objective: the overall scores of different tasks cannot be compared; "
            f"name a task that all trials have (here: {names})"
        ]
    if spec.objective in tasks and spec.objective not in common:
        return [f"objective = {spec.objective!r}: some trials do not have this task"]
    return []


def _tasks_at(axis: Listed, point: Any, tasks: list[str]) -> set[str]:
    wanted = point.changes.get("tasks") if "tasks" in axis.keys else None
    kept = set(wanted) if isinstance(wanted, list) else set(tasks)
    return kept - {key.removeprefix("tasks.") for key in point.removed}


def _idle(table: Mapping[str, Any], spec: Spec) -> list[str]:
    if not spec.axes and len(spec.seeds) == 1:
        return ['nothing varies: add an axis, as in [axes] "train.lr" = [1e-5, 1e-4], or seeds']
    if "asha" in table and spec.asha is None:
        return ['asha: has no effect without scheduler = "asha"']
    return []
