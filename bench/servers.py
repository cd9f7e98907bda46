"""Services that other people would write for the same models: ``python -m bench.servers KIND``.

Each prints its address once it can be asked; the models are exports of one run.
"""

import argparse
import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import torch

BATCH, WAIT_SECONDS = 32, 0.005
"""Of dynamic batching: at most so many requests, or as many as came in so many seconds."""


class Models:
    """A `transformers` model for each task, all with one tokenizer."""

    def __init__(self, folder: Path, tasks: Sequence[str]) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        places = {task: folder / task for task in tasks}
        self.tokenizer = AutoTokenizer.from_pretrained(places[tasks[0]])
        self.models = {
            task: AutoModelForSequenceClassification.from_pretrained(place).eval()
            for task, place in places.items()
        }

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[dict[str, list[float]]]:
        """The outputs of each task for each text; padded to the longest."""
        inputs = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=128, return_tensors="pt"
        )
        found = {task: model(**inputs).logits.tolist() for task, model in self.models.items()}
        return [{task: rows[at] for task, rows in found.items()} for at in range(len(texts))]


def one_at_a_time(models: Models) -> Any:
    """A request is answered when the one before it is."""
    app, Asked = _app()
    turn = Lock()

    @app.post("/predict")  # type: ignore[untyped-decorator]
    def predict(asked: Asked) -> dict[str, Any]:  # type: ignore[valid-type]
        with turn:
            return {"outputs": models([one.text for one in asked.inputs])}  # type: ignore[attr-defined]

    return app


def dynamic_batching(models: Models) -> Any:
    """Requests of a few milliseconds are answered together."""
    app, Asked = _app()
    waiting: asyncio.Queue[tuple[str, asyncio.Future[Any]]] = asyncio.Queue()
    kept: set[asyncio.Task[None]] = set()

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await waiting.get()]
            until = loop.time() + WAIT_SECONDS
            while len(batch) < BATCH:
                try:
                    rest = until - loop.time()
                    batch.append(await asyncio.wait_for(waiting.get(), max(rest, 0)))
                except TimeoutError:
                    break
            found = await asyncio.to_thread(models, [text for text, _ in batch])
            for (_, done), outputs in zip(batch, found, strict=True):
                done.set_result(outputs)

    @app.post("/predict")  # type: ignore[untyped-decorator]
    async def predict(asked: Asked) -> dict[str, Any]:  # type: ignore[valid-type]
        if not kept:
            kept.add(asyncio.create_task(answer()))
        futures = []
        for one in asked.inputs:  # type: ignore[attr-defined]
            futures.append(asyncio.get_running_loop().create_future())
            waiting.put_nowait((one.text, futures[-1]))
        return {"outputs": [await future for future in futures]}

    return app


def _app() -> tuple[Any, Any]:
    """An application, and the type of its requests: the JSON of ours."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Given(BaseModel):
        text: str

    class Asked(BaseModel):
        inputs: list[Given]

    return FastAPI(), Asked


def _serve(make: Callable[[Models], Any], models: Models) -> None:
    import uvicorn

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen(1024)
    _say(f"http://127.0.0.1:{bound.getsockname()[1]}")
    uvicorn.Server(uvicorn.Config(make(models), log_level="error")).run(sockets=[bound])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.servers", description=__doc__)
    parser.add_argument("kind", choices=("one-at-a-time", "dynamic-batching"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--threads", type=int, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    make = one_at_a_time if chosen.kind == "one-at-a-time" else dynamic_batching
    _serve(make, Models(chosen.folder, chosen.tasks))


if __name__ == "__main__":
    main()
