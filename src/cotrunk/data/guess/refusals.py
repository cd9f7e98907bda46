"""Why no task could be made of a file, and what was left out of one."""

from cotrunk.data.guess.columns import Column
from cotrunk.data.guess.label_kinds import listed
from cotrunk.data.guess.summary import FileSummary
from cotrunk.errors import UserError, plural, shown, spelled

IDS = ("id", "counter")
TOO_FEW_ROWS = 10
"""With fewer rows, labels may look like ids, because they hardly repeat."""
BY_HAND = "write the task by hand: " + spelled(
    command="cotrunk init -o run.toml shows how",
    python="the shell command `cotrunk init -o run.toml` shows how",
)


def left_out(seen: FileSummary) -> list[str]:
    """Columns that cannot be used as they are, with the fix."""
    each = (_decimal_commas(seen), _amounts(seen), _python_lists(seen), _objects(seen))
    return [found for found in each if found]


def refuse_without_task(seen: FileSummary) -> None:
    """Refuse a file of which no column can be a label, with the likeliest reason."""
    place = seen.path
    for found in (_objects(seen), _python_lists(seen)):
        if found:
            raise UserError(f"{place}: {found}")
    for found in (_decimal_commas(seen), _amounts(seen)):
        if found:
            raise UserError(f"{place}: no column can be read as a label; found {found}")
    if _may_have_too_few_rows(seen):
        raise UserError(
            f"{place}: has only {plural(seen.rows, 'row')}, too few to tell labels from names "
            f"or ids; give {TOO_FEW_ROWS} or more, or {BY_HAND}"
        )
    held = ", ".join(f"{column.name} ({_described(column)})" for column in seen.columns[:20])
    raise UserError(f"{place}: no column looks like labels; found {held}; {BY_HAND}")


def refuse_objects_without_text(seen: FileSummary) -> None:
    """The text is probably inside an object."""
    has_text = any(column.role in ("text", "words") for column in seen.columns)
    if (objects := _objects(seen)) and not has_text:
        raise UserError(f"{seen.path}: {objects}")


def _may_have_too_few_rows(seen: FileSummary) -> bool:
    """Whether a column beside the text, or beside what may be one, could be a label."""
    roles = [column.role for column in seen.columns]
    names = sum(role in IDS for role in roles)
    return seen.rows < TOO_FEW_ROWS and names > ("text" not in roles)


def _names(seen: FileSummary, role: str) -> list[str]:
    return [shown(column.name) for column in seen.columns if column.role == role]


def _objects(seen: FileSummary) -> str:
    if not (names := _names(seen, "object")):
        return ""
    are = "is an object; its" if len(names) == 1 else "are objects; their"
    return f"{listed(names)} {are} fields should be at the top level of each row"


def _python_lists(seen: FileSummary) -> str:
    if not (names := _names(seen, "Python lists")):
        return ""
    fix = 'write them as JSON, as in ["joy", "anger"]; json.dumps does that'
    return f"lists as Python writes them in column {listed(names)}; {fix}"


def _decimal_commas(seen: FileSummary) -> str:
    if not (names := _names(seen, "decimal commas")):
        return ""
    return (
        f"decimal commas in column {listed(names)}; write numbers with a decimal point; "
        'if the cells list labels, add the task by hand: kind = "multilabel", separator = ","'
    )


def _amounts(seen: FileSummary) -> str:
    if not (names := _names(seen, "amounts")):
        return ""
    return (
        f"numbers with currency signs or thousands separators in column {listed(names)}; "
        "write them as plain numbers, 1234.50"
    )


def _described(column: Column) -> str:
    if column.role in ("number", "category") and column.distinct == 1:
        return f"always the same {'number' if column.role == 'number' else 'value'}"
    joined = f"joined by {column.separator!r}" if column.separator else "as JSON lists"
    return {
        "text": "text",
        "id": f"{column.distinct:,} different short values in {column.filled:,} rows",
        "date": "dates",
        "counter": "a different number in every row",
        "empty": "empty",
        "number": f"{column.distinct:,} different numbers",
        "decimal commas": "numbers with decimal commas",
        "amounts": "numbers with currency signs or thousands separators",
        "category": f"{column.distinct:,} different values",
        "object": "objects",
        "objects": "lists of objects, whose texts should be at the top level of each row",
        "numbers": "lists of numbers; tags or classes need names",
        "set": f"names {joined}",
        "words": "lists of words",
    }.get(column.role, "neither text nor label")
