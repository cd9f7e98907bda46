"""``cotrunk demo``: three plans on the sample data, in one table and one report."""

from argparse import Namespace
from pathlib import Path

from cotrunk.cli import report
from cotrunk.cli.terminal import tables
from cotrunk.cli.terminal.output import Document, say
from cotrunk.cli.train import train_into
from cotrunk.config import presets
from cotrunk.errors import UserError


def demo(arguments: Namespace) -> Document:
    """The three plans of Hybrid BERT on the sample data, in one table and one report."""
    out = Path(arguments.out)
    taken = [name for name in presets.DEMO if (out / name / "run.json").exists()]
    if taken:
        raise UserError(f"{out / taken[0]}: already exists; choose another folder with --out")
    document: Document = {"runs": []}
    for name in presets.DEMO:
        changes = [*presets.DEMO_CHANGES, *arguments.set]
        settings = presets.settings(name, changes=changes, unset=arguments.unset)
        result = train_into(settings, Path.cwd(), out / name, title=name)
        document["runs"].append({"plan": name, "sharing": settings.sharing.encoder, **result})
    if not arguments.json:
        tables.show_demo(document["runs"])
    document["report"] = _report(out)
    return document


def _report(out: Path) -> str | None:
    """The path of the report; None if the packages that draw it are not installed."""
    page = out / "report.html"
    runs = [out / name for name in presets.DEMO]
    try:
        report.write(runs, page, title="Three sharing plans on the sample data")
    except UserError as error:
        say(f"note: there is no report: {error.lines[0]}")
        return None
    say(f"report: open {page} in a browser")
    return str(page)
