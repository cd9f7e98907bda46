"""Whether pairs of texts can be divided into train and dev rows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cotrunk.data.guess.summary import label_cells
from cotrunk.data.reading.splits import Indivisible, Share, hold_out
from cotrunk.errors import UserError, plural


def note_on_shared_texts(
    path: Path, encoding: str, texts: Sequence[str], share: float
) -> list[str]:
    """How many rows a share as dev rows leaves out; empty if it leaves out none.

    About as many, because a task may have other strata than all its rows.
    """
    cells = label_cells(path, encoding, texts, texts).cells
    columns = (cells[name] for name in texts)
    pairs = [pair for pair in zip(*columns, strict=True) if all(map(_is_text, pair))]
    rows = [(pair, (0.0,)) for pair in pairs]
    try:
        held = hold_out(Share("task", share, 0.0, rows, lambda all_: [0] * len(all_)), seed=0)
    except Indivisible as error:
        raise UserError(f"{path}: {error}; name a file of {error.split} rows") from None
    splits = Counter(held.split_of(pair) for pair in pairs)
    if not (left_out := splits[None]):
        return []
    return [
        "the pairs are connected by shared texts: about "
        f"{plural(left_out, 'row')} will be left out, so that no text is in both train and dev"
    ]


def _is_text(cell: object) -> bool:
    return isinstance(cell, str) and bool(cell.strip())
