"""The ``[axes]`` table of a sweep file -> axes; every error is one line."""

from collections.abc import Mapping, Sequence
from typing import Any

from cotrunk.errors import Errors, UserError, did_you_mean, shown
from cotrunk.study.sweep.axes import Axis, Interval, Listed, Point, Simplex, digest, label_of, short

FORMS = ("choice", "uniform", "log_uniform", "simplex", "variants")
OPTIONS = {
    "choice": {"samples"},
    "uniform": {"samples"},
    "log_uniform": {"samples"},
    "simplex": {"samples", "values", "total"},
    "variants": set[str](),
}
ALMOST = 1e-6
Raw = Mapping[str, Any]


def read_axes(table: object, zips: object, base: Raw) -> tuple[Axis, ...]:
    """``base`` is the config that the axes change."""
    if not isinstance(table, dict):
        raise UserError(
            f'axes: must be a table, as in [axes] "train.lr" = [1e-5, 1e-4]; found {shown(table)}'
        )
    errors = Errors()
    axes: list[Axis] = []
    for name, written in table.items():
        with errors.gathered():
            axes.append(_axis(name, written, base))
    errors.lines += _taken_twice(axes)
    errors.lines += _unknown_tasks(axes, base)
    errors.refuse()
    return _zipped(axes, zips)


def _axis(name: str, written: object, base: Raw) -> Axis:
    if name == "train.seed":
        raise UserError("axes: train.seed: seeds are not an axis; set seeds = 3 or a list of seeds")
    if isinstance(written, list):
        return _listed(name, written, base)
    if not isinstance(written, dict):
        raise UserError(
            f"axes: {name}: must be a list of values or a table such as "
            f"{{ uniform = [0, 1], samples = 4 }}; found {shown(written)}"
        )
    forms = [form for form in FORMS if form in written]
    if len(forms) != 1:
        known = ", ".join(FORMS)
        raise UserError(f"axes: {name}: give a list of values, or one of {known}")
    form = forms[0]
    if unknown := set(written) - {form} - OPTIONS[form]:
        known = ", ".join(sorted({form, *OPTIONS[form]}))
        hint = did_you_mean(min(unknown), [form, *OPTIONS[form]]) or f"; known: {known}"
        raise UserError(f"axes: {name}: {min(unknown)} is not an option of {form}{hint}")
    samples = _samples(name, written.get("samples"))
    match form:
        case "choice":
            return _listed(name, written[form], base, samples)
        case "simplex":
            return _simplex(name, written, samples)
        case "variants":
            return _variants(name, written[form], base)
    return _interval(name, form, written[form], samples)


def _samples(name: str, samples: object) -> int | None:
    if samples is None or (_is_whole(samples) and isinstance(samples, int) and samples > 0):
        return samples
    raise UserError(f"axes: {name}: samples must be a whole number above 0; found {shown(samples)}")


def _listed(name: str, values: object, base: Raw, samples: int | None = None) -> Listed:
    if not isinstance(values, list) or not values:
        found = "an empty list" if values == [] else shown(values)
        raise UserError(f"axes: {name}: needs at least one value; found {found}")
    if samples is not None and samples > len(values):
        raise UserError(
            f"axes: {name}: samples = {samples}, but there are only {len(values)} values"
        )
    is_table = _takes_table(name, values, base)
    labels = _distinct([_label(value, is_table) for value in values], values)
    points = []
    for value, label in zip(values, labels, strict=True):
        removes = value is False and is_table
        choices = {name: value}
        changes = {} if removes else choices
        removed = (name,) if removes else ()
        points.append(Point(choices, changes, f"{short(name)}={label}", removed))
    return Listed(name, (name,), tuple(points), samples)


def _label(value: object, is_table: bool) -> str:
    return "none" if value is False and is_table else label_of(value)


def _distinct(labels: Sequence[str], values: Sequence[object]) -> list[str]:
    """A label that cannot be told apart from an earlier one gets a digest of its value.

    The earlier one stays as it is: a value that is added to a sweep must not rename its runs.
    """
    taken = set[str]()
    found = []
    for label, value in zip(labels, values, strict=True):
        found.append(f"{label}-{digest(value, 4)}" if label.lower() in taken else label)
        taken.add(label.lower())
    return found


def _variants(name: str, table: object, base: Raw) -> Listed:
    """Named sets of changes."""
    if not isinstance(table, dict) or not table:
        raise UserError(
            f"axes: {name}: variants must be a table of tables, as in "
            f'[axes.{name}.variants.shared] "sharing.encoder" = "S6"'
        )
    if wrong := [variant for variant, changes in table.items() if not isinstance(changes, dict)]:
        raise UserError(f"axes: {name}: {wrong[0]} must be a table of settings by dotted key")
    keys = tuple(dict.fromkeys(key for changes in table.values() for key in changes))
    tables = {key for key in keys if _takes_table(key, [c.get(key) for c in table.values()], base)}
    labels = _distinct([label_of(variant) for variant in table], list(table))
    points = []
    for (variant, changes), label in zip(table.items(), labels, strict=True):
        removed = tuple(key for key in changes if changes[key] is False and key in tables)
        kept = {key: value for key, value in changes.items() if key not in removed}
        points.append(Point({name: variant}, kept, f"{short(name)}={label}", removed))
    return Listed(name, keys, tuple(points))


def _takes_table(key: str, values: Sequence[object], base: Raw) -> bool:
    """There ``false`` removes the table."""
    return isinstance(_find(base, key), dict) or any(isinstance(value, dict) for value in values)


def _interval(name: str, form: str, ends: object, samples: int | None) -> Interval:
    if not (isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))):
        raise UserError(f"axes: {name}: {form} needs two numbers, as in {form} = [0.1, 1.0]")
    low, high = map(float, ends)
    if not low < high:
        raise UserError(f"axes: {name}: {form} = {ends}: the first number must be the smaller one")
    if form == "log_uniform" and low <= 0:
        raise UserError(f"axes: {name}: log_uniform = {ends}: both numbers must be above 0")
    return Interval(name, low, high, log=form == "log_uniform", samples=samples)


def _simplex(name: str, written: Raw, samples: int | None) -> Axis:
    keys, total = written["simplex"], written.get("total", 1.0)
    if not (isinstance(keys, list) and len(keys) > 1 and all(isinstance(k, str) for k in keys)):
        raise UserError(
            f"axes: {name}: simplex must list two or more keys, as in "
            '["tasks.sst.weight", "tasks.para.weight"]'
        )
    if not (_is_number(total) and total > 0):
        raise UserError(f"axes: {name}: total must be a number above 0; found {shown(total)}")
    values = written.get("values")
    if values is None:
        return Simplex(name, tuple(keys), float(total), samples)
    if samples is not None:
        raise UserError(f"axes: {name}: values and samples both say how many points; remove one")
    if not isinstance(values, list) or not values:
        raise UserError(f"axes: {name}: values must be a list of lists with {len(keys)} numbers")
    errors = Errors()
    errors.lines += [line for point in values if (line := _off_simplex(name, point, keys, total))]
    errors.refuse()
    labels = _distinct([label_of(point) for point in values], values)
    points = []
    for point, label in zip(values, labels, strict=True):
        choices = dict(zip(keys, point, strict=True))
        points.append(Point(choices, choices, f"{short(name)}={label}"))
    return Listed(name, tuple(keys), tuple(points))


def _off_simplex(name: str, point: object, keys: Sequence[str], total: float) -> str | None:
    if not (isinstance(point, list) and len(point) == len(keys) and all(map(_is_number, point))):
        return f"axes: {name}: each of the values must be {len(keys)} numbers; found {point}"
    if any(number < 0 for number in point):
        return f"axes: {name}: {point} has a number below 0"
    if abs(sum(point) - total) > ALMOST:
        return f"axes: {name}: {point} must add up to {total:g}; found {sum(point):g}"
    return None


def _taken_twice(axes: Sequence[Axis]) -> list[str]:
    """Keys that two axes set; a part of a table that another axis replaces counts, too."""
    wrong = []
    for number, axis in enumerate(axes):
        for other in axes[:number]:
            for key in axis.keys:
                hit = [k for k in other.keys if k == key or key.startswith(f"{k}.")]
                if hit and hit[0] != "tasks":
                    wrong.append(f"axes: {axis.name} and {other.name} both set {key}")
    return wrong


def _unknown_tasks(axes: Sequence[Axis], base: Raw) -> list[str]:
    tasks = base.get("tasks")
    known = list(tasks) if isinstance(tasks, dict) else []
    made = [key.split(".")[1] for axis in axes for key in axis.keys if key.startswith("tasks.")
            and key.count(".") == 1]  # fmt: skip
    wrong = []
    for axis in axes:
        for key in axis.keys:
            part = key.split(".")
            if part[0] == "tasks" and len(part) > 2 and part[1] not in [*known, *made]:
                hint = did_you_mean(part[1], known) or f"; tasks are {', '.join(known)}"
                wrong.append(f"axes: {key}: {part[1]!r} is not a task of the base{hint}")
    return wrong


def _zipped(axes: Sequence[Axis], zips: object) -> tuple[Axis, ...]:
    """Axes that are zipped become one; it stands where the first of them stood."""
    if not isinstance(zips, list) or not all(isinstance(group, list) for group in zips):
        raise UserError(
            'zip: must be a list of lists of axes, as in zip = [["sharing.encoder", "train.lr"]]'
        )
    by_name = {axis.name: axis for axis in axes}
    joined: dict[str, Axis] = {}
    errors = Errors()
    for group in zips:
        with errors.gathered():
            one = _zip(group, by_name)
            if again := [name for name in group if name in joined]:
                raise UserError(f"zip: {again[0]} is zipped twice")
            joined |= dict.fromkeys(group, one)
    errors.refuse()
    together = [joined.get(axis.name, axis) for axis in axes]
    return tuple({axis.name: axis for axis in together}.values())


def _zip(group: Sequence[Any], by_name: Mapping[str, Axis]) -> Listed:
    for name in group:
        if name not in by_name:
            hint = did_you_mean(str(name), by_name) or f"; axes are {', '.join(by_name)}"
            raise UserError(f"zip: {shown(name)} is not an axis{hint}")
    axes = [by_name[name] for name in group]
    if len(axes) < 2:
        raise UserError(f"zip: {group} must name two or more axes")
    for axis in axes:
        if not isinstance(axis, Listed):
            raise UserError(f"zip: {axis.name} has no list of values; write its values out")
    grids = [axis.grid() for axis in axes]
    lengths = [len(grid) for grid in grids]
    if len(set(lengths)) > 1:
        counts = ", ".join(f"{axis.name} has {n}" for axis, n in zip(axes, lengths, strict=True))
        raise UserError(f"zip: zipped axes must have equally many values; {counts}")
    points = tuple(merged(points) for points in zip(*grids, strict=True))
    return Listed(" ".join(group), tuple(key for axis in axes for key in axis.keys), points)


def merged(points: Sequence[Point]) -> Point:
    """The choices of several axes as one."""
    choices: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for point in points:
        choices |= point.choices
        changes |= point.changes
    label = ",".join(point.label for point in points)
    return Point(choices, changes, label, tuple(key for p in points for key in p.removed))


def _find(raw: Raw, key: str) -> object:
    found: object = raw
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
