"""What a user can get wrong, said in one line: place, rule, finding, fix; and its grammar."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def counted(count: int, thing: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


class UserError(ValueError):
    """Something the user wrote or gave is wrong: one line each, shown without a traceback."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines: Sequence[str] = lines


class Errors:
    """What is wrong in several places, to be told in one go."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """An error ends what is done here, but not what comes after it."""
        try:
            yield
        except UserError as error:
            self.lines += error.lines

    def refuse(self) -> None:
        """Each line once: tasks and splits may share a file, and its bad rows."""
        if self.lines:
            raise UserError(*dict.fromkeys(self.lines))
