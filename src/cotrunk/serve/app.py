"""The FastAPI application: routes, and the JSON of their errors."""

from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException

from cotrunk import __version__
from cotrunk.serve.engine import VECTOR
from cotrunk.serve.guard import Guard, Rules
from cotrunk.serve.info import tasks_of
from cotrunk.serve.input_rows import Refused, embedding_of, rows_of_request
from cotrunk.serve.jobs import QueueFull
from cotrunk.serve.openapi import naming_tasks
from cotrunk.serve.problems import add_problems, paths_of, problems
from cotrunk.serve.schemas import (
    EmbedRequest,
    EmbedResponse,
    ErrorResponse,
    PredictRequest,
    PredictResponse,
    State,
    TasksResponse,
)
from cotrunk.serve.service import DeadlineExceeded, Service

QUEUED = ("/predict", "/embed")
OPEN = ("/healthz", "/readyz")
"""Paths that need no token, for the health checks of a supervisor."""
PATHS = (*QUEUED, *OPEN, "/tasks", "/metrics", "/openapi.json")
Responses = dict[int | str, dict[str, Any]]
REFUSALS: Responses = {
    code: {"model": ErrorResponse, "description": why}
    for code, why in {
        400: "The request is malformed.",
        401: "The bearer token is missing or wrong.",
        403: "The Host or Origin header is not allowed.",
        431: "The request headers are too large.",
    }.items()
}
OF_BODIES: Responses = REFUSALS | {
    code: {"model": ErrorResponse, "description": why}
    for code, why in {
        408: "The body was not received in time.",
        413: "The body is too large.",
        415: "The body is compressed, or not declared as application/json in UTF-8.",
        422: "A field is wrong; `detail` names it.",
        429: "The queue is full; `Retry-After` says when to try again.",
        503: "Not answered within the deadline, or shutting down.",
    }.items()
}


@dataclass(frozen=True)
class Routes:
    """Further routes, such as pages; ``queued``: the paths with a queue, and their services."""

    router: APIRouter
    open_paths: Collection[str] = ()
    queued: Mapping[str, Service] = field(default_factory=dict)


def create_app(service: Service, *, rules: Rules, more: Sequence[Routes] = ()) -> FastAPI:
    """The FastAPI application; ``more`` adds routes. All its services share their metrics."""
    queued = dict.fromkeys(QUEUED, service)
    for routes in more:
        queued |= routes.queued
    app = FastAPI(
        title="Cotrunk",
        summary="Several text tasks, one shared trunk.",
        version=__version__,
        docs_url=None,  # these pages would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,  # a redirect would have no JSON
    )
    states = _states(list(dict.fromkeys(queued.values())))
    own = answers(service), descriptions(service), states
    for router in (*own, *(routes.router for routes in more)):
        app.include_router(router)
    _add_errors(app)
    _name_tasks(app, service)
    app.add_middleware(
        Guard,
        rules=rules,
        metrics=service.metrics,
        refuse_if_full=lambda path: queued[path].queue.refuse_if_full(),
        paths=(*PATHS, *(path for routes in more for path in paths_of(routes.router))),
        open_paths=frozenset((*OPEN, *(path for routes in more for path in routes.open_paths))),
        queued=queued,
    )
    return app


class _NotJson(HTTPException):
    """Invalid JSON. An HTTPException, because FastAPI turns any other error here into a 400."""


class _StrictRequest(Request):
    """JSON without NaN, lone surrogates and deep nesting."""

    async def json(self) -> Any:
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            why: object = error
            if (await self.body()).startswith(BOM_UTF8):
                why = "it starts with a byte order mark; send UTF-8 without one"
            raise _NotJson(422, f"not valid JSON: {why}") from None


class _StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def answers(service: Service, *, prefix: str = "") -> APIRouter:
    """POST /predict and POST /embed; the OpenAPI document is about the run without a prefix."""
    router = APIRouter(
        prefix=prefix,
        route_class=_StrictRoute,
        responses=OF_BODIES,
        include_in_schema=not prefix,
    )

    @router.post("/predict", response_model=PredictResponse)
    async def predict(request: PredictRequest) -> Response:
        """Answer each input for the requested tasks."""
        outputs = await service.answer(
            lambda engine: rows_of_request(engine, request), inputs=len(request.inputs)
        )
        return _json({"outputs": outputs})

    @router.post("/embed", response_model=EmbedResponse)
    async def embed(request: EmbedRequest) -> Response:
        """One vector for each text, as the head of a task reads it."""
        outputs = await service.answer(
            lambda engine: embedding_of(engine, request), inputs=len(request.inputs)
        )
        return _json({"outputs": [row[VECTOR] for row in outputs]})

    return router


def descriptions(service: Service, *, prefix: str = "") -> APIRouter:
    """GET /tasks."""
    router = APIRouter(prefix=prefix, responses=REFUSALS, include_in_schema=not prefix)

    @router.get("/tasks")
    async def tasks() -> TasksResponse:
        """The tasks of the run, what they read and what their probabilities stand for."""
        return tasks_of(service.engine)

    return router


def _states(services: Collection[Service]) -> APIRouter:
    router = APIRouter(responses=REFUSALS)
    metrics = next(iter(services)).metrics

    @router.get("/healthz")
    async def healthz() -> State:
        """The process is alive."""
        return State(status="ok")

    not_ready: Responses = {503: {"model": ErrorResponse, "description": "Not ready."}}

    @router.get("/readyz", response_model=State, responses=not_ready)
    async def readyz() -> Any:
        """The service has warmed up, and is not shutting down."""
        if all(service.is_ready for service in services):
            return State(status="ok")
        is_stopping = any(service.is_stopping for service in services)
        return problems(503, [(None, "shutting down" if is_stopping else "warming up")])

    text: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @router.get("/metrics", response_class=Response, responses=text)
    async def metrics_text() -> Response:
        """Metrics in the Prometheus text format."""
        metrics.waiting.set(sum(each.queue.tokens for each in services))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    return router


def _add_errors(app: FastAPI) -> None:
    add_problems(app)

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return problems(422, error.problems)

    @app.exception_handler(_NotJson)
    async def not_json(_: Request, error: _NotJson) -> Response:
        return problems(422, [("body", str(error.detail))])

    @app.exception_handler(QueueFull)
    async def full(_: Request, error: QueueFull) -> Response:
        return problems(429, [(None, str(error))], retry_after=error.seconds)

    @app.exception_handler(DeadlineExceeded)
    async def late(_: Request, error: DeadlineExceeded) -> Response:
        return problems(503, [(None, str(error))], retry_after=1)


def _name_tasks(app: FastAPI, service: Service) -> None:
    """Put the current run's task names into the OpenAPI document."""
    usual = app.openapi
    app.openapi = lambda: naming_tasks(usual(), service.engine)  # type: ignore[method-assign]


def _json(content: object) -> Response:
    """NaN becomes null, as in the files of ``predict``."""
    return Response(to_json(content, inf_nan_mode="null"), media_type="application/json")
