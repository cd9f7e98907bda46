"""Checks before a request reaches the application: host, origin, token and sizes."""

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cotrunk.serve.jobs import QueueFull
from cotrunk.serve.metrics import Metrics
from cotrunk.serve.problems import problem_body

LINGER_SECONDS, LINGER_BYTES = 2.0, 8 << 20
"""How long a refused body is read and dropped, and how much of it: if the connection were closed
earlier, the client might not get the response."""
SAFE_HEADERS = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
}
"""Added unless the response sets its own."""
CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]*)')


@dataclass(frozen=True)
class Rules:
    """``hosts``: host names to accept besides localhost and loopback addresses.

    ``any_address``: the service listens beyond loopback, so any IP address may be its own.
    """

    hosts: Collection[str] = ()
    any_address: bool = False
    token: str | None = None
    max_head: int = 1 << 16
    max_body: int = 1 << 20
    body_seconds: float = 10.0


class Refusal(Exception):
    def __init__(
        self, status: int, message: str, *, field: str | None = None, **headers: str
    ) -> None:
        super().__init__(message)
        self.status, self.field = status, field
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def body(self) -> bytes:
        return problem_body([(self.field, str(self))])


class Guard:
    """An ASGI middleware; ``open_paths`` need no token.

    ``refuse_if_full`` raises ``QueueFull`` for a path of ``queued`` before its body is read.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        rules: Rules,
        metrics: Metrics,
        refuse_if_full: Callable[[str], None],
        paths: Collection[str],
        open_paths: Collection[str],
        queued: Collection[str],
    ) -> None:
        self.app, self.rules, self.metrics = app, rules, metrics
        self.refuse_if_full, self.queued = refuse_if_full, queued
        self.paths, self.open_paths = paths, open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_safe_headers(message.get("headers", ()))
            await send(message)

        try:
            await self._guarded(scope, receive, noting)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.monotonic() - begun)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check_head(scope)
            if scope["method"] == "POST":
                receive = _replay(await self._body(_headers(scope), receive))
        except Refusal as refusal:
            await _refuse(refusal, receive, send)
            return
        await self.app(scope, receive, send)

    def _check_head(self, scope: Scope) -> None:
        size = len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
        if size > self.rules.max_head:
            limit = f"{self.rules.max_head:,} bytes"
            raise Refusal(431, f"the request headers must not exceed {limit}")
        headers = _headers(scope)
        host = self._check_host(headers)
        self._check_origin(headers, host)
        self._check_token(scope["path"], headers)
        if scope["method"] != "POST" or scope["path"] not in self.queued:
            return
        _check_encoding(headers)
        try:
            self.refuse_if_full(scope["path"])
        except QueueFull as error:
            raise Refusal(429, str(error), retry_after=str(error.seconds)) from None

    def _check_host(self, headers: "Headers") -> str:
        """Against DNS rebinding: a page of another name must not reach a service on loopback."""
        given = headers.get(b"host", [])
        if len(given) != 1:
            raise Refusal(400, f"must be given once; found {len(given)}", field="Host")
        host = given[0].decode("latin-1").lower()
        name = _host_name(host)
        if name is None or not self._is_ours(name):
            raise Refusal(
                403,
                "is not a name of this service; start it with --allow-host to add one",
                field="Host",
            )
        return host

    def _is_ours(self, name: str) -> bool:
        if name in ("localhost", *self.rules.hosts):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.rules.any_address

    def _check_origin(self, headers: "Headers", host: str) -> None:
        for raw in headers.get(b"origin", []):
            origin = raw.decode("latin-1").lower()
            if origin not in (f"http://{host}", f"https://{host}"):
                raise Refusal(
                    403,
                    "is not allowed: only pages of this service may send requests",
                    field="Origin",
                )

    def _check_token(self, path: str, headers: "Headers") -> None:
        if self.rules.token is None or path in self.open_paths:
            return
        scheme, _, given = headers.get(b"authorization", [b""])[0].partition(b" ")
        if scheme.lower() != b"bearer" or not given:
            why = "a bearer token is needed: Authorization: Bearer TOKEN"
        elif not hmac.compare_digest(given.lstrip(b" "), self.rules.token.encode()):
            why = "the bearer token is wrong"
        else:
            return
        raise Refusal(401, why, field="Authorization", www_authenticate="Bearer")

    async def _body(self, headers: "Headers", receive: Receive) -> bytes:
        """The whole body; refused by its Content-Length, if given, or else at the limit."""
        limit = self.rules.max_body
        too_large = Refusal(413, f"must not exceed {limit:,} bytes", field="body")
        length = headers.get(b"content-length", [b""])[0]
        if length.isdigit() and (len(length) > 18 or int(length) > limit):
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.rules.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the connection was closed", field="body")
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            seconds = self.rules.body_seconds
            raise Refusal(408, f"must be sent within {seconds:g} s", field="body") from None


Headers = MutableMapping[bytes, list[bytes]]


def _headers(scope: Scope) -> Headers:
    found: Headers = {}
    for name, value in scope["headers"]:
        found.setdefault(name, []).append(value)
    return found


def _check_encoding(headers: Headers) -> None:
    """A body is JSON in UTF-8, not compressed."""
    kind = headers.get(b"content-type", [b""])[0]
    if kind != b"application/json":
        _check_kind(kind.decode("latin-1"))
    for encoding in headers.get(b"content-encoding", ()):
        if encoding.strip().lower() not in (b"", b"identity"):
            raise Refusal(415, "is not supported: send the body as it is", field="Content-Encoding")


def _check_kind(given: str) -> None:
    kind, _, parameters = given.lower().partition(";")
    if kind.strip() != "application/json":
        raise Refusal(415, "must be application/json", field="Content-Type")
    charset = CHARSET.search(f";{parameters}")
    if charset and charset[1] not in ("utf-8", "utf8"):
        raise Refusal(415, "the charset must be utf-8", field="Content-Type")


@lru_cache(maxsize=256)
def _host_name(host: str) -> str | None:
    """Without the port; None if it is not a host."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def _with_safe_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [(name, value) for name, value in SAFE_HEADERS.items() if name not in names]


def _replay(body: bytes) -> Receive:
    """An ASGI ``receive`` that gives the body as one message, then blocks."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    return receive


async def _refuse(refusal: Refusal, receive: Receive, send: Send) -> None:
    body = refusal.body
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    if refusal.status in (408, 413):
        headers["connection"] = "close"
    raw = [(k.encode(), v.encode()) for k, v in {**headers, **refusal.headers}.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if refusal.status != 408:
        await _drop_rest(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drop_rest(receive: Receive) -> None:
    dropped = 0
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while dropped < LINGER_BYTES:
                message = await receive()
                dropped += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        pass
