"""CPU time of a service per request, against services on `transformers` with the same weights."""

import asyncio
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cotrunk
from bench.timing import Result, Spent, machine_seconds, take_turns
from bench.work import FILES, Bench
from cotrunk.build.load import load_model
from cotrunk.data.sample import folder as sample_folder
from cotrunk.export.export import Request, export
from faults.client import Connection, Gone, load

TASKS = ("sst", "para", "sts")
REQUESTS, CONNECTIONS, WARM_UP = 96, 32, 32
START_SECONDS = 180.0
DEVIATION = 1e-3
CONFIG = """
[encoder]
weights = "minilm"
pooling = "pooler"

[sharing]
encoder = "S6"

[tasks.sst]
kind = "classes"
classes = 5
text = ["sentence"]
label = "sentiment"
train = "sample:sentiment-train.csv"
dev = "sample:sentiment-dev.csv"

[tasks.para]
kind = "binary"
text = ["sentence1"]
label = "is_duplicate"
train = "sample:paraphrase-train.csv"
dev = "sample:paraphrase-dev.csv"

[tasks.sts]
kind = "score"
text = ["sentence1"]
label = "similarity"
train = "sample:similarity-train.csv"
dev = "sample:similarity-dev.csv"

[train]
max_steps = 1
epochs = 1
batch = 4
evaluate = "never"
device = "cpu"
"""


def serve(bench: Bench) -> Iterator[Result]:
    """All three tasks of each text, then one task; one text per request."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as kept:
        run, models = _trained(Path(name))
        texts = texts_of(bench)
        ours = kept.enter_context(_process("-m", "cotrunk", "serve", run, "--port", 0, *_threads()))
        for kind in ("one-at-a-time", "dynamic-batching"):
            with _process("-m", "bench.servers", kind, models, *TASKS, *_threads()) as peer:
                yield _compared(f"serve-{kind}", ours, peer, texts, TASKS, bench.rounds(6))
        with _process("-m", "bench.lit_server", models, "sst", torch.get_num_threads()) as peer:
            yield _compared("serve-litserve", ours, peer, texts, TASKS[:1], bench.rounds(6))


def texts_of(bench: Bench) -> list[str]:
    """Sentences of the course's training file, or of the sample."""
    if bench.data is None:
        file, delimiter = sample_folder() / "sentiment-train.csv", ","
    else:
        file, delimiter = bench.data / FILES["sst"], "\t"
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened, delimiter=delimiter))
    return [row["sentence"] for row in rows if row["sentence"].strip()][:1000]


def _trained(folder: Path) -> tuple[Path, Path]:
    """A run, and its tasks as `transformers` models."""
    config, run, models = folder / "serve.toml", folder / "run", folder / "models"
    config.write_text(CONFIG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cotrunk.train(config, run)
    request = Request(run, "final", "transformers", TASKS, models)
    export(load_model(run, which="final"), request)
    return run, models


def _threads() -> tuple[str, str]:
    return "--threads", str(torch.get_num_threads())


class Server:
    """A service in another process, and what it has spent."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url, self.process = url, process
        self.asked = 0

    def spend(self, texts: Sequence[str], tasks: Sequence[str], requests: int) -> Spent:
        first, self.asked = self.asked, self.asked + requests

        async def ask(connection: Connection, number: int) -> None:
            text = texts[(first + number) % len(texts)]
            answer = await connection.post("/predict", asked_for(text, tasks))
            if answer.status != 200:
                raise RuntimeError(f"{self.url}: {answer.status} {answer.body[:200]!r}")

        every, own, begun = machine_seconds(), time.process_time(), time.perf_counter()
        before = cpu_seconds(self.process.pid)
        asyncio.run(load(self.url, ask, requests=requests, connections=CONNECTIONS))
        wall = time.perf_counter() - begun
        after = cpu_seconds(self.process.pid)
        user, kernel = after[0] - before[0], after[1] - before[1]
        others = machine_seconds() - every - user - kernel - (time.process_time() - own)
        return Spent(user + kernel, kernel, wall, others)


def asked_for(text: str, tasks: Sequence[str]) -> dict[str, Any]:
    chosen = {} if tuple(tasks) == TASKS else {"tasks": list(tasks)}
    return {"inputs": [{"text": text}], **chosen}


def cpu_seconds(pid: int) -> tuple[float, float]:
    """User and kernel time of a process and its descendants that run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, kernel = (int(fields[n]) / os.sysconf("SC_CLK_TCK") for n in (11, 12))
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            more = cpu_seconds(int(child))
            user, kernel = user + more[0], kernel + more[1]
    return user, kernel


@contextmanager
def _process(*command: object) -> Iterator[Server]:
    """A service that can be asked; it is ended with the block."""
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        asyncio.run(_until_it_answers(url, process))
        yield Server(url, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):  # LitServe leaves its workers behind
            os.killpg(process.pid, signal.SIGKILL)


async def _until_it_answers(url: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"a service ended with code {process.returncode}")
        try:
            async with Connection(url) as connection:
                if (await connection.post("/predict", asked_for("ready", TASKS))).status == 200:
                    return
        except (OSError, Gone):
            pass
        await asyncio.sleep(0.2)
    raise RuntimeError(f"{url} does not answer")


def _compared(
    name: str, ours: Server, peer: Server, texts: list[str], tasks: Sequence[str], rounds: int
) -> Result:
    asyncio.run(_refuse_deviation(ours, peer, texts[:32], tasks))
    for side in (ours, peer):
        side.asked = 0
        side.spend(texts, tasks, WARM_UP)
    return take_turns(
        name,
        partial(ours.spend, texts, tasks, REQUESTS),
        partial(peer.spend, texts, tasks, REQUESTS),
        rounds=rounds,
        meaning="times less",
    )


async def _refuse_deviation(
    ours: Server, peer: Server, texts: Sequence[str], tasks: Sequence[str]
) -> None:
    """Both sides must answer alike: the probabilities of classes, and the scores."""
    async with Connection(ours.url) as mine, Connection(peer.url) as other:
        for text in texts:
            one = (await mine.post("/predict", asked_for(text, tasks))).json["outputs"][0]
            two = (await other.post("/predict", asked_for(text, tasks))).json["outputs"][0]
            for task in tasks:
                apart = np.abs(_as_numbers(one[task]) - _as_outputs(task, two[task])).max()
                if apart > DEVIATION:
                    raise ValueError(f"{task}: answers differ by {apart:.1e}")


def _as_numbers(answer: dict[str, Any]) -> np.ndarray:
    return np.array(answer["probabilities"] or [answer["prediction"]])


def _as_outputs(task: str, logits: list[float]) -> np.ndarray:
    found = np.array(logits)
    if task == "sst":
        return np.exp(found - found.max()) / np.exp(found - found.max()).sum()
    return 1 / (1 + np.exp(-found)) if task == "para" else found


FAMILY = {"serve": serve}
