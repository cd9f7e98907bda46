"""HTTP connections with limits on the time and size of the request headers.

uvicorn does not limit the time and, with httptools, not the size either.
"""

import asyncio
import json
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS, HEAD_BYTES = 10.0, 1 << 16


def limited_protocol() -> type[asyncio.Protocol]:
    """uvicorn's faster installed parser, with these limits.

    Headers that are late get 408, headers that are too large 431; the body of every error is JSON.
    """
    usual: Any = H11Protocol
    if find_spec("httptools"):
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        usual = HttpToolsProtocol

    class LimitedProtocol(_HeaderLimits, usual):  # type: ignore[misc]
        pass

    return LimitedProtocol


class _HeaderLimits(asyncio.Protocol):
    """A mixin for uvicorn's protocols, whose ``cycle`` is the request that was read last."""

    cycle: Any
    transport: Any
    loop: asyncio.AbstractEventLoop
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if before is None or before.response_complete:
            self._head_bytes += len(data)
            if self._timer is None:
                self._await_head()
        super().data_received(data)
        if self.cycle is not before:
            self._head_bytes = 0
            self._stop_timer()
        elif self._head_bytes > HEAD_BYTES:
            self._end_large()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Called by uvicorn at SIGTERM: a request whose body is incomplete is not waited for."""
        cycle = self.cycle
        is_reading = cycle is not None and cycle.more_body and not cycle.response_started
        if is_reading and not getattr(self, "pipeline", ()):  # else an earlier response comes first
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, "shutting down")
        else:
            super().shutdown()  # type: ignore[misc]

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn if it cannot parse the headers, which may be due to their size."""
        if self._head_bytes > HEAD_BYTES:
            self._end_large()
        else:
            self._end(HTTPStatus.BAD_REQUEST, msg)

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._is_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        self._timer = None
        self._end(HTTPStatus.REQUEST_TIMEOUT, "the request headers were not received in time")

    def _end_large(self) -> None:
        message = f"the request headers must not exceed {HEAD_BYTES:,} bytes"
        self._end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)

    def _end(self, status: HTTPStatus, message: str) -> None:
        if self.transport.is_closing():
            return
        body = json.dumps({"detail": [{"field": None, "message": message}]}).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
