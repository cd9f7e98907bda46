"""A TOML config, read and checked: all errors at once, each with its key."""

import tomllib
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cotrunk.config.findings import explain, findings
from cotrunk.config.kinds import Kinds, kind_findings, wrong_keep
from cotrunk.config.overrides import Keys, apply_changes, is_changed, remove_keys
from cotrunk.config.settings import Settings, TaskPart, Train
from cotrunk.errors import UserError, decapitalized, did_you_mean, near_config, spelled
from cotrunk.kinds import KINDS
from cotrunk.numbers import exact_float

MOST_BYTES = 2**20
ONCE_PER_RUN = (
    "device", "init_from", "keep", "keep_checkpoints", "max_seconds", "seed", "split_seed",
    "threads",
)  # fmt: skip
"""Keys of [train] that a stage cannot change."""
CHANGED_BY = spelled(command="--set ", python="overrides: ")
REPLACE_STAGES = spelled(command="--set 'stages=[...]'", python="overrides=['stages=[...]']")


def read_settings(
    path: Path,
    changes: list[str] | None = None,
    kinds: Kinds = KINDS,
    *,
    unset: Sequence[str] = (),
) -> Settings:
    """Read a config without the ``unset`` keys, with ``key=value`` changes; all errors at once."""
    raw = read_raw(path)
    remove_keys(raw, unset)
    changed = apply_changes(raw, changes or [])
    return check_settings(raw, place=str(path), changed=changed, kinds=kinds)


def read_raw(path: Path) -> dict[str, Any]:
    """A config as it is written, not yet checked."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{path}: a config must not exceed {MOST_BYTES:,} bytes")
        text = content.decode()
    except FileNotFoundError:
        python = f"`cotrunk.init(files, {str(path)!r})` creates one"
        start = "; " + spelled(command=f"`cotrunk init -o {path}` creates one", python=python)
        hint = near_config(path) or start
        raise UserError(f"{path}: no such file{hint}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; give a TOML config file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: a config must be a TOML file in UTF-8; {error}") from None
    try:
        return tomllib.loads(text, parse_float=exact_float)
    except tomllib.TOMLDecodeError as error:
        raise UserError(
            f"{path}: not valid TOML; {decapitalized(str(error))}{_if_data(path)}"
        ) from None
    except ValueError as error:
        raise UserError(f"{path}: {error}; write 0 or a larger number") from None


def _if_data(path: Path) -> str:
    """The fix for a data file that is given as a config."""
    if path.suffix == ".toml":
        return ""
    python = f"cotrunk.init([{str(path)!r}], 'run.toml')"
    command = f"cotrunk init {path} -o run.toml"
    return "; if it is a data file: " + spelled(command=command, python=python)


def check_settings(
    raw: dict[str, Any],
    *,
    place: str,
    changed: Collection[Keys] = (),
    changed_by: str = CHANGED_BY,
    kinds: Kinds = KINDS,
) -> Settings:
    """Errors are reported at ``place``, or at ``changed_by`` for keys that were ``changed``."""
    written = partial(_place, place=place, changed=changed, changed_by=changed_by)
    found: dict[Keys, str] = {}
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        found = findings(error, raw, Settings, kinds=kinds)
    found |= kind_findings(raw, kinds, common=TaskPart.model_fields, explain=explain)
    lines: list[str] = []
    if found:
        sections = [*Settings.model_fields, *raw]
        in_order = sorted(found, key=lambda keys: sections.index(keys[0]) if keys else 0)
        lines = [written(keys) + found[keys] for keys in in_order]
        others = _others(raw, found, kinds)
        if others is None:
            raise WrongSettings(*lines)
        settings = others
    lines += _wrong_together(settings, written, kinds)
    wrong = {".".join(keys) for keys in found}
    for number, changes in enumerate(settings.stages, start=1):
        stage = f"{written(('stages',))}stages {number}: "
        if said := _wrong_stage(changes, settings):
            lines += [stage + line for line in said]
            wrong |= {key for each in settings.stages for key in ("stages", *each)}
    lines += _idle_changes(changed, settings, changed_by)
    if "stages" in wrong:
        settings = settings.model_copy(update={"stages": []})
    if lines:
        raise WrongSettings(*lines, others=settings, wrong=wrong)
    return settings


class WrongSettings(UserError):
    """Some settings are wrong; ``others`` has defaults in their place, if it makes sense then.

    ``wrong``: the keys that have defaults there.
    """

    def __init__(
        self, *lines: str, others: Settings | None = None, wrong: Collection[str] = ()
    ) -> None:
        super().__init__(*lines)
        self.others, self.wrong = others, wrong


def _others(raw: dict[str, Any], found: Collection[Keys], kinds: Kinds) -> Settings | None:
    """The settings without the wrong ones; None if tasks would be missing or still be wrong."""
    if any(not keys or (keys[0] == "tasks" and keys[2:] in ((), ("kind",))) for keys in found):
        return None
    rest = deepcopy(raw)
    for keys in found:
        _drop(rest, keys)
    try:
        settings = Settings.model_validate(rest)
    except ValidationError:
        return None
    still = kind_findings(rest, kinds, common=TaskPart.model_fields, explain=explain)
    return None if still else settings


def _drop(table: dict[str, Any], keys: Keys) -> None:
    """Remove a key from nested tables; if it is in a list, the whole list."""
    first, *rest = keys
    if rest and isinstance(table.get(first), dict):
        _drop(table[first], tuple(rest))
    else:
        table.pop(first, None)


def _wrong_together(settings: Settings, written: Callable[[Keys], str], kinds: Kinds) -> list[str]:
    """What is wrong though each value is one that its key can have."""
    named = {name: part.kind for name, part in settings.tasks.items()}
    wrong = [written(("train", "keep")) + x for x in wrong_keep(settings.train.keep, named, kinds)]
    if settings.train.tasks is not None:
        line = "train.tasks: only a stage can select tasks; move it to [[stages]]"
        wrong.append(written(("train", "tasks")) + line)
    return wrong


def _place(keys: Keys, *, place: str, changed: Collection[Keys], changed_by: str) -> str:
    return changed_by if is_changed(keys, changed) else f"{place}: "


def _wrong_stage(changes: dict[str, Any], settings: Settings) -> list[str]:
    try:
        Train.model_validate({**settings.train.model_dump(), **changes})
    except ValidationError as error:
        return list(findings(error, changes, Train, above="train.").values())
    once = [key for key in ONCE_PER_RUN if key in changes]
    wrong = [f"{key} applies to the whole run; move it to [train]" for key in once]
    for name in changes.get("tasks") or []:
        if name not in settings.tasks:
            hint = did_you_mean(name, settings.tasks)
            known = ", ".join(settings.tasks)
            wrong.append(f"tasks: {name!r} is not a task; tasks are {known}{hint}")
    return wrong


def _idle_changes(changed: Collection[Keys], settings: Settings, changed_by: str) -> list[str]:
    """Changes to [train] without effect, because every stage sets the key."""
    named = [set(stage) for stage in settings.stages] or [set()]
    idle = settings.train.model_fields_set.intersection(*named)
    return [
        f"{changed_by}train.{key} has no effect: every stage sets its own {key}; "
        f"change it in the file, or replace the stages ({REPLACE_STAGES})"
        for key in sorted(idle)
        if is_changed(("train", key), changed)
    ]
