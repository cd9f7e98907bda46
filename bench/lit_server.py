"""LitServe with one `transformers` model: ``python -m bench.lit_server MODELS TASK THREADS``.

A module of its own, because LitServe sends the class to its worker processes by name.
"""

import socket
import sys
from pathlib import Path
from typing import Any

import litserve
import torch
from fastapi import Request

from bench.servers import BATCH, WAIT_SECONDS, Models


class Api(litserve.LitAPI):  # type: ignore[misc]
    """Batches by number, as its documentation advises."""

    def __init__(self, folder: Path, task: str, threads: int) -> None:
        super().__init__(max_batch_size=BATCH, batch_timeout=WAIT_SECONDS)
        self.folder, self.task, self.threads = folder, task, threads

    def setup(self, device: str) -> None:
        del device
        torch.set_num_threads(self.threads)
        self.models = Models(self.folder, [self.task])

    def decode_request(self, request: Request) -> Any:
        """LitServe reads the annotation, and hands over the JSON of the body."""
        document: Any = request
        return document["inputs"][0]["text"]

    def predict(self, texts: Any) -> Any:
        return self.models(texts)

    def unbatch(self, output: Any) -> Any:
        return output

    def encode_response(self, output: Any) -> Any:
        return {"outputs": [output]}


def main() -> None:
    folder, task, threads = sys.argv[1:]
    api = Api(Path(folder), task, int(threads))
    server = litserve.LitServer(api, accelerator="cpu", devices=1, workers_per_device=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    server.run("127.0.0.1", port, num_api_servers=1, log_level="error", generate_client_file=False)


if __name__ == "__main__":
    main()
