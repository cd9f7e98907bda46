"""The same application on Ray Serve: replicas on the machines of a cluster, one address.

A replica is a service of its own, with its model, queue and limits. Ray passes requests on,
starts a replica again if it is lost, and replaces all of them at a reload, one after another.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from cotrunk.build.trained_model import load_trained
from cotrunk.cluster import keeping_handlers, running_ray
from cotrunk.errors import UserError
from cotrunk.runs.checkpoint import MANIFEST, file_sha256, place_of
from cotrunk.runs.verify import verify
from cotrunk.serve.app import create_app
from cotrunk.serve.guard import Rules
from cotrunk.serve.metrics import Metrics
from cotrunk.serve.page.playground import pages_of
from cotrunk.serve.server import GRACE_SECONDS, url_of
from cotrunk.serve.service import Service

NAME = "cotrunk"
ONGOING = 4096
"""Requests that Ray hands to a replica at once: its own queue says when it is full."""
ENDING = {signal.SIGTERM, signal.SIGINT}
ENVIRONMENT = {
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # else a proxy that starts slowly is killed
}


@dataclass(frozen=True)
class Replica:
    """What a replica needs to make its application; ``sha256`` is that of the network's manifest.

    A replica that is started later must serve the network that was deployed, not one that has
    replaced it in the folder since.
    """

    folder: Path
    which: str
    int8: bool
    threads: int
    queue_tokens: int
    deadline: float
    rules: Rules
    sha256: str

    def app(self) -> FastAPI:
        if manifest_of(self.folder, self.which) != self.sha256:
            raise RuntimeError(f"{self.folder}: {self.which} has changed since it was deployed")
        model = load_trained(self.folder, which=self.which, int8=self.int8)
        service = Service(
            model,
            threads=self.threads,
            queue_tokens=self.queue_tokens,
            deadline=self.deadline,
            metrics=Metrics(),
        )
        service.wait_until_warm()  # until then, Ray keeps the replica that this one replaces
        return create_app(service, rules=self.rules, more=pages_of(service))


def manifest_of(folder: Path, which: str) -> str:
    """The SHA-256 of a saved network's manifest, which has those of all its files."""
    return file_sha256(place_of(folder / which) / MANIFEST)


def refuse_missing_ray() -> None:
    """Checked without importing Ray, which would read its environment too early."""
    if not find_spec("ray") or not find_spec("ray.serve"):
        raise UserError('--ray needs ray[serve]; run: pip install "cotrunk[serve-ray]"')


def serve_on_ray(
    replica: Replica,
    *,
    address: str,
    replicas: int,
    host: str,
    port: int,
    started: Callable[[str], None],
    say: Callable[[str], None],
) -> None:
    """Deploy, and wait for signals: SIGHUP deploys the run again, SIGTERM or SIGINT ends it.

    ``address``: a running cluster that sees the same files; empty starts Ray on this machine.
    If a signal handler raises while Ray or the service starts, both are shut down cleanly.
    """
    cpus = replicas * replica.threads
    with _restoring_mask(), running_ray(address, cpus=cpus, environment=ENVIRONMENT):
        from ray import serve
        from ray.exceptions import RayError

        try:
            with _quietly():
                serve.start(
                    proxy_location="HeadOnly",
                    http_options={"host": host, "port": port},
                    logging_config={"log_level": "ERROR"},
                )
            with _ended_after(serve.delete if address else _shut_down):
                with _quietly():
                    _deploy(replica, replicas)
                # Whoever has the address may send a signal, which waits for `_until_ended`.
                signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDING, signal.SIGHUP})
                started(url_of(host, port))
                with redirect_stdout(sys.stderr):  # Ray may print at any time
                    _until_ended(replica, replicas, say)
        except RayError as error:
            raise RuntimeError(f"Ray Serve: {str(error).splitlines()[0]}") from error


@contextmanager
def _ended_after(end: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    finally:
        with _quietly():
            end(NAME)


def _shut_down(name: str) -> None:
    """Shut down a Ray that was started for this service alone."""
    from ray import serve

    serve.delete(name)
    serve.shutdown()


def _deploy(replica: Replica, replicas: int) -> None:
    from ray import serve

    class Answering:
        pass

    def app() -> FastAPI:
        """Made by the replica: an application has threads, and cannot be sent there."""
        return replica.app()

    deployment: Any = serve.deployment(
        name=NAME,
        num_replicas=replicas,
        max_ongoing_requests=ONGOING,
        graceful_shutdown_timeout_s=GRACE_SECONDS,
        ray_actor_options={"num_cpus": replica.threads},
    )(serve.ingress(app)(Answering))
    serve.run(deployment.bind(), name=NAME, route_prefix="/")


def _until_ended(replica: Replica, replicas: int, say: Callable[[str], None]) -> None:
    """Wait for signals, which only this process has blocked: Ray's were started before."""
    while signal.sigwait({*ENDING, signal.SIGHUP}) not in ENDING:
        try:
            if damaged := verify(replica.folder).damaged:
                raise UserError(f"{replica.folder / damaged[0].file}: {damaged[0].why}")
            sha256 = manifest_of(replica.folder, replica.which)
            with _quietly():
                _deploy(replace(replica, sha256=sha256), replicas)
        except (UserError, OSError, RuntimeError) as error:
            say(f"warning: reload failed, still serving the previous model: {error}")
        else:
            say(f"reloaded {replica.folder} ({replica.which})")


@contextmanager
def _restoring_mask() -> Iterator[None]:
    """Restore the mask of blocked signals; signals that are still pending are dropped."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        while waiting := signal.sigpending() & {*ENDING, signal.SIGHUP}:
            signal.sigwait(waiting)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence Ray on standard output, where only the address goes, and keep our handlers."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), keeping_handlers():
        yield
