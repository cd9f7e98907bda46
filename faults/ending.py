"""S10 and S11: a service that is ended under load, and one whose run changes underneath."""

import asyncio
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from faults.answering import is_close
from faults.client import Connection, Gone
from faults.figure import Figure, Size
from faults.preload import shared
from faults.serving import Served, served
from faults.world import WORDS, world

PATIENCE = 30.0


def s10(seed: int, size: Size) -> Figure:
    """SIGTERM while requests are being answered."""
    rounds, draw = (10 if size == "long" else 1), random.Random(seed)
    held, slowest, answered = 0, 0.0, 0
    with world(shared()) as here:
        run = here.finished()
        for _ in range(rounds):
            with served(here.commands, run, env=here.env) as service:
                counted = asyncio.run(_end_under_load(service, draw))
                begun = time.perf_counter()
                said = service.running.wait()
                slowest = max(slowest, counted["seconds"] + time.perf_counter() - begun)
            answered += counted["answered"]
            ended_well = said.code == 0 and said.is_clean and not counted["lost"]
            held += ended_well and counted["answered"] > 0 and slowest < 10
    note = f"{answered:,} requests in flight answered; slowest end {slowest:.1f} s"
    claim = "SIGTERM under load: what was accepted is answered, new is refused, code 0 within 10 s"
    return Figure("S10", claim, rounds, held, note)


async def _end_under_load(service: Served, draw: random.Random) -> Counter[str]:
    """32 connections each have a request in flight; the signal comes after they were sent."""
    counted: Counter[str] = Counter()
    asked = {"inputs": [{"text": " ".join(draw.choices(WORDS, k=20))} for _ in range(8)]}
    async with AsyncExitStack() as opened:
        enter = opened.enter_async_context
        connections = [await enter(Connection(service.url)) for _ in range(32)]
        for connection in connections:
            await connection.get("/healthz")
        sent = asyncio.gather(*(_one(connection, asked, counted) for connection in connections))
        while not await _are_waiting(service):
            await asyncio.sleep(0.005)
        begun = time.perf_counter()
        service.running.send(signal.SIGTERM)
        await sent
        counted["seconds"] = round(time.perf_counter() - begun)
    try:
        async with Connection(service.url) as late:
            counted["lost"] += (await late.get("/healthz")).status != 503
    except (ConnectionError, Gone):
        pass
    return counted


async def _are_waiting(service: Served) -> bool:
    """All requests have arrived, by the service's own count of tokens."""
    async with Connection(service.url) as connection:
        text = (await connection.get("/metrics")).body.decode()
    waiting = next(line for line in text.splitlines() if line.startswith("cotrunk_waiting_tokens "))
    return float(waiting.split()[1]) > 0


async def _one(connection: Connection, asked: object, counted: Counter[str]) -> None:
    try:
        answer = await connection.post("/predict", asked)
    except (Gone, ConnectionError):
        counted["lost"] += 1
        return
    counted["answered" if answer.status == 200 else "refused"] += 1
    counted["lost"] += answer.status not in (200, 429, 503)


def s11(seed: int, size: Size) -> Figure:
    """The run is deleted, swapped and damaged; SIGHUP loads only what is whole."""
    del seed, size
    with world(shared()) as here:
        run, other = here.finished(), here.folder / "other"
        assert here.train(other, "--set", "train.seed=5", "train.lr=0.1").code == 0
        kept = here.folder / "kept"
        shutil.copytree(run, kept)
        with served(here.commands, run, env=here.env) as service:
            checks = asyncio.run(_changed(service, run, kept, other))
            said, _ = service.stop()
        checks.append(said.code == 0 and "reload failed" in said.err and said.is_clean)
    claim = "a run deleted, damaged or swapped: the old one answers; SIGHUP loads only a whole one"
    return Figure("S11", claim, len(checks), sum(checks))


async def _changed(service: Served, run: Path, kept: Path, other: Path) -> list[bool]:
    asked = {"inputs": [{"text": text} for text in WORDS]}
    async with Connection(service.url) as connection:

        async def outputs() -> object:
            return (await connection.post("/predict", asked)).json["outputs"]

        async def reloaded(outcome: str) -> bool:
            """SIGHUP, and its outcome by the service's own count."""
            before = await _reloads(connection, outcome)
            service.running.send(signal.SIGHUP)
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                if await _reloads(connection, outcome) > before:
                    return True
                await asyncio.sleep(0.02)
            return False

        first = await outputs()
        shutil.rmtree(run)
        checks = [is_close(await outputs(), first), await reloaded("refused")]
        checks.append(is_close(await outputs(), first))
        shutil.copytree(other, run)
        weights = run / "best" / "model.safetensors"
        whole = weights.read_bytes()
        weights.unlink()  # best and final may be hard links
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        checks += [is_close(await outputs(), first), await reloaded("refused")]
        checks.append(is_close(await outputs(), first))
        shutil.rmtree(run)
        shutil.copytree(other, run)
        checks += [is_close(await outputs(), first), await reloaded("done")]
        second = await outputs()
        checks.append(not is_close(second, first))
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        checks += [await reloaded("done"), is_close(await outputs(), first)]
    return checks


async def _reloads(connection: Connection, outcome: str) -> float:
    text = (await connection.get("/metrics")).body.decode()
    start = f'cotrunk_reloads_total{{outcome="{outcome}"}} '
    return next((float(x.split()[1]) for x in text.splitlines() if x.startswith(start)), 0.0)
