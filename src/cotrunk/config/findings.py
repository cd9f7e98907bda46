"""What pydantic found wrong, in the words of a config: each line with its key and the rule."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cotrunk.config.kinds import Kinds
from cotrunk.config.overrides import Keys
from cotrunk.config.renamed import new_name
from cotrunk.errors import did_you_mean
from cotrunk.kinds import KINDS

FOREIGN = {
    "weight_decay": "train.decay",
    "learning_rate": "train.lr",
    "per_device_train_batch_size": "train.batch",
    "batch_size": "train.batch",
    "num_train_epochs": "train.epochs",
    "num_epochs": "train.epochs",
    "warmup_ratio": "train.warmup",
    "max_grad_norm": "train.clip",
    "gradient_accumulation_steps": "train.accumulate",
    "lr_scheduler_type": "train.schedule",
    "optim": "train.optimizer",
    "model": "encoder.weights",
    "model_name": "encoder.weights",
    "model_name_or_path": "encoder.weights",
    "max_length": "encoder.max_tokens",
    "max_seq_length": "encoder.max_tokens",
}
"""What other tools call our settings."""
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
    found: dict[Keys, str] = {}
    rules: dict[Keys, list[str]] = {}  # pydantic reports each arm of a union
    for details in error.errors(include_url=False):
        keys = _path(details, raw)
        what, needed = _finding(keys, details, raw, root, above, kinds)
        found.setdefault(keys, what and f"{'.'.join(keys) or 'the file'}{what}")
        rules.setdefault(keys, []).append(needed)
    return {keys: what + any_of(rules[keys]) for keys, what in found.items()}


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
    path: Keys,
    details: ErrorDetails,
    raw: dict[str, Any],
    root: type[BaseModel],
    above: str,
    kinds: Kinds,
) -> tuple[str, str]:
    """What was found, and the rule; nothing found if the rule says it."""
    if details["type"] == "extra_forbidden":
        renamed = new_name(".".join(path), inside=above)
        if renamed:
            return " is not a setting", f": it is now called {renamed}"
        known = _keys(path[:-1], root)
        inside = _inside(root) if len(path) == 1 else {}
        near = f"; did you mean {inside[path[0]]!r}?" if path[0] in inside else ""
        if path[-1] in FOREIGN and len(path) < 3:
            meant = FOREIGN[path[-1]].removeprefix(above or f"{path[0]}.")
            near = f"; did you mean {meant!r}?"
        near = near or did_you_mean(path[-1], known) or _near(path[-1], inside)
        hint = near or f"; known: {', '.join(known)}"
        return " is not a setting", hint
    if path == ("tasks",) and (details["type"] == "missing" or details["input"] == {}):
        return "", NO_TASK
    if details["type"] == "missing":
        return " is missing: ", _why_needed(path, raw, kinds)
    names_files = path[0] == "tasks" and len(path) == 3 and path[2] in OF_FILES
    is_file = isinstance(details["input"], str | list)
    needed = OF_FILES[path[2]] if names_files and not is_file else rule(details)
    return f" = {_shown(details['input'])}: ", needed


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
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have {min_length} or more entries; found {actual_length}",
    "too_long": "must have at most {max_length} entries; found {actual_length}",
}
NO_TASK = "no task is defined; add one, as in [tasks.sentiment]"
OF_FILES = {
    "train": "must be a file or a list of files",
    "dev": "must be a file, a list of files, or a share between 0 and 1",
    "test": "must be a file, a list of files, or a share between 0 and 1",
}
"""The rules of the keys of a task that name files, for values of another type or size."""
PATTERNS = {
    NAME: "must start with a letter, followed by letters, digits, _ or -",
    DEVICE: "must be auto, cpu, mps, cuda or cuda:<number>",
}


def rule(details: ErrorDetails) -> str:
    """The rule, in the words of a config rather than of a type checker."""
    context: dict[str, Any] = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in details.get("ctx", {}).items()
    }
    if details["type"] == "string_pattern_mismatch":
        return PATTERNS[context["pattern"]]
    if details["type"] == "literal_error":
        names = [name.strip(" '") for name in context["expected"].replace(" or ", ",").split(",")]
        hint = did_you_mean(str(details["input"]), names)
        listed = [name for name in names if name]
        one_of = f'"{listed[0]}"' if len(listed) == 1 else f"one of {', '.join(listed)}"
        return f"must be {one_of}{hint}"
    said = RULES.get(details["type"])
    return said.format(**context) if said else details["msg"][0].lower() + details["msg"][1:]


HINT = re.compile(r"; did you mean '[^']*'\?")


def any_of(rules: Sequence[str]) -> str:
    """Rules of which one must hold, as one sentence; a suggestion is its end."""
    alternatives = list(dict.fromkeys(HINT.sub("", each) for each in rules))
    hints = list(dict.fromkeys(hint for each in rules for hint in HINT.findall(each)))
    if all(each.startswith("must be ") for each in alternatives):
        alternatives = [each.removeprefix("must be ") for each in alternatives]
        alternatives[0] = f"must be {alternatives[0]}"
    *others, last = alternatives
    return (f"{', '.join(others)}, or {last}" if others else last) + "".join(hints[:1])


def explain(found: Sequence[ErrorDetails]) -> str:
    """All that is wrong with one value."""
    return any_of(list(map(rule, found)))


def _why_needed(path: Keys, raw: dict[str, Any], kinds: Kinds) -> str:
    if path[-1] != "kind":
        return "it has no default"
    tasks = raw.get("tasks", {})
    others = [name for name in tasks if name not in path]
    # A table with files of its own is another task; without them, it was meant for the other.
    is_misspelt = not {"train", "text"} & tasks.get(path[-2], {}).keys()
    meant = did_you_mean(path[-2], others) if is_misspelt else ""
    return f"set it to one of {', '.join(kinds)}{meant.replace('mean', 'mean the task')}"


def _inside(root: type[BaseModel]) -> dict[str, str]:
    """The whole names of the keys of all tables: ``epochs`` is ``train.epochs``."""
    found: dict[str, str] = {}
    for table, field in root.model_fields.items():
        tables = (table, "NAME") if get_origin(field.annotation) is dict else (table,)
        for key in _keys(tables, root):
            found.setdefault(key, ".".join((*tables, key)))
    return found


def _near(key: str, inside: Mapping[str, str]) -> str:
    near = get_close_matches(key, inside, n=1, cutoff=0.8)
    return f"; did you mean {inside[near[0]]!r}?" if near else ""


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
