"""The application of a folder of runs: pages only, without a model and without torch."""

from pathlib import Path

from fastapi import FastAPI

from cotrunk import __version__
from cotrunk.serve.guard import Guard, Rules
from cotrunk.serve.metrics import Metrics
from cotrunk.serve.page.runs import SHELL, runs_pages
from cotrunk.serve.problems import add_problems, paths_of


def create_runs_app(folder: Path, *, rules: Rules) -> FastAPI:
    app = FastAPI(
        title="Cotrunk",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    pages = runs_pages(folder)
    app.include_router(pages)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    add_problems(app)
    app.add_middleware(
        Guard,
        rules=rules,
        metrics=Metrics(),
        refuse_if_full=lambda _path: None,
        paths=paths_of(pages),
        open_paths=frozenset(("/healthz", *SHELL)),
        queued=(),
    )
    return app
