"""Errors as JSON, the same for all applications; does not import torch."""

import json
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from cotrunk.serve.schemas import NAMES_OF_FORMS

LISTED = 20
"""The most problems that a response lists."""
MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request",
    "string_type": "must be a string",
    "string_pattern_mismatch": "must not be empty, blank or contain NUL",
    "string_too_long": "must not exceed {max_length:,} characters",
    "list_type": "must be a list",
    "too_long": "must not have more than {max_length:,} elements",
    "too_short": "must not be empty",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "dict_type": "must be an object",
}


def problem_body(problems: Sequence[tuple[str | None, str]]) -> bytes:
    listed = [{"field": field, "message": message} for field, message in problems]
    return json.dumps({"detail": listed}).encode()


def problems(
    status: int, found: Sequence[tuple[str | None, str]], *, retry_after: int | None = None
) -> Response:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Response(problem_body(found), status, headers, media_type="application/json")


def add_problems(app: FastAPI) -> None:
    """Errors of any application as JSON."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return problems(422, [(_field(e["loc"]), _message(e)) for e in error.errors()[:LISTED]])

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        response = problems(error.status_code, [(None, str(error.detail))])
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> Response:
        return problems(500, [(None, "the service failed; its log says why")])


def _field(place: Sequence[str | int]) -> str:
    """``inputs[3].text`` for ("body", "inputs", 3, "text", "string")."""
    parts = [part for part in place if part not in NAMES_OF_FORMS]
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts[1:])
    return shown.removeprefix(".") or "body"


def _message(error: dict[str, Any]) -> str:
    """In our words, or in those of pydantic, which may have braces in them."""
    ours = MESSAGES.get(error["type"])
    return ours.format(**error.get("ctx", {})) if ours else str(error["msg"])


def paths_of(router: APIRouter) -> list[str]:
    return [route.path for route in router.routes if isinstance(route, APIRoute)]
