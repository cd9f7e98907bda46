"""What pydantic found wrong, in the words of a config: each line with its key and the rule."""

from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cotrunk.config.kinds import Kinds
from cotrunk.config.overrides import Keys
from cotrunk.config.renamed import new_name
from cotrunk.errors import did_you_mean
from cotrunk.kinds import KINDS

NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"
DEVICE = r"^(auto|cpu|mps|cuda(:[0-9]{1,3})?)$"


def findings(
    error: ValidationError,
    raw: dict[str, Any],
    root: type[BaseModel],
    *,
    above: str = "",
    kinds: Kinds = KINDS,
) -> dict[Keys, str]:
    """Error messages by the keys they are about; ``above`` is the table that ``root`` describes."""
    lines: dict[Keys, str] = {}
    for details in error.errors(include_url=False):
        keys = _path(details, raw)
        found, needed = _finding(keys, details, root, above, kinds)
        # pydantic reports each arm of a union: join them in one line.
        before = lines.get(keys)
        name = ".".join(keys) or "the file"
        lines[keys] = f"{before}, or {needed}" if before else f"{name}{found}{needed}"
    return lines


def _path(details: ErrorDetails, raw: dict[str, Any]) -> Keys:
    """The config keys that lead to an error, without pydantic's names for a union's arms."""
    path: list[str] = []
    inside: Any = raw
    for part in details["loc"]:
        if isinstance(inside, dict) and part in inside:
            inside = inside[part]
        elif isinstance(inside, list) and isinstance(part, int):
            inside = inside[part]
        elif details["type"] != "missing" or part != details["loc"][-1]:
            continue
        path.append(str(part))
    return tuple(path)


def _finding(
    path: Keys, details: ErrorDetails, root: type[BaseModel], above: str, kinds: Kinds
) -> tuple[str, str]:
    """What was found, and the rule."""
    if details["type"] == "extra_forbidden":
        renamed = new_name(".".join(path), inside=above)
        if renamed:
            return " is not a setting", f": it is now called {renamed}"
        known = _keys(path[:-1], root)
        tables = [f"{key}.{path[0]}" for key in known if path[0] in _keys((key,), root)]
        near = f"; did you mean {tables[0]!r}?" if tables and len(path) == 1 else ""
        hint = near or did_you_mean(path[-1], known) or f"; known: {', '.join(known)}"
        return " is not a setting", hint
    if details["type"] == "missing":
        return " is missing: ", _why_needed(path[-1], kinds)
    return f" = {_shown(details['input'])}: ", rule(details)


RULES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text in quotes",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have {min_length} or more entries; found {actual_length}",
    "too_long": "must have at most {max_length} entries; found {actual_length}",
}
PATTERNS = {
    NAME: "must start with a letter, followed by letters, digits, _ or -",
    DEVICE: "must be auto, cpu, mps, cuda or cuda:<number>",
}


def rule(details: ErrorDetails) -> str:
    """The rule, in the words of a config rather than of a type checker."""
    context = details.get("ctx", {})
    if details["type"] == "string_pattern_mismatch":
        return PATTERNS[context["pattern"]]
    if details["type"] == "literal_error":
        names = [name.strip(" '") for name in context["expected"].replace(" or ", ",").split(",")]
        hint = did_you_mean(str(details["input"]), names)
        return f"must be one of {', '.join(name for name in names if name)}{hint}"
    said = RULES.get(details["type"])
    return said.format(**context) if said else details["msg"][0].lower() + details["msg"][1:]


def _why_needed(key: str, kinds: Kinds) -> str:
    return {
        "tasks": "define at least one task, as in [tasks.sentiment]",
        "kind": f"set it to one of {', '.join(kinds)}",
    }.get(key, "it has no default")


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, dict) else "a table"
    return text if len(text) <= 60 else text[:57] + "..."


def _keys(path: Keys, root: type[BaseModel]) -> list[str]:
    """The known keys of a table."""
    model, steps = root, list(path)
    while steps:
        field = model.model_fields.get(steps.pop(0))
        annotation = None if field is None else field.annotation
        parts = (annotation, *getattr(annotation, "__args__", ()))
        inner = [p for p in parts if isinstance(p, type) and issubclass(p, BaseModel)]
        if not inner:
            return []
        model = inner[0]
        if get_origin(annotation) is dict:  # a table of tables: the next key is a name
            steps = steps[1:]
    return list(model.model_fields)
