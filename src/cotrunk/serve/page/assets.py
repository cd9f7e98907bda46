"""The files of the pages: plain HTML, CSS and JavaScript, and the scripts that draw charts.

They contain no data, so they need no token; data come as JSON or as escaped HTML on request.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from cotrunk.study.report.style import style

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HTML, CSS, SCRIPT = "text/html", "text/css", "text/javascript"
TYPES = {"html": HTML, "css": CSS, "js": SCRIPT}
Assets = Mapping[str, Callable[[], "Asset"]]
VEGA = "globalThis.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str

    @property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


@cache
def own(name: str) -> Asset:
    """A file of this package."""
    text = files("cotrunk.serve.page").joinpath("static", name).read_text("utf-8")
    return Asset(text.encode(), TYPES[name.rpartition(".")[2]])


@cache
def sheet() -> Asset:
    """The style of reports, and what pages add to it."""
    return Asset(style().encode() + own("page.css").content, CSS)


@cache
def vega() -> Asset:
    """Vega's scripts from the wheel of vl-convert; bundled once, which takes a second or two."""
    from cotrunk.study.report.html import bundle

    return Asset(bundle(VEGA).encode(), SCRIPT)


@cache
def charts() -> Asset:
    """The lines of a report that draw its charts."""
    from cotrunk.study.report.html import drawing_script

    return Asset(drawing_script().encode(), SCRIPT)


def assets(by_path: Assets) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, make in by_path.items():
        router.add_api_route(path, _route(make), methods=["GET", "HEAD"], response_class=Response)
    return router


def _route(make: Callable[[], Asset]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        asset = make()
        headers = {"etag": asset.tag, "cache-control": "no-cache"}
        if asset.media_type == HTML:
            headers["content-security-policy"] = POLICY
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, headers=headers, media_type=asset.media_type)

    return answer
