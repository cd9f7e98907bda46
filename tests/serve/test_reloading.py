"""A model that is exchanged while requests come in."""

import asyncio
import copy
from queue import Queue
from threading import Event

import pytest

from cotrunk.errors import UserError
from cotrunk.serve.server import _Reload


@pytest.mark.slow
def test_requests_are_answered_while_the_model_is_replaced(make, model):
    asking = make(threads=2)
    asked = {"inputs": [{"text": f"river {number}"} for number in range(6)]}
    expected = asking.post("/predict", asked).json()

    async def work(client):
        async def replace():
            for _ in range(5):
                asking.service.replace(copy.copy(model))
                await asyncio.sleep(0)

        async def ask():
            return [(await client.post("/predict", json=asked)) for _ in range(10)]

        *found, _ = await asyncio.gather(ask(), ask(), ask(), replace())
        return [response for each in found for response in each]

    responses = asking.run(work)
    assert {response.status_code for response in responses} == {200}
    predictions = [[row["mood"]["prediction"] for row in r.json()["outputs"]] for r in responses]
    wanted = [row["mood"]["prediction"] for row in expected["outputs"]]
    assert all(each == wanted for each in predictions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "shown"), [(UserError("a", "b"), "a; b"), (KeyError("x"), "KeyError('x')")]
)
def test_a_reload_that_fails_is_told_and_the_next_one_is_made(make, model, error, shown):
    asking, said = make(runs=2), Queue()
    before = [service.engine for service in asking.services]
    outcomes = [error, [copy.copy(model), copy.copy(model)]]

    def load():
        found = outcomes.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    reloading = _Reload(asking.services, load, said.put)
    reloading.start()
    assert (
        said.get(timeout=30) == f"warning: reload failed, still serving the previous model: {shown}"
    )
    assert [service.engine for service in asking.services] == before
    reloading.start()
    assert said.get(timeout=30).startswith("reloaded")
    after = [service.engine for service in asking.services]
    assert not {id(engine) for engine in before} & {id(engine) for engine in after}


def test_a_reload_that_takes_long_is_not_waited_for_at_the_end(make, model):
    asking, said = make(), Queue()
    begun, may_end = Event(), Event()

    def load():
        begun.set()
        assert may_end.wait(30)
        return [copy.copy(model)]

    before = asking.service.engine
    reloading = _Reload(asking.services, load, said.put)
    reloading.start()
    assert begun.wait(30)
    asking.service.stop()
    assert not reloading.end(seconds=0.0)
    may_end.set()
    assert reloading.end(seconds=30.0)
    assert asking.service.engine is before
    assert said.empty()


@pytest.mark.slow
def test_a_reload_that_is_asked_for_during_another_is_made_after_it(make, model):
    asking, said = make(), Queue()
    begun, may_end, loads = Event(), Event(), []

    def load():
        loads.append(1)
        begun.set()
        assert may_end.wait(30)
        return [copy.copy(model)]

    reloading = _Reload(asking.services, load, said.put)
    reloading.start()
    assert begun.wait(30)
    reloading.start()
    may_end.set()
    assert [said.get(timeout=30) for _ in range(2)] == [f"reloaded {model.folder} (best)"] * 2
    assert len(loads) == 2
