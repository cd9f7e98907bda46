"""A trained run with four tasks, and a service of it in this process."""

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

import cotrunk
from cotrunk.serve.app import create_app
from cotrunk.serve.guard import Rules
from cotrunk.serve.metrics import Metrics
from cotrunk.serve.page.playground import pages_of
from cotrunk.serve.service import Service
from toy import TOY, write_toy

Result = TypeVar("Result")
TAGS = """
[tasks.words]
kind = "tags"
classes = ["O", "B-THING"]
text = ["tokens"]
label = "tags"
train = "words.jsonl"
dev = "words.jsonl"
"""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For reading only: tasks that read a text, a pair and words."""
    config = write_toy(tmp_path_factory.mktemp("served"))
    rows = [
        {"tokens": ["a", "good", "river"], "tags": ["O", "O", "B-THING"]},
        {"tokens": ["stone", "tea"], "tags": ["B-THING", "B-THING"]},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows * 8)
    config.with_name("words.jsonl").write_text(lines, encoding="utf-8")
    config.write_text(TOY.replace("[train]", f"{TAGS}\n[train]"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of guards: three steps train nothing
        environment.setenv("COTRUNK_CACHE", str(config.parent / "cache"))
        overrides = ["train.max_steps=3", "train.evaluate=never"]
        cotrunk.train(config, config.parent / "run", overrides=overrides)
    return config.parent / "run"


@pytest.fixture(scope="session")
def model(run: Path) -> Any:
    return cotrunk.load(run)


class Asking:
    """A service in this process, and the way to ask it."""

    def __init__(
        self, model: Any, *, rules: Rules | None = None, runs: int = 1, **options: Any
    ) -> None:
        """``runs``: 2 for a page of two runs, which are the same one here."""
        usual = {"threads": 2, "queue_tokens": 1 << 18, "deadline": 60.0, "metrics": Metrics()}
        self.services = [Service(model, **(usual | options)) for _ in range(runs)]
        self.service = self.services[0]
        more = pages_of(*self.services) if runs > 1 else ()
        self.app = create_app(self.service, rules=rules or Rules(), more=more)

    def close(self) -> None:
        for service in reversed(self.services):
            service.close()

    def run(self, work: Callable[[httpx2.AsyncClient], Awaitable[Result]]) -> Result:
        async def main() -> Result:
            transport = httpx2.ASGITransport(self.app)
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:8000"
            ) as client:
                return await work(client)

        return asyncio.run(main())

    def post(self, path: str, document: object, **headers: str) -> httpx2.Response:
        return self.run(lambda client: client.post(path, json=document, headers=headers))

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.run(lambda client: client.get(path, headers=headers))


@pytest.fixture(scope="session")
def asking(model: Any) -> Iterator[Asking]:
    """A service with the usual limits."""
    made = Asking(model)
    yield made
    made.close()


@pytest.fixture
def make(model: Any) -> Iterator[Callable[..., Asking]]:
    """Makes services with other limits."""
    kept: list[Asking] = []

    def made(**options: Any) -> Asking:
        kept.append(Asking(model, **options))
        return kept[-1]

    yield made
    for one in kept:
        one.close()
