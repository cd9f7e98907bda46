"""Lists of words, and lists that have a tag for each of them."""

import re
from collections.abc import Sequence

from cotrunk.data.guess.columns import Column
from cotrunk.kinds.spans import OUTSIDE
from cotrunk.numbers import number_of

PART_OF_SPEECH = re.compile(
    "NNP?S?|VB[DGNPZ]?|DT|IN|JJ|PRP|CC|NOUN|PROPN|VERB|ADJ|ADV|ADP|DET|PRON"
)
CHUNK = re.compile("NP|VP|PP|ADVP|ADJP|SBAR|PRT|INTJ|CONJP|LST|UCP|PNP")


def words_and_tags(columns: Sequence[Column]) -> tuple[Column | None, list[Column]]:
    """The list with the most distinct entries has the words; lists as long as it have tags."""
    lists = [column for column in columns if column.role == "words"]
    words = max(lists, key=lambda column: column.distinct, default=None)
    if words is None:
        return None, []
    return words, [column for column in lists if _tags_words(column, words)]


def _tags_words(column: Column, words: Column) -> bool:
    """Whether a list has tags: not numbers, such as the heads of a parse, nor always the same."""
    varies = len(column.values) > 1 or column.scheme in ("bio", "iob1")
    is_number = all(number_of(value) is not None for value in column.values)
    lengths = list(zip(column.lengths, words.lengths, strict=False))
    alike = sum(tags == words for tags, words in lengths)
    return (
        column.distinct < words.distinct and varies and not is_number and 2 * alike > len(lengths)
    )


def all_tags(column: Column) -> list[str]:
    """The tags of a column, with both B- and I- of every type if they mark entities."""
    if column.scheme == "plain":
        return list(column.values)
    types = sorted({tag[2:] for tag in column.values if tag != OUTSIDE})
    return [OUTSIDE, *(f"{prefix}-{name}" for name in types for prefix in "BI")]


def unequal_rows(tags: Column, words: Column) -> int:
    """Rows without tags are not counted: they have no label."""
    lengths = zip(tags.lengths, words.lengths, strict=False)
    return sum(0 < labelled != expected for labelled, expected in lengths)


def conll_names(columns: Sequence[Column], words: Column, tags: Sequence[Column]) -> list[str]:
    """Distinct names for the columns of a CoNLL file, which has no header, by what they hold."""
    names: list[str] = []
    for number, column in enumerate(columns, 1):
        usual = _usual_name(column) if column in tags else ""
        name = "tokens" if column is words else usual or f"column{number}"
        names.append(name if name not in names else f"column{number}")
    return names


def _usual_name(column: Column) -> str:
    if column.scheme == "plain":
        return "pos" if sum(map(bool, map(PART_OF_SPEECH.fullmatch, column.values))) > 1 else ""
    types = {value[2:] for value in column.values if value != OUTSIDE}
    return "chunk" if all(map(CHUNK.fullmatch, types)) else "ner"
