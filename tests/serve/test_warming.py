"""Workers that warm up: what is answered meanwhile, and how a service ends or reloads then."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

import cotrunk

ASKED = {"inputs": [{"text": "a good river"}]}


class Held:
    """The passes through a network, which wait until they are released."""

    def __init__(self) -> None:
        self.begun, self.released, self.passes = Event(), Event(), 0

    def __call__(self, *_: object) -> None:
        self.passes += 1
        self.begun.set()
        assert self.released.wait(60)


@contextmanager
def holding(model: Any) -> Iterator[Held]:
    held = Held()
    hook = model.model.network.register_forward_pre_hook(held)
    try:
        yield held
    finally:
        held.released.set()
        hook.remove()


def test_a_service_is_ready_once_all_its_threads_have_warmed_up(make, model):
    with holding(model) as held:
        asking = make(runs=2)
        assert held.begun.wait(60)
        assert [asking.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 503]
        held.released.set()
        asking.services[0].wait_until_warm()
        asking.services[1].wait_until_warm()
        assert asking.get("/readyz").status_code == 200


def test_a_service_that_ends_stops_warming_up_after_the_batch_it_is_at(make, model):
    with holding(model) as held:
        service = make(threads=1).service
        assert held.begun.wait(60)
        service.stop()
        held.released.set()
        assert service.close()
        assert held.passes == 1


def test_a_batch_that_takes_long_is_not_waited_for(make, model):
    with holding(model) as held:
        service = make(threads=1).service
        assert held.begun.wait(60)
        assert not service.close(seconds=0.0)
        held.released.set()
        assert service.close(seconds=60.0)


def test_a_reloaded_model_answers_only_once_it_is_warm(make, run):
    asking, new = make(threads=1), cotrunk.load(run)
    old = asking.service.engine
    with holding(new) as held:
        replacing = Thread(target=asking.service.replace, args=(new,))
        replacing.start()
        assert held.begun.wait(60)
        assert asking.service.engine is old
        assert asking.post("/predict", ASKED).status_code == 200
        held.released.set()
        replacing.join(60)
    assert asking.service.engine.model is new
    assert asking.get("/readyz").status_code == 200
    assert asking.post("/predict", ASKED).status_code == 200


def test_a_service_that_ends_does_not_reload(make, run):
    asking, new = make(threads=1), cotrunk.load(run)
    with holding(new) as held:
        replacing = Thread(target=asking.service.replace, args=(new,))
        replacing.start()
        assert held.begun.wait(60)
        asking.service.stop()
        held.released.set()
        assert asking.service.close()
        replacing.join(60)
        assert not replacing.is_alive()
        assert held.passes == 1


ENDLESS = """
import os, signal, sys
import torch
import cotrunk
from cotrunk.serve import server
from cotrunk.serve.app import create_app
from cotrunk.serve.guard import Rules
from cotrunk.serve.metrics import Metrics
from cotrunk.serve.service import Service

def compute(*_):
    while True:
        torch.mm(numbers, numbers)

numbers = torch.ones(600, 600)
server.END_SECONDS = 0.5
model = cotrunk.load(sys.argv[1])
model.model.network.register_forward_pre_hook(compute)
service = Service(model, threads=1, queue_tokens=9, deadline=9, metrics=Metrics())
with server.bound_socket("127.0.0.1", 0) as bound:
    server.run_server(
        create_app(service, rules=Rules()),
        [service],
        bound,
        load=list,
        started=lambda: os.kill(os.getpid(), signal.SIGTERM),
        say=print,
    )
"""


@pytest.mark.slow
def test_a_process_ends_without_a_crash_although_a_batch_never_does(run):
    command = [sys.executable, "-c", ENDLESS, str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
