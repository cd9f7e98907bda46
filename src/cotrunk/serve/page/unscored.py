"""What is shown of runs before their first dev evaluation: the step and the training losses."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from cotrunk.errors import plural
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.tail import last_entry
from cotrunk.serve.page.listing import RunRow

EXPECTED = "No dev scores yet: a report appears after the first evaluation, if there is one."
STOPPED = "No dev scores: the run was stopped before its first evaluation; --resume goes on."
NEVER = "No dev scores: the run has ended without an evaluation."


def progress(runs: Sequence[tuple[RunRow, Path]]) -> str:
    """A fragment of a page, as a report is."""
    title = runs[0][0].name if len(runs) == 1 else f"{len(runs)} runs"
    states = {row.state for row, _ in runs}
    about = EXPECTED if "running" in states else STOPPED if "stopped" in states else NEVER
    sections = "".join(_section(row, path) for row, path in runs)
    return (
        f'<header><h1>{escape(title)}</h1><p class="about">{about}</p></header>'
        f'<main id="main">{sections}</main>'
    )


def _section(row: RunRow, path: Path) -> str:
    step = last_entry(RunFolder(path).metrics, "step")
    if step is None:
        return _titled(row, f"<p>{row.state}, before the first step</p>")
    losses = "".join(
        f'<tr><th scope="row">{escape(task)}</th><td>{_shown(loss)}</td></tr>'
        for task, loss in step.get("loss", {}).items()
    )
    return _titled(
        row,
        f'<p>{row.state}, {plural(int(step["step"]) + 1, "step")} done</p><table class="numbers">'
        "<caption><span>Training loss at the last step</span></caption>"
        '<thead><tr><th scope="col">task</th><th scope="col">loss</th></tr></thead>'
        f"<tbody>{losses}</tbody></table>",
    )


def _titled(row: RunRow, content: str) -> str:
    return f"<section><h2>{escape(row.name)}</h2>{content}</section>"


def _shown(loss: float | None) -> str:
    return "\u2013" if loss is None else f"{loss:.4f}"
