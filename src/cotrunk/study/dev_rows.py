"""A fixed random part of a dev file: small enough to evaluate after every epoch."""

import csv
import io
import random
from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.files import write_whole

FILE = "quora-dev.csv"
SEED = 224


def dev_part(data: Path, out: Path, rows: int) -> Path:
    """``rows`` of the course's paraphrase dev file, in their order; the same ones every time."""
    part = out / "data" / f"quora-dev-{rows}.csv"
    header, *all_rows = _rows(data / FILE)
    chosen = sorted(random.Random(SEED).sample(range(len(all_rows)), min(rows, len(all_rows))))
    written = io.StringIO()
    writer = csv.writer(written, delimiter="\t", lineterminator="\n")
    writer.writerows([header, *(all_rows[number] for number in chosen)])
    part.parent.mkdir(parents=True, exist_ok=True)
    write_whole(part, written.getvalue().encode())
    return part


def _rows(path: Path) -> list[list[str]]:
    """The header and all rows."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = list(csv.reader(file, delimiter="\t"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: must be a tab-separated file in UTF-8; {error}") from None
    if len(found) < 2:
        raise UserError(f"{path}: has no rows; it must have a header line and the dev rows")
    return found
