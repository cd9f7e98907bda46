"""A study file: its sweeps, the tables that a report printed, and the claims to test."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotrunk.errors import UserError, did_you_mean

FOLDER = Path(__file__).parent / "studies"
SHARING = "sharing"
"""The study that is made from a user's config, so it has no file."""
Budget = Literal["quick", "full"]
BUDGETS: tuple[Budget, ...] = ("quick", "full")
Names = str | list[str]
Test = Literal[
    "better", "not-worse", "equivalent", "order", "trend", "effect", "count", "ratio", "none"
]


class StudyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepPart(StudyModel):
    """Trials that differ in ``axes`` (all combinations) or ``variants`` (settings by name).

    They start from a ``preset``, or from a config ``base``, relative to the study file. A
    ``search`` has one seed per trial, or its own number, regardless of ``--seeds``.
    """

    preset: str | None = None
    base: str | None = None
    overrides: dict[str, Any] = {}
    unset: list[str] = []
    axes: dict[str, Any] = {}
    variants: dict[str, dict[str, Any]] = {}
    seeds: Annotated[int, Field(ge=1)] | None = None
    search: bool = False
    needs: list[str] = []
    skip: str | None = None


class BudgetPart(StudyModel):
    """What all sweeps have in common. ``dev_rows``: how many of the largest dev file are used."""

    seeds: Annotated[int, Field(ge=1)]
    as_reported: bool = False
    overrides: dict[str, Any] = {}
    unset: list[str] = []
    dev_rows: Annotated[int, Field(ge=1)] | None = None
    values: dict[str, Any] = {}


class Selection(StudyModel):
    """Runs of a sweep whose settings are as in ``where``; of several, the ``best`` by a score."""

    sweep: str
    where: dict[str, Any] = {}
    tasks: list[str] | None = None
    best: str | None = None


class Row(StudyModel):
    name: str
    runs: str | None = None
    printed: list[float | str | None] = []


class Table(StudyModel):
    """Laid out as in the report; ``columns`` are measures, as in the claims' ``on``.

    TM-relative scores are relative to ``baseline``.
    """

    title: str
    baseline: str | None = None
    columns: list[str]
    rows: list[Row]


class Claim(StudyModel):
    """A claim of a report, and the test that decides it, fixed before anything runs."""

    id: str
    claim: str
    test: Test
    on: Names = []
    one: Names = []
    other: Names = []
    than: list[Names] = []
    combine: Literal["each", "mean", "sum"] = "each"
    margin: float = 0.0
    between: tuple[float, float] | None = None
    least: int | None = None
    why: str = ""


class Count(StudyModel):
    """A network that is only counted, never trained."""

    preset: str
    as_reported: bool = True
    overrides: dict[str, Any] = {}


class Study(StudyModel):
    """A study at one budget; ``folder`` is that of its file."""

    name: str = ""
    folder: Path = FOLDER
    title: str
    report: str
    notes: list[str] = []
    budget: BudgetPart
    sweeps: dict[str, SweepPart]
    runs: dict[str, Selection] = {}
    counts: dict[str, Count] = {}
    tables: list[Table] = []
    claims: list[Claim] = []


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def titles() -> dict[str, str]:
    """The title of each study of the package."""
    files = {name: FOLDER / f"{name}.toml" for name in names()}
    return {
        name: tomllib.loads(f.read_text(encoding="utf-8"))["title"] for name, f in files.items()
    }


def read_study(name: str, budget: Budget, *, with_data: bool = False) -> Study:
    """A study of the package, or a file that ends in .toml; ``with_data``: not the sample data."""
    path = Path(name)
    if path.suffix != ".toml":
        if name not in names():
            known = [*names(), SHARING]
            hint = did_you_mean(name, known) or f"; the studies are {', '.join(known)}"
            raise UserError(f"study {name}: no such study{hint}")
        path = FOLDER / f"{name}.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: a study must be a TOML file in UTF-8; {error}") from None
    return check_study(raw, budget, path, with_data=with_data)


def check_study(
    raw: Mapping[str, Any], budget: Budget, path: Path, *, with_data: bool = False
) -> Study:
    """The study at one budget; reports all errors at once."""
    place = path.stem
    if wrong := _not_tables(raw):
        raise UserError(*(f"{place}: {line}" for line in wrong))
    try:
        whole = _at_budget(raw, budget, with_data=with_data)
        study = Study.model_validate({**whole, "name": place, "folder": path.parent})
    except ValidationError as error:
        raise UserError(*(_line(place, each) for each in error.errors())) from None
    wrong = [*wrong_names(study), *(line for claim in study.claims for line in _wrong(claim))]
    if wrong:
        raise UserError(*(f"{place}: {line}" for line in wrong))
    return study


def wrong_names(study: Study) -> list[str]:
    """Names of runs, sweeps and counted networks that the study does not have."""
    wrong = [
        f"sweeps.{name}: needs either a preset or a base"
        for name, part in study.sweeps.items()
        if (part.preset is None) == (part.base is None)
    ]
    wrong += _wrong_axes(study)
    for name, selection in study.runs.items():
        if selection.sweep not in study.sweeps:
            hint = did_you_mean(selection.sweep, study.sweeps)
            wrong.append(f"runs.{name}: there is no sweep {selection.sweep!r}{hint}")
    known = [*selections_of(study), *study.counts]
    for place, name in used_names(study):
        if name not in known:
            wrong.append(f"{place}: there are no runs {name!r}{did_you_mean(name, known)}")
    twice = {c.id for c in study.claims if [d.id for d in study.claims].count(c.id) > 1}
    return wrong + [f"claim {id}: the id is used twice" for id in sorted(twice)]


def _wrong_axes(study: Study) -> list[str]:
    """Axes that take the best values of another sweep, which must have run before."""
    wrong, earlier = [], list[str]()
    for name, part in study.sweeps.items():
        for key, axis in part.axes.items():
            if not isinstance(axis, dict) or "best_of" not in axis:
                continue
            place = f"sweeps.{name}: axes: {key}"
            if axis["best_of"] not in earlier:
                hint = did_you_mean(str(axis["best_of"]), earlier)
                wrong.append(f"{place}: there is no earlier sweep {axis['best_of']!r}{hint}")
            count = axis.get("count")
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                wrong.append(f"{place}: best_of needs count: how many values, 1 or more")
            if not isinstance(axis.get("by"), str):
                wrong.append(f"{place}: best_of needs by: a score, such as 'mean'")
            if not isinstance(axis.get("without", []), list):
                wrong.append(f"{place}: without: must be a list of values")
        earlier.append(name)
    return wrong


def used_names(study: Study) -> list[tuple[str, str]]:
    """Names of runs, each with the table or claim that is about them."""
    used = [
        (f"table {table.title!r}", name)
        for table in study.tables
        for name in (table.baseline, *(row.runs for row in table.rows))
        if name
    ]
    return used + [(f"claim {c.id}", name) for c in study.claims for name in sides_of(c)]


def _wrong(claim: Claim) -> list[str]:
    """What the test of a claim needs and the claim does not say."""
    ones, others = as_list(claim.one), as_list(claim.other)
    if claim.test == "none":
        needs = [(bool(claim.why), "why: the reason why it cannot be tested")]
    else:
        needs = [(bool(as_list(claim.on)), "on: a task or another measure")]
        in_order = claim.test in ("order", "trend")
        least = "one: two names of runs or more" if in_order else "one: the name of runs"
        needs.append((len(ones) >= (2 if in_order else 1), least))
        needs.append((in_order or bool(others), "other: the runs to compare with"))
    match claim.test:
        case "effect":
            two = len(claim.than) == 2 and all(as_list(side) for side in claim.than)
            needs.append((two, "than = [one, other]: the runs of the smaller difference"))
        case "ratio":
            limits = claim.between is not None and claim.between[0] < claim.between[1]
            needs.append((limits, "between = [low, high]: the limits of the ratio"))
        case "equivalent":
            needs.append((claim.margin > 0, "margin: a number above 0"))
        case "count":
            most = len(ones) * len(others) * len(as_list(claim.on))
            known = claim.least is not None and 0 < claim.least <= max(most, 1)
            needs.append((known, f"least: a number from 1 to {max(most, 1)}"))
    return [f"claim {claim.id}: {claim.test} needs {need}" for met, need in needs if not met]


def selections_of(study: Study) -> dict[str, Selection]:
    """All names of runs: those under [runs], and the variants of the sweeps."""
    variants = {
        name: Selection(sweep=sweep, where=changes)
        for sweep, part in study.sweeps.items()
        for name, changes in part.variants.items()
    }
    return {**variants, **study.runs}


def sides_of(claim: Claim) -> list[str]:
    """The names of all runs that a claim is about."""
    return [name for side in (claim.one, claim.other, *claim.than) for name in as_list(side)]


def as_list(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _not_tables(raw: Mapping[str, Any]) -> list[str]:
    """What is merged before the file is checked, and is not a table."""
    whole = [(key, raw[key]) for key in ("budgets", "sweeps") if key in raw]
    parts = [(f"{key}.{name}", part) for key, value in whole for name, part in _items(value)]
    nested = ("with_data", "values", *BUDGETS)
    inner = [
        (f"{key}.{name}", value)
        for key, part in parts
        for name, value in _items(part)
        if name in nested
    ]
    found = [*whole, *parts, *inner]
    return [f"{key}: must be a table" for key, value in found if not isinstance(value, dict)]


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _at_budget(raw: Mapping[str, Any], budget: Budget, *, with_data: bool) -> dict[str, Any]:
    """The file with the tables of one budget merged in, and ``$name`` replaced by its values."""
    rest = {key: value for key, value in raw.items() if key not in ("budgets", "sweeps")}
    own = dict(raw.get("budgets", {}).get(budget, {}))
    for key, more in own.pop("with_data", {}).items() if with_data else ():
        nested = isinstance(more, dict) and isinstance(own.get(key), dict)
        own[key] = {**own[key], **more} if nested else more
    own.pop("with_data", None)
    sweeps = {name: _merged(part, budget) for name, part in raw.get("sweeps", {}).items()}
    whole = {**rest, "budget": own, "sweeps": sweeps}
    return _replaced(whole, own.get("values", {}))


def _merged(part: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    common = {key: value for key, value in part.items() if key not in BUDGETS}
    for key, value in part.get(budget, {}).items():
        is_merged = key in ("overrides", "axes") and isinstance(value, dict)
        nested = is_merged and isinstance(common.get(key), dict)
        common[key] = {**common[key], **value} if nested else value
    return common


def _replaced(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith("$") and value[1:] in values:
        return values[value[1:]]
    if isinstance(value, dict):
        return {key: _replaced(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, values) for inner in value]
    return value


def _line(place: str, error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    return f"{place}: {where}: {error['msg'][0].lower()}{error['msg'][1:]}"
