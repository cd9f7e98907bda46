"""What a kind raises for a label that it cannot read."""


class LabelError(ValueError):
    """A wrong label with a fix of its own, instead of the usual one.

    ``limited_by``: the key of the task that the label does not fit, such as ``range``.
    """

    def __init__(self, reason: str, *, fix: str = "", limited_by: str = "") -> None:
        super().__init__(reason)
        self.fix = fix
        self.limited_by = limited_by


class WordError(LabelError):
    """A label is wrong at a word, counted from 1."""

    def __init__(self, word: int, reason: str, *, fix: str = "") -> None:
        super().__init__(f"word {word}: {reason}", fix=fix)
        self.word = word
