"""D1: generated data files, read as Python's own libraries read them, or refused by line."""

import os
import re
import tempfile
from pathlib import Path
from random import Random

from cotrunk.data.reading.examples import Example, Rows, Source
from cotrunk.errors import UserError
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.task import Task
from faults.called import DONE, WRONG, call
from faults.figure import Figure, Size
from faults.reference import Row, number, reference
from faults.tables import LABELS, Made, made_file

FILES: dict[Size, int] = {"quick": 100, "long": 10_000}
TASK = Task("t", 1, Classes(LABELS))
CONFIG = """
encoder = {{ weights = "random:tiny" }}
[tasks.t]
kind = "classes"
classes = 5
text = ["text"]
label = "label"
train = "{name}"
dev = "{name}"
"""


def d1(seed: int, size: Size) -> Figure:
    wrong: list[str] = []
    accepted = refused = rows = 0
    with tempfile.TemporaryDirectory() as place:
        os.environ["COTRUNK_CACHE"] = str(Path(place) / "cache")
        for at in range(FILES[size]):
            made = made_file(Random(f"{seed} {at}"))
            found = attack(made, Path(place))
            wrong += [f"file {at}: {problem}" for problem in found.problems[:1]]
            accepted += found.accepted
            refused += not found.accepted
            rows += found.rows
    return Figure(
        "D1",
        "generated files: no traceback, no row changed, errors with file:line, reason and fix",
        FILES[size],
        FILES[size] - len(wrong),
        "; ".join([f"{accepted:,} accepted with {rows:,} rows, {refused:,} refused", *wrong[:3]]),
    )


class Found:
    """What one file led to."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.accepted = False
        self.rows = 0

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(otherwise)


def attack(made: Made, folder: Path) -> Found:
    path = folder / made.name
    path.write_bytes(made.content)
    (folder / "config.toml").write_text(CONFIG.format(name=made.name))
    found, expected = Found(), reference(made)
    examples, told = _read(Rows(TASK, Source(path, ("text",), "label")))
    found.accepted, found.rows = not told, len(examples)
    said = call("data", "check", folder / "config.toml")
    found.expect(said.is_clean, said.trace or f"not clean: {said.err[:300]}")
    found.expect(said.code == (WRONG if told else DONE), f"data check ends with {said.code}")
    for line in told:
        found.expect(line.startswith(str(path)) and line.isprintable(), f"unclear: {line[:200]}")
    _compare_whole(found, examples, told, expected, path)
    skipping = Rows(TASK, Source(path, ("text",), "label", skip_bad_rows=True))
    some, _ = _read(skipping)
    if expected is not None and some:
        _compare_rows(found, some, expected)
        total = len(some) + skipping.dropped_count
        found.expect(total == len(expected), f"{total} of {len(expected)} records counted")
    if made.known is not None and not told:
        read = [
            (row.id, row.texts[0], LABELS[int(row.target[0])]) for row in examples if row.target
        ]
        found.expect(read == made.known, "not the rows that were written")
    return found


def _read(rows: Rows) -> tuple[list[Example], tuple[str, ...]]:
    try:
        return list(rows), ()
    except UserError as error:
        return [], tuple(error.lines)


def _compare_whole(
    found: Found,
    examples: list[Example],
    told: tuple[str, ...],
    expected: list[Row] | None,
    path: Path,
) -> None:
    if expected is None:
        return
    bad = [row.line for row in expected if row.verdict == "bad"]
    if told and bad:
        row = rf":{bad[0]}\b.*: .+; .+"
        # Of a file that is not a table at all, no line is told.
        place = re.compile(rf"{re.escape(str(path))}({row}|: (is|contains|must have|no column) )")
        unsure = [row for row in expected if row.verdict == "unsure" and row.line < bad[0]]
        found.expect(any(map(place.match, told)) or bool(unsure), f"line {bad[0]} is not told")
    elif told:
        sure = bool(expected) and all(row.verdict == "good" for row in expected)
        found.expect(not sure, f"a good file is refused: {told[0][:200]}")
    else:
        found.expect(not bad, f"line {bad[:1]} is bad, but the file is accepted")
        _compare_rows(found, examples, expected)


def _compare_rows(found: Found, examples: list[Example], expected: list[Row]) -> None:
    by_line = {row.line: row for row in expected}
    for example in examples:
        row = by_line.get(example.line)
        same = row is not None and row.verdict != "bad" and _is_same(example, row)
        found.expect(same, f"line {example.line}: {example.texts[0][:40]!r} is not what it holds")
    missing = {row.line for row in expected if row.verdict == "good"}
    missing -= {example.line for example in examples}
    found.expect(not missing, f"good rows are gone: lines {sorted(missing)[:3]}")


def _is_same(example: Example, row: Row) -> bool:
    name, text, label = row.cells
    return (
        (example.id, *example.texts) == (str(name), text)
        and example.target is not None
        and example.target[0] == number(label)
    )
