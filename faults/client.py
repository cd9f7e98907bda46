"""A small HTTP client on asyncio: it takes little of the time that a server is measured by.

It also sends what no proper client would.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

LONGEST = 60.0
"""Seconds after which an answer counts as missing."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_told(self) -> bool:
        """It refuses in JSON, with what is wrong."""
        try:
            found = self.json["detail"]
        except (ValueError, KeyError, TypeError):
            return False
        return bool(found) and all(one["message"] for one in found)


class Gone(Exception):
    """The server closed the connection without an answer."""


class Connection:
    """A connection that stays open; it opens again if the server has closed it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port or 80
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self.close()
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def post(self, path: str, document: object, **headers: str) -> Answer:
        return await self.ask("POST", path, json.dumps(document).encode(), **headers)

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, b"", **headers)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Headers are named with ``_`` for ``-``; an empty one is left out."""
        named = {"host": f"{self.host}:{self.port}"}
        if method == "POST":
            named |= {"content-type": "application/json", "content-length": str(len(body))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}\r\n" for name, value in named.items() if value]
        head = f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n"
        return await self.send(head.encode("latin-1") + body)

    async def send(self, raw: bytes) -> Answer:
        """Any bytes, and the answer to them."""
        if self.writer is None or self.writer.is_closing() or self._is_closed_there():
            await self.open()
        assert self.writer is not None
        begun = time.perf_counter()
        self.writer.write(raw)
        return await asyncio.wait_for(self.answer(begun), LONGEST)

    def _is_closed_there(self) -> bool:
        """By the server, after it was idle for long."""
        return self.reader is not None and self.reader.at_eof()

    async def answer(self, begun: float) -> Answer:
        assert self.reader is not None
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            status, *lines = head.decode("latin-1").split("\r\n")[:-2]
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.close()
            raise Gone from error
        if headers.get("connection") == "close":
            self.close()
        return Answer(int(status.split(" ")[1]), headers, body, time.perf_counter() - begun)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


Ask = Callable[[Connection, int], Awaitable[None]]
"""What a connection does for the request of a number."""


async def load(url: str, ask: Ask, *, requests: int, connections: int) -> None:
    """Requests 0, 1, 2..., the next whenever a connection is free."""
    numbers = iter(range(requests))

    async def one() -> None:
        async with Connection(url) as connection:
            for number in numbers:
                await ask(connection, number)

    await asyncio.gather(*(one() for _ in range(connections)))


async def flood(url: str, ask: Ask, *, rate: float, seconds: float) -> int:
    """So many requests per second, whether or not earlier ones were answered; how many."""
    free: list[Connection] = []
    running: set[asyncio.Task[None]] = set()

    async def one(number: int) -> None:
        connection = free.pop() if free else Connection(url)
        await ask(connection, number)
        free.append(connection)

    begun, number = time.perf_counter(), 0
    while (at := time.perf_counter() - begun) < seconds:
        while number < at * rate:
            task = asyncio.create_task(one(number))
            running.add(task)
            task.add_done_callback(running.discard)
            number += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*running)
    for connection in free:
        connection.close()
    return number


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
