"""S1 and S2: a service under load, and far beyond what it can answer."""

import asyncio
import csv
import json
import math
import random
import time
from pathlib import Path
from typing import Any

from cotrunk.data.sample import folder as sample_folder
from faults.client import Answer, Connection, flood, load, percentile
from faults.figure import Figure, Size
from faults.preload import shared
from faults.serving import Served, served
from faults.world import WORDS, World, world

CLOSE = 1e-4
MINILM = """
[encoder]
weights = "minilm"

[sharing]
encoder = "S6"

[tasks.mood]
kind = "classes"
classes = 5
text = ["sentence"]
label = "sentiment"
train = "sample:sentiment-train.csv"

[tasks.rated]
kind = "score"
text = ["sentence"]
label = "sentiment"
train = "sample:sentiment-train.csv"

[train]
max_steps = 1
epochs = 1
batch = 4
evaluate = "never"
"""
CHOICES = (None, ["mood"], ["rated"], ["rated", "mood"])


def s1(seed: int, size: Size) -> Figure:
    """Many requests of different sizes and tasks; every answer is compared with ``predict``."""
    with world(shared()) as here:
        run, texts = _run_to_serve(here, size)
        expected = _offline(here, run, texts)
        loads = [(10_000, 64), (10_000, 500)] if size == "long" else [(150, 32)]
        with served(here.commands, run, env=here.env) as service:
            asking = _Asking(texts, expected, random.Random(seed))
            asyncio.run(load(service.url, asking.ask, requests=200, connections=16))
            before = service.megabytes()
            asking.seconds.clear()
            for requests, connections in loads:
                plan = load(service.url, asking.ask, requests=requests, connections=connections)
                asyncio.run(plan)
            grown = service.megabytes() - before
    tried = 200 + sum(requests for requests, _ in loads)
    p50, p99 = (percentile(asking.seconds, share) for share in (0.5, 0.99))
    note = (
        f"{asking.refused:,} of them 429; memory +{grown:.0f} MB; "
        f"p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms"
    )
    claim = "requests at 64 and 500 connections: answers of predict, or 429; memory under +50 MB"
    return Figure("S1", claim, tried + 1, asking.right + asking.refused + (grown < 50), note)


class _Asking:
    """Sends requests and counts what comes back."""

    def __init__(self, texts: list[str], expected: dict[str, Any], draw: random.Random) -> None:
        self.texts, self.expected, self.draw = texts, expected, draw
        self.right = self.refused = 0
        self.seconds: list[float] = []

    async def ask(self, connection: Connection, _: int) -> None:
        chosen = self.draw.choices(self.texts, k=self.draw.choice((1, 1, 1, 3)))
        tasks = self.draw.choice(CHOICES)
        asked: dict[str, Any] = {"inputs": [{"text": text} for text in chosen]}
        answer = await connection.post("/predict", asked | ({"tasks": tasks} if tasks else {}))
        self.seconds.append(answer.seconds)
        if is_refused(answer):
            self.refused += 1
            await asyncio.sleep(0.1)
        elif answer.status == 200:
            wanted = [
                {task: self.expected[text][task] for task in tasks or self.expected[text]}
                for text in chosen
            ]
            self.right += is_close(answer.json["outputs"], wanted)


def is_refused(answer: Answer) -> bool:
    """By a full queue, with the time to wait."""
    return answer.status == 429 and int(answer.headers["retry-after"]) > 0 and answer.is_told


def is_close(one: Any, other: Any) -> bool:
    """Equal, with numbers as close as sums in another order are."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=CLOSE)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_close, one, other))
    return bool(one == other)


def _run_to_serve(here: World, size: Size) -> tuple[Path, list[str]]:
    """A tiny random network, or MiniLM on real sentences."""
    if size == "quick":
        draw = random.Random(0)
        return here.finished(), [
            " ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(60)
        ]
    config = here.folder / "minilm.toml"
    config.write_text(MINILM)
    said = here.commands.run("train", config, "--out", here.folder / "minilm", env=here.env)
    assert said.code == 0, said
    with (sample_folder() / "sentiment-dev.csv").open(encoding="utf-8") as file:
        return here.folder / "minilm", [row["sentence"] for row in csv.DictReader(file)]


def _offline(here: World, run: Path, texts: list[str]) -> dict[str, Any]:
    """What ``cotrunk predict`` answers for each text."""
    asked, answered = here.folder / "asked.jsonl", here.folder / "answered.jsonl"
    asked.write_text("".join(json.dumps({"sentence": text}) + "\n" for text in texts))
    said = here.commands.run("predict", run, asked, "-o", answered, env=here.env)
    assert said.code == 0, said
    rows = [json.loads(line) for line in answered.read_text().splitlines()]
    return {
        text: {task: row[task] for task in ("mood", "rated")}
        for text, row in zip(texts, rows, strict=True)
    }


def s2(seed: int, size: Size) -> Figure:
    """Ten times the requests that it can answer, whether or not it has answered."""
    seconds = 60.0 if size == "long" else 1.5
    texts_each = 8 if size == "long" else 32
    with world(shared()) as here:
        run, texts = _run_to_serve(here, size)
        draw = random.Random(seed)
        asked = {"inputs": [{"text": text} for text in draw.choices(texts, k=texts_each)]}
        with served(here.commands, run, "--queue", 2048, env=here.env) as service:
            asyncio.run(_capacity(service, asked, seconds=min(seconds, 5)))  # the first are slow
            capacity = asyncio.run(_capacity(service, asked, seconds=min(seconds, 5)))
            found = asyncio.run(_overload(service, asked, 10 * capacity, seconds))
            hammered = asyncio.run(_capacity(service, asked, seconds=min(seconds, 5), stubborn=12))
            before = service.megabytes()
    late = percentile(found.refusals, 0.99) if found.refusals else math.inf
    slow = percentile(found.health, 0.99)
    # Beside other tests a process may wait long for a core.
    patience = 1 if size == "long" else 20
    checks = [
        found.unexpected == 0,
        bool(found.refusals),
        late < 0.05 * patience,
        slow < 0.1 * patience,
        hammered > capacity / (4 if size == "long" else 10),
    ]
    note = (
        f"{10 * capacity:.0f} requests/s of {texts_each} texts against {capacity:.0f}: "
        f"{found.answered:,} answered, {len(found.refusals):,} got 429; 99 % of them within "
        f"{late * 1000:.0f} ms; /healthz within {slow * 1000:.0f} ms; {before:.0f} MB; "
        f"{hammered:.0f} answered per second while 12 clients ask again at once after each 429"
    )
    claim = "10 times the load it can answer: 429 within 50 ms, /healthz within 100 ms"
    return Figure("S2", claim, len(checks), sum(checks), note)


async def _capacity(service: Served, asked: object, *, seconds: float, stubborn: int = 0) -> float:
    """Requests answered per second by a service that always has enough to do.

    A client that is refused goes away, unless all are ``stubborn``.
    """
    done, until = 0, time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        async with Connection(service.url) as connection:
            while time.perf_counter() < until:
                answer = await connection.post("/predict", asked)
                if answer.status != 200 and not stubborn:
                    return
                done += answer.status == 200

    await asyncio.gather(*(one() for _ in range(stubborn or 6)))
    return done / seconds


class _Overloaded:
    def __init__(self) -> None:
        self.answered = self.unexpected = 0
        self.refusals: list[float] = []
        self.health: list[float] = []


async def _overload(service: Served, asked: object, rate: float, seconds: float) -> _Overloaded:
    found = _Overloaded()

    async def ask(connection: Connection, _: int) -> None:
        answer = await connection.post("/predict", asked)
        if is_refused(answer):
            found.refusals.append(answer.seconds)
        elif answer.status == 200:
            found.answered += 1
        else:
            found.unexpected += 1

    async def check() -> None:
        async with Connection(service.url) as connection:
            while True:
                answer = await connection.get("/healthz")
                found.health.append(answer.seconds)
                found.unexpected += answer.status != 200
                await asyncio.sleep(0.05)

    checking = asyncio.create_task(check())
    await flood(service.url, ask, rate=rate, seconds=seconds)
    checking.cancel()
    return found
