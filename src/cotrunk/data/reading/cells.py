"""What makes a cell a valid text, list of words or id."""

from typing import Any

from cotrunk.data.reading.encodings import UNDECODED, UTF8
from cotrunk.data.reading.formats import LONGEST_CELL
from cotrunk.errors import shown


def as_text(cell: Any) -> Any:
    """A list of words joined by blanks; anything else unchanged."""
    is_words = isinstance(cell, list) and all(isinstance(word, str) for word in cell)
    return " ".join(cell) if is_words else cell


def as_words(cell: Any) -> Any:
    """The words of a list, or of a string split at blanks; anything else is rejected later."""
    if isinstance(cell, str):
        return tuple(cell.split())
    return tuple(cell) if isinstance(cell, list | tuple) else (cell,)


def are_sound(*cells: object) -> bool:
    """A fast version of ``text_fault``, because most rows are good."""
    for cell in cells:
        if type(cell) is not str or not cell or cell.isspace() or "\0" in cell:
            return False
        if len(cell) > LONGEST_CELL or not (cell.isascii() or _is_unicode(cell)):
            return False
    return True


def _is_unicode(text: str) -> bool:
    """False for lone surrogates, which stand for bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and (not cell or cell.isspace()))


def text_fault(cell: object, what: str, encoding: str = UTF8) -> str | None:
    """Why a cell is not a valid text, or None if it is."""
    if cell is None:
        return f"the {what} is missing"
    if not isinstance(cell, str):
        return f"the {what} must be a string; found {shown(cell)}"
    if _is_empty(cell):
        return f"the {what} is empty"
    if len(cell) > LONGEST_CELL:
        return f"a cell must not exceed {LONGEST_CELL:,} characters; found {len(cell):,}"
    return character_fault(cell, encoding)


def words_fault(cell: object, encoding: str = UTF8) -> str | None:
    """Why a cell is not a valid list of words, or None if it is."""
    if cell is None:
        return "the text is missing"
    if not isinstance(cell, list | tuple | str):
        return f"the text must be a list of words; found {shown(cell)}"
    words = as_words(cell)
    if not words:
        return "the text is empty"
    faults = ((number, text_fault(word, "word", encoding)) for number, word in enumerate(words, 1))
    return next((f"word {number}: {fault}" for number, fault in faults if fault), None)


def character_fault(text: str, encoding: str = UTF8, *, what: str = "cell") -> str | None:
    if "\0" in text:
        return f"a {what} must not contain NUL; found one at character {text.index(chr(0)) + 1:,}"
    return encoding_fault(text, encoding, what=what)


def is_undecoded(cell: object) -> bool:
    """Whether a cell, or a word of it, has bytes that could not be decoded."""
    if isinstance(cell, list | tuple):
        return any(map(is_undecoded, cell))
    return isinstance(cell, str) and UNDECODED.search(cell) is not None


def has_nul(cell: object) -> bool:
    """Whether a cell, or a word of it, contains NUL."""
    if isinstance(cell, list | tuple):
        return any(map(has_nul, cell))
    return isinstance(cell, str) and "\0" in cell


def encoding_fault(text: str, encoding: str = UTF8, *, what: str = "cell") -> str | None:
    if not (found := UNDECODED.search(text)):
        return None
    around = shown(text[max(0, found.start() - 10) : found.start() + 10])
    return f"a {what} must be {encoding.upper()}; found {around} at character {found.start() + 1:,}"
