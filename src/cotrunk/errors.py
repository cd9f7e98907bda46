"""What a user can get wrong, said in one line: place, rule, finding, fix; and its grammar."""

from collections.abc import Sequence


def counted(count: int, thing: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


class UserError(ValueError):
    """Something the user wrote or gave is wrong: one line each, shown without a traceback."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines: Sequence[str] = lines
