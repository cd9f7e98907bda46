"""Holds out texts of rows that are all connected by shared texts, and so cannot stay together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cotrunk.data.reading.text_hash import text_hash

Row = tuple[int, ...]
"""The fingerprints of the texts of a row."""
SPARE = 0.1
"""So many more rows than needed, as a share of them, may be in a cut, and always one more."""


@dataclass(frozen=True)
class Cut:
    """Texts on one side of a cut: ``inside`` rows have only such texts, ``crossing`` rows some."""

    texts: frozenset[int]
    inside: int
    crossing: int


@dataclass
class _Side:
    """A set of texts that grows; ``open`` counts the texts of each row that are still outside."""

    rows: Sequence[Row]
    rows_of: Mapping[int, Sequence[int]]
    open: list[int]
    texts: set[int] = field(default_factory=set)
    inside: int = 0
    touched: int = 0

    def add(self, text: int) -> Iterator[int]:
        """Returns the texts outside that are in a row with this one."""
        self.texts.add(text)
        for row in self.rows_of[text]:
            self.touched += self.open[row] == len(self.rows[row])
            self.open[row] -= 1
            self.inside += not self.open[row]
            yield from (other for other in self.rows[row] if other not in self.texts)

    def brought(self, text: int) -> int:
        """How many rows a text would bring inside."""
        return sum(self.open[row] == 1 for row in self.rows_of[text])

    def gain(self, text: int) -> float:
        """The share of a text's rows that it would bring inside; the others would cross."""
        return self.brought(text) / len(self.rows_of[text])


def cut_off(rows: Sequence[Row], *, needed: int, seed: int) -> Cut | None:
    """Texts whose rows are ``needed`` ones or a few more; None if too few rows would be left.

    Starting at a text chosen by content and ``seed``, the next text is the one of whose rows most
    come inside, so that few rows cross. A text that would bring in far too many rows is skipped,
    unless there is no cut without such texts: then there may be far more rows than needed.
    """
    rows = [tuple(dict.fromkeys(row)) for row in rows]
    few_more = needed + max(1, int(SPARE * needed))
    return _cut(rows, needed, few_more, seed) or _cut(rows, needed, len(rows), seed)


def _cut(rows: Sequence[Row], needed: int, most: int, seed: int) -> Cut | None:
    """A cut with between ``needed`` and ``most`` rows inside, and at least as many left."""
    rows_of: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        for text in row:
            rows_of.setdefault(text, []).append(number)
    order = {text: text_hash(f"{seed}\0cut\0{text}") for text in rows_of}
    side = _Side(rows, rows_of, [len(row) for row in rows])
    waiting = [(0.0, order[text], text) for text in rows_of]
    waiting.sort()
    while side.inside < needed and waiting:
        gain, place, text = heappop(waiting)
        if text in side.texts or side.inside + side.brought(text) > most:
            continue
        if -gain != side.gain(text):  # it has grown since the text was put here
            heappush(waiting, (-side.gain(text), place, text))
            continue
        for other in dict.fromkeys(side.add(text)):
            heappush(waiting, (-side.gain(other), order[other], other))
    left = len(rows) - side.touched
    if side.inside < needed or left < side.inside:
        return None
    return Cut(frozenset(side.texts), side.inside, side.touched - side.inside)
