"""What to do about a damaged network: the same advice from every command that reads one."""

from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.runs.checkpoint import CheckpointError, damages


def with_advice(error: CheckpointError, folder: Path, which: str, *, by: str = "") -> UserError:
    """``by``: the command that can use the other network, if it is not the one that failed."""
    other = "final" if which == "best" else "best"
    # They may be hard links of the same files.
    is_intact = (folder / other).is_dir() and not damages(folder / other)[1]
    option = f"`{by} --which {other}`" if by else f"--which {other}"
    return UserError(
        f"{error}; " + (f"try {option}, or train it again" if is_intact else "train it again")
    )
