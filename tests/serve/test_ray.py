"""The same service on a Ray cluster of two nodes, of which a replica is killed under load."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotrunk.cluster import set_environment
from cotrunk.serve.on_ray import ENVIRONMENT
from faults.answering import is_close
from faults.client import Connection, Gone
from faults.preload import shared
from faults.serving import address, served

pytestmark = pytest.mark.ray
ASKED = {"inputs": [{"text": "a good river", "pair": "tea"}, {"text": "stone"}]}
REPLICA = b"ray::ServeReplica:cotrunk"


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of two nodes on this machine."""
    set_environment(None)
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    made.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield made.address
    made.shutdown()


def replicas(ancestor: int) -> list[int]:
    """The processes of replicas among the descendants of a process."""
    found = []
    for task in Path(f"/proc/{ancestor}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            try:
                if Path(f"/proc/{child}/cmdline").read_bytes().startswith(REPLICA):
                    found.append(child)
                found += replicas(child)
            except OSError:  # it has ended
                continue
    return found


async def answers(url: str, *, kill: int | None) -> tuple[list[object], int]:
    """Of many requests, while a process is killed: what was answered, and how many failed."""
    found: list[object] = []
    failed = 0
    doomed = [kill] if kill else []

    async def ask() -> None:
        nonlocal failed
        async with Connection(url) as connection:
            for _ in range(20):
                try:
                    answer = await connection.post("/predict", ASKED)
                except Gone:
                    failed += 1
                    continue
                if answer.status == 200:
                    found.append(answer.json["outputs"])
                else:
                    failed += 1
                    assert answer.status >= 500
                if doomed and len(found) == 20:
                    os.kill(doomed.pop(), signal.SIGKILL)

    await asyncio.gather(*(ask() for _ in range(8)))
    return found, failed


def test_a_killed_replica_costs_only_the_requests_that_it_had(cluster, run, asking):
    expected = asking.post("/predict", ASKED).json()["outputs"]
    options = ["--ray", cluster, "--replicas", 2, "--threads", 1]
    with served(shared(), run, *options) as service:
        both = replicas(os.getpid())
        assert len(both) == 2
        found, failed = asyncio.run(answers(service.url, kill=both[0]))
        assert failed <= 16
        assert len(found) + failed == 160
        again, failed = asyncio.run(answers(service.url, kill=None))
        assert failed == 0
        assert all(is_close(one, expected) for one in (*found, *again))
        refused = asyncio.run(hostile(service.url))
        assert refused == [403, 413, 415, 422]
        said, _ = service.stop()
    assert said.code == 0, said
    assert said.out == service.url + "\n"


def of_folder(folder: Path) -> list[str]:
    """The command lines of processes that were given a path in a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
        if f"{folder}/" in line:
            found.append(line)
    return found


@pytest.mark.parametrize(("moment", "code"), [("ray starts", 143), ("it answers", 0)])
def test_a_signal_leaves_nothing(run, moment, code):
    with tempfile.TemporaryDirectory(prefix="ct", dir="/tmp") as scratch:
        folder = Path(scratch)
        running = shared().start("serve", run, "--port", 0, "--ray", env={"TMPDIR": scratch})
        while not of_folder(folder):
            assert not running.has_ended()
            time.sleep(0.05)
        if moment == "it answers":
            address(running)
        running.send(signal.SIGTERM)
        said = running.wait()
        until = time.monotonic() + 30
        while of_folder(folder) and time.monotonic() < until:
            time.sleep(0.1)
        assert said.code == code, said
        assert of_folder(folder) == []
        assert list(folder.glob("cotrunk-*")) == []


async def hostile(url: str) -> list[int]:
    """Statuses of requests that the guard of a single service refuses."""
    async with Connection(url) as connection:
        found = [
            await connection.post("/predict", ASKED, host="evil.example"),
            await connection.ask("POST", "/predict", b" " * ((1 << 20) + 1)),
            await connection.post("/predict", ASKED, content_type="text/plain"),
            await connection.post("/predict", {"inputs": []}),
        ]
    return [answer.status for answer in found]
