"""Which columns of a table are its texts."""

from collections.abc import Sequence

from cotrunk.data.guess.columns import Column
from cotrunk.data.guess.summary import FileSummary
from cotrunk.errors import UserError, plural

FILLED = 0.9
"""A text is filled in at least so many of the rows; the others are skipped."""


def texts_of(seen: FileSummary) -> tuple[list[Column], list[str]]:
    """The columns of texts, and remarks on them; if none looks like text, the most varied one."""
    texts = [column for column in seen.columns if column.role == "text"]
    filled = [column for column in texts if _is_filled(column, seen)]
    notes = [
        f"left out: {column.name} is empty in {plural(column.empty, 'row')}"
        for column in texts
        if column not in filled
    ]
    if len(filled) > 2:
        more = ", ".join(column.name for column in filled[2:])
        notes.append(f"more texts in the file: {more}")
    if filled:
        return filled[:2], notes
    if (varied := _most_varied(seen)) is None:
        return [], notes
    notes.append(
        f"no column looks like text; {varied.name!r} varies most, so it is read as the text"
    )
    return [varied], notes


def _is_filled(column: Column, seen: FileSummary) -> bool:
    return column.empty <= (1 - FILLED) * seen.rows


def _most_varied(seen: FileSummary) -> Column | None:
    others = [c for c in seen.columns if c.role in ("id", "category", "set") and c.distinct > 1]
    filled = [column for column in others if _is_filled(column, seen)]
    varied = _most_words(filled)
    gaps = _most_words(others)
    if gaps and gaps not in filled and (varied is None or varied.words <= 1):
        _refuse_gaps(seen, gaps, varied)
    return varied


def _most_words(columns: Sequence[Column]) -> Column | None:
    """Of the columns with the most distinct values, or half as many, the one with most words.

    Keys of one word each may be more distinct than two-word texts.
    """
    most = max((column.distinct for column in columns), default=0)
    varied = [column for column in columns if 2 * column.distinct >= most]
    return max(varied, key=lambda column: (column.words, column.distinct), default=None)


def _refuse_gaps(seen: FileSummary, gaps: Column, words: Column | None) -> None:
    """Such as a table with a word in each row, whose first column marks where sentences start."""
    beside = f", beside single words in {words.name!r}" if words else ""
    filled = seen.rows - gaps.empty
    raise UserError(
        f"{seen.path}: a text must be filled in every row; found {gaps.name!r} in {filled:,} of "
        f"{seen.rows:,} rows{beside}; if the rows are words of sentences, save them as CoNLL "
        "(.conll): a word and its tags in each line, and a blank line after each sentence"
    )
