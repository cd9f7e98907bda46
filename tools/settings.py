"""Writes docs/settings.md from the settings themselves: ``python -m tools.settings``."""

import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from cotrunk.config.settings import (
    Head,
    LowRank,
    Projected,
    Reading,
    Settings,
    Soft,
    TaskPart,
    Track,
)
from cotrunk.kinds import KINDS

PAGE = Path(__file__).parents[1] / "docs/settings.md"
TOP = """# All settings

Every key of a config, what it takes and its default; [config.md](config.md) says what it means.
This page is written by `python -m tools.settings`, from the code that checks a config.
"""
TABLES = {
    "sharing.pal": Projected,
    "sharing.lora": LowRank,
    "sharing.soft": Soft,
    "tasks.NAME": TaskPart,
    "tasks.NAME.head": Head,
    "tasks.NAME.reading": Reading,
}
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "`true` or `false`"}
BOUNDS = {Ge: ("ge", "&ge;"), Gt: ("gt", "&gt;"), Le: ("le", "&le;"), Lt: ("lt", "&lt;")}


def page() -> str:
    encoder, sharing, train = (
        Settings.model_fields[name].annotation for name in ("encoder", "sharing", "train")
    )
    tables = {"encoder": encoder, "sharing": sharing, **TABLES, "train": train}
    parts = [TOP, *(_section(f"[{name}]", _rows(model)) for name, model in tables.items())]
    parts.append(
        "## [[stages]]\n\nA list of tables. Each changes some keys of `[train]`; `tasks` names "
        "those it trains.\n"
    )
    parts.append(_section("[track]", _rows(Track)))
    parts.append("## Keys of each kind\n\nThey stand in `[tasks.NAME]`, beside `kind`.\n")
    parts += ["#" + _section(f'kind = "{name}"', _kind_rows(kind)) for name, kind in KINDS.items()]
    return "\n".join(parts)


Rows = Iterator[tuple[str, str, str]]


def _section(title: str, rows: Rows) -> str:
    lines = [f"| `{key}` | {takes} | {default} |" for key, takes, default in rows]
    return "\n".join([f"## {title}\n", "| key | takes | default |", "|---|---|---|", *lines, ""])


def _rows(model: Any) -> Rows:
    """The keys of a table; tables inside it have sections of their own."""
    for name, field in model.model_fields.items():
        if not _is_table(field.annotation):
            yield name, _takes(_annotated(field)), _default(field.default)


def _kind_rows(kind: type[Any]) -> Rows:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = PydanticUndefined if field.default is MISSING else field.default
        if field.metadata.get("hidden"):  # found in the files, not chosen
            continue
        yield field.name, _takes(hints[field.name]), _default(default)


def _is_table(annotation: Any) -> bool:
    inside = get_args(annotation) or (annotation,)
    return any(isinstance(one, type) and issubclass(one, BaseModel) for one in inside)


def _annotated(field: FieldInfo) -> Any:
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _takes(annotation: Any) -> str:
    """A type in words."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = " and ".join(filter(None, map(_bound, inside[1:])))
        return f"{_takes(inside[0])} {bounds}".strip()
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in inside if value != "")
    if origin in (Union, UnionType):
        words = [_takes(one) for one in inside if one is not NoneType]
        return ", or ".join(dict.fromkeys(words))
    if origin in (list, tuple):
        return f"a list of: {_takes(inside[0])}"
    if origin is not None and len(inside) == 2:
        return f"a table of: {_takes(inside[1])}"
    return WORDS.get(annotation, "any value")


def _bound(found: object) -> str:
    if isinstance(found, FieldInfo):
        return " and ".join(filter(None, map(_bound, found.metadata)))
    for kind, (attribute, words) in BOUNDS.items():
        if isinstance(found, kind):
            return f"{words} {getattr(found, attribute):,}"
    return ""  # lengths and patterns: config.md has the rule


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ([], {}, (), ""):
        return ""
    shown = json.dumps(value).replace("e-0", "e-").replace("|", "\\|")
    return f"`{shown}`"


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
