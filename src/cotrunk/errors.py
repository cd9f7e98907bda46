"""What a user can get wrong, said in one line: place, rule, finding, fix."""

from collections.abc import Sequence


class UserError(ValueError):
    """Something the user wrote or gave is wrong: one line each, shown without a traceback."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines: Sequence[str] = lines
