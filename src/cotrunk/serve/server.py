"""The socket, the server on it, and its signal handlers."""

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from cotrunk.errors import UserError
from cotrunk.serve.memory import freeze_loaded_objects, return_large_blocks
from cotrunk.serve.protocol import HEAD_BYTES, limited_protocol

if TYPE_CHECKING:  # the pages of a folder of runs do without torch
    from cotrunk.build.trained_model import TrainedModel
    from cotrunk.serve.service import Service

GRACE_SECONDS = 8
"""How long accepted requests may take after SIGTERM."""
END_SECONDS = 9
"""How long the threads that answer may take to end after SIGTERM."""
RELOAD_SECONDS = 0.5
"""How long a reload may take to end then: nobody waits for it any more."""
KEEP_ALIVE_SECONDS = 30
BACKLOG = 2048
MAX_CONNECTIONS = 4096
SWITCH_SECONDS = 1e-4
"""How long a thread may run Python while another waits to. With the usual 5 ms, clients that ask
again at once after a 429 would keep the model waiting at every operation of a batch.
"""

Say = Callable[[str], None]
App = FastAPI


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that does not listen yet: a port in use is reported before the model is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "is not a host name"
        raise UserError(f"--host {host}: {why}; give an address of this machine") from None
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        raise UserError(_cannot_bind(error, host, port)) from None
    return found


def _cannot_bind(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"--port {port}: is already in use on {host}; choose another, or 0 for any free one"
            )
        case errno.EACCES:
            return f"--port {port}: no permission to use it; choose 1024 or above, or 0 for any"
        case errno.EADDRNOTAVAIL:
            return f"--host {host}: is not an address of this machine"
    return f"--host {host} --port {port}: {error.strerror}"


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return url_of(host, port)


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


class _Server(uvicorn.Server):
    """Calls ``started`` once it listens; ``run_server`` handles the signals."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_started = started
        self.ends_at = 0.0
        """In seconds of the monotonic clock; 0 until a signal has come."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self.on_started()

    def stop(self) -> None:
        self.force_exit = self.should_exit  # at the second signal
        self.should_exit = True
        self.ends_at = self.ends_at or time.monotonic() + END_SECONDS
        for listening in getattr(self, "servers", ()):  # uvicorn itself looks every 0.1 s
            listening.close()

    def capture_signals(self) -> Any:
        return nullcontext()


def run_server(
    app: FastAPI,
    services: "Sequence[Service]",
    bound: socket.socket,
    *,
    load: "Callable[[], Sequence[TrainedModel]]",
    started: Callable[[], None],
    say: Say,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish the requests already received.

    SIGHUP reloads the run; if that fails, the service keeps its model. Without a service there are
    only pages, which read their files at every request.
    """
    config = _config(app)
    server = _Server(config, started)
    reloading = _Reload(services, load, say) if services else None

    async def serve() -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            server.stop()
            for service in services:
                service.stop()
                loop.call_later(GRACE_SECONDS - 1, service.abandon)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        again = reloading.start if reloading else lambda: None
        loop.add_signal_handler(signal.SIGHUP, again)
        await server.serve(sockets=[bound])

    return_large_blocks()
    sys.setswitchinterval(SWITCH_SECONDS)
    freeze_loaded_objects()
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve())
    _end(services, reloading, server.ends_at or time.monotonic() + END_SECONDS, say)


def _end(
    services: "Sequence[Service]", reloading: "_Reload | None", until: float, say: Say
) -> None:
    """End the threads, or the process if one of them still computes.

    Python cannot exit while a thread is inside torch: the process would abort.
    """
    ended = [
        service.close(seconds=max(0.0, until - time.monotonic()))
        for service in reversed(services)  # each restores the threads that it found
    ]
    if reloading:
        ended.append(reloading.end(seconds=RELOAD_SECONDS))
    if not all(ended):
        say("stopped, without waiting for a thread that still computes")
        os._exit(0)


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=limited_protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        backlog=BACKLOG,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=2 * HEAD_BYTES,
    )


class _Reload:
    """Loads the runs in a thread; if asked again meanwhile, it loads them once more."""

    def __init__(
        self,
        services: "Sequence[Service]",
        load: "Callable[[], Sequence[TrainedModel]]",
        say: Say,
    ) -> None:
        self.services, self.load, self.say = services, load, say
        self.reloads = services[0].metrics.reloads
        self.asked, self.is_ending = Event(), False
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def start(self) -> None:
        self.asked.set()

    def end(self, *, seconds: float) -> bool:
        """Whether the thread ended in time."""
        self.is_ending = True
        self.asked.set()
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def _work(self) -> None:
        while self.asked.wait() and not self.is_ending:
            self.asked.clear()
            try:
                self._reload()
            except Exception as error:  # whatever it is, the service goes on
                why = _why(error)
                self.say(f"warning: reload failed, still serving the previous model: {why}")
                self.reloads.labels("refused").inc()

    def _reload(self) -> None:
        models = self.load()
        for service, model in zip(self.services, models, strict=True):
            service.replace(model)
        if self.services[0].is_stopping:
            return
        freeze_loaded_objects()
        self.reloads.labels("done").inc()
        for model in models:
            self.say(f"reloaded {model.folder} ({model.which})")


def _why(error: Exception) -> str:
    if isinstance(error, UserError):
        return "; ".join(error.lines)
    return str(error) if isinstance(error, OSError | RuntimeError) else repr(error)
