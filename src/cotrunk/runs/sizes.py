"""What a run takes on disk."""

from pathlib import Path

from cotrunk.runs.folder import RunFolder


def sizes(run: RunFolder) -> dict[str, int | None]:
    """Bytes of the best weights, and of the newest checkpoint to resume from; None: there is none.

    A running training may replace the files meanwhile.
    """
    checkpoints = sorted(run.checkpoints.glob("step-*[0-9]"))
    weights = run.best / "model.safetensors"
    return {
        "weights": _bytes([weights]),
        "checkpoint": _bytes(list(checkpoints[-1].glob("*"))) if checkpoints else None,
    }


def _bytes(files: list[Path]) -> int | None:
    try:
        return sum(file.stat().st_size for file in files) or None
    except OSError:
        return None
