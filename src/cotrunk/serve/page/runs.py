"""``/runs``: a table of runs, and reports on those that are chosen."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import APIRouter, Query, Response

from cotrunk.errors import UserError, for_command_line
from cotrunk.files import without_nan
from cotrunk.serve.page.assets import HTML, Assets, assets, charts, own, sheet, vega
from cotrunk.serve.page.listing import Listed, Listing
from cotrunk.serve.page.unscored import progress
from cotrunk.serve.problems import problems
from cotrunk.study.records import read_runs

MOST_RUNS = 100
"""The most runs in one report."""
KEPT_REPORTS = 8
SHELL: Assets = {
    "/": partial(own, "runs.html"),
    "/runs": partial(own, "runs.html"),
    "/runs/report": partial(own, "report.html"),
    "/static/runs.js": partial(own, "runs.js"),
    "/static/report.js": partial(own, "report.js"),
    "/static/common.js": partial(own, "common.js"),
    "/static/page.css": sheet,
    "/static/vega.js": vega,
    "/static/charts.js": charts,
}


def runs_pages(folder: Path) -> APIRouter:
    """A run is looked up by its name in the listing: no path is built from a request."""
    router, listing, reports = assets(SHELL), Listing(folder), Reports()

    @router.get("/runs.json")
    def rows() -> Response:
        document = {"folder": folder.resolve().name, **listing.read().document()}
        return Response(json.dumps(without_nan(document)), media_type="application/json")

    @router.get("/runs/report.html")
    def report(run: Annotated[list[str], Query(min_length=1, max_length=MOST_RUNS)]) -> Response:
        """The report on some runs, as a fragment of a page."""
        listed = listing.read()
        if unknown := [name for name in run if name not in listed.paths]:
            problem = ("run", f"{unknown[0][:200]!r} is not a run in this folder")
            return problems(404, [problem])
        if unscored := _all_unscored(listed, run):
            return Response(unscored, media_type=HTML)
        try:
            return Response(reports.of(listed, run), media_type=HTML)
        except UserError as error:
            lines = [(None, for_command_line(line)) for line in error.lines]
            return problems(409, lines)

    return router


def _all_unscored(listed: Listed, names: Sequence[str]) -> str | None:
    """The progress of the chosen runs, if none has scores to report on."""
    chosen = [row for row in listed.rows if row.name in names]
    if any(row.scores or row.state == "broken" for row in chosen):
        return None
    return progress([(row, listed.paths[row.name]) for row in chosen])


class Reports:
    """A cache of the newest reports, until one of their runs changes; makes one at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._lock = Lock()

    def of(self, listed: Listed, names: Sequence[str]) -> str:
        versions = {row.name: row.version for row in listed.rows}
        chosen = list(dict.fromkeys(names))
        key = tuple(part for name in chosen for part in (name, versions[name]))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = _make_report([listed.paths[name] for name in chosen])
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_REPORTS:
                self._kept.popitem(last=False)
            return self._kept[key]


def _make_report(paths: Sequence[Path]) -> str:
    from cotrunk.study.report.html import fragment
    from cotrunk.study.report.page import report_on

    title = paths[0].resolve().name if len(paths) == 1 else None
    return fragment(report_on(*read_runs(paths), title=title))
