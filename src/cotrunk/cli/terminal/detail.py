"""The tables of ``evaluate --detail``."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from cotrunk.cli.terminal.output import out, table
from cotrunk.formats import score_text

Document = Mapping[str, Any]


def show_detail(detail: Mapping[str, Document]) -> None:
    """For each task its metrics, its classes, the confusion matrix and the calibration error."""
    for task, found in detail.items():
        for made in _tables(task, found):
            out().print()
            out().print(made)
        if sure := found["calibration"]:
            error, chance = score_text(sure["error"]), score_text(sure["by_chance"])
            out().print(
                f"\n{task}: calibration error {error}; a calibrated model would show up to "
                f"{chance} by chance"
            )


def _tables(task: str, found: Document) -> list[Table]:
    constant = found["constant"]
    metrics = [
        [name, score_text(value), score_text(constant[name])]
        for name, value in found["metrics"].items()
    ]
    made = [table(f"{task}: all metrics", ["metric", "value", "constant answer"], metrics)]
    if found["classes"]:
        rows = [
            [
                one["name"],
                *map(score_text, (one["precision"], one["recall"], one["f1"])),
                f"{one['support']:,}",
            ]
            for one in found["classes"]
        ]
        columns = ["class", "precision", "recall", "F1", "support"]
        made.append(table(f"{task}: classes", columns, rows))
    if matrix := found["confusion"]:
        counts = [
            [gold, *(f"{count:,}" for count in counts)]
            for gold, counts in zip(matrix["gold"], matrix["counts"], strict=True)
        ]
        made.append(table(f"{task}: answers by gold label", ["gold", *matrix["answers"]], counts))
    return made
