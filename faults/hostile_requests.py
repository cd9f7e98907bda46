"""S3, S4, S6 and S9: requests that no proper client sends."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from faults.client import Answer, Connection, Gone
from faults.figure import Figure, Size
from faults.preload import shared
from faults.serving import Served, served
from faults.world import world

LIMIT = 1 << 20
REFUSING = range(400, 500)
GROWTH = 20
"""Megabytes."""


def s3(seed: int, size: Size) -> Figure:
    """Bodies, heads and clients that are too large or too slow."""
    del seed
    slow = 200 if size == "long" else 20
    with world(shared()) as here, served(here.commands, here.finished(), env=here.env) as service:
        asyncio.run(_ask_once(service))
        before = service.megabytes()
        checks = asyncio.run(_too_much(service, slow=slow, wait=size == "long"))
        grown = service.megabytes() - before
        checks["memory"] = grown < GROWTH
        checks["alive"] = asyncio.run(_ask_once(service))
    wrong = ", ".join(name for name, held in checks.items() if not held)
    note = f"memory +{grown:.0f} MB, {slow} slow clients{'; wrong: ' + wrong if wrong else ''}"
    claim = "bodies and heads too large, slow clients: 4xx before they are read, under +20 MB"
    return Figure("S3", claim, len(checks), sum(checks.values()), note)


async def _ask_once(service: Served) -> bool:
    async with Connection(service.url) as connection:
        answer = await connection.post("/predict", {"inputs": [{"text": "a good plot"}]})
    return answer.status == 200


async def _too_much(service: Served, *, slow: int, wait: bool) -> dict[str, bool]:
    checks: dict[str, bool] = {}
    exact = json.dumps({"inputs": [{"text": "a"}]}).encode()
    async with Connection(service.url) as connection:
        whole = await connection.ask("POST", "/predict", exact.ljust(LIMIT))
        checks["body at the limit"] = whole.status == 200
        over = await connection.ask("POST", "/predict", exact.ljust(LIMIT + 1))
        checks["one byte over"] = over.status == 413 and over.is_told
    for name, length in (("1 GB", str(10**9)), ("a huge number", "9" * 400)):
        async with Connection(service.url) as connection:
            answer = await connection.ask("POST", "/predict", b"{", content_length=length)
            checks[f"content length of {name}"] = answer.status in (413, 400) and answer.is_told
    checks["chunked"] = await _chunked(service)
    many = "".join(f"x-{number}: {number}\r\n" for number in range(10_000))
    head = f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n{many}\r\n"
    checks["10,000 headers"] = await _refuses(service, head.encode(), 431)
    checks["a long header"] = await _refuses(
        service, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"y" * LIMIT, 431
    )
    checks["a long path"] = await _refuses(service, b"GET /" + b"a" * LIMIT, 431)
    checks["no HTTP"] = await _refuses(service, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400)
    checks |= await _slow_clients(service, count=slow, wait=wait)
    return checks


async def _chunked(service: Served) -> bool:
    """A body without a length that never ends."""
    async with Connection(service.url) as connection:
        await connection.open()
        assert connection.writer is not None
        head = (
            "POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            "transfer-encoding: chunked\r\n\r\n"
        )
        connection.writer.write(head.encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(64):
                connection.writer.write(chunk)
                await connection.writer.drain()
        except ConnectionError:
            pass
        return (await connection.answer(time.perf_counter())).status == 413


async def _refuses(service: Served, raw: bytes, status: int) -> bool:
    async with Connection(service.url) as connection:
        try:
            answer = await connection.send(raw)
        except (Gone, ConnectionError):  # closed while we were still writing
            return True
    return answer.status == status and answer.is_told


async def _slow_clients(service: Served, *, count: int, wait: bool) -> dict[str, bool]:
    """Half of them never finish a head, half never finish a body; others are answered."""
    connections = [Connection(service.url) for _ in range(count)]
    for number, connection in enumerate(connections):
        await connection.open()
        assert connection.writer is not None
        if number % 2:
            connection.writer.write(b"POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        else:
            connection.writer.write(
                b"POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 90\r\n"
                b"content-type: application/json\r\n\r\n{"
            )
    checks = {"answers beside slow clients": await _ask_once(service)}
    if wait:
        begun = time.perf_counter()
        answers = [await connection.answer(begun) for connection in connections]
        checks["slow clients"] = all(answer.status == 408 and answer.is_told for answer in answers)
    for connection in connections:
        connection.close()
    return checks


def s4(seed: int, size: Size) -> Figure:
    """Documents that are valid for nobody."""
    del seed
    with world(shared()) as here, served(here.commands, here.finished(), env=here.env) as service:
        asyncio.run(_ask_once(service))
        before = service.megabytes()
        rounds = 20 if size == "long" else 1
        statuses = asyncio.run(_documents(service, rounds))
        grown = service.megabytes() - before
        alive = asyncio.run(_ask_once(service))
    wrong = sorted({name for name, held in statuses if not held})
    note = f"memory +{grown:.0f} MB{'; wrong: ' + ', '.join(wrong) if wrong else ''}"
    held = sum(held for _, held in statuses) + (grown < GROWTH) + alive
    claim = "lists, texts and values that cannot be: 4xx that names the field, under +20 MB"
    return Figure("S4", claim, len(statuses) + 2, held, note)


def bad_documents() -> dict[str, tuple[bytes, str]]:
    """By name: a body and the field that its refusal names."""
    text = b'{"inputs": [{"text": %s}]}'
    return {
        "a million texts": (
            b'{"inputs": [' + b'{"text":"a"},' * 999_999 + b'{"text":"a"}]}',
            "body",
        ),
        "20,000 texts": (
            b'{"inputs": [' + b'{"text":"a"},' * 19_999 + b'{"text":"a"}]}',
            "inputs",
        ),
        "a million letters": (text % (b'"' + b"a" * 1_000_000 + b'"'), "inputs[0].text"),
        "no text": (b'{"inputs": [{}]}', "inputs[0].text"),
        "an empty list": (b'{"inputs": []}', "inputs"),
        "no inputs": (b"{}", "inputs"),
        "a number": (text % b"1", "inputs[0].text"),
        "true": (text % b"true", "inputs[0].text"),
        "null": (text % b"null", "inputs[0].text"),
        "an object": (text % b"{}", "inputs[0].text"),
        "NaN": (text % b"NaN", "body"),
        "Infinity": (text % b"-Infinity", "body"),
        "1e999": (text % b"1e999", "inputs[0].text"),
        "a long number": (text % (b"1" * 100_000), "body"),
        "a lone surrogate": (text % rb'"\ud800"', "body"),
        "NUL": (text % rb'"a\u0000b"', "inputs[0].text"),
        "blanks": (text % b'" \\t\\u00a0"', "inputs[0].text"),
        "empty": (text % b'""', "inputs[0].text"),
        "bad UTF-8": (text % b'"\xff\xfe"', "body"),
        "another field": (b'{"inputs": [{"text": "a", "pairs": "b"}]}', "inputs[0].pairs"),
        "another top field": (b'{"inputs": [{"text": "a"}], "task": "mood"}', "task"),
        "an unknown task": (b'{"inputs": [{"text": "a"}], "tasks": ["mod"]}', "tasks[0]"),
        "a task of a number": (b'{"inputs": [{"text": "a"}], "tasks": [0]}', "tasks[0]"),
        "no tasks": (b'{"inputs": [{"text": "a"}], "tasks": []}', "tasks"),
        "a pair nobody reads": (b'{"inputs": [{"text": "a", "pair": "b"}]}', "inputs[0].pair"),
        "depth 100,000": (b"[" * 100_000 + b"]" * 100_000, "body"),
        "depth in a field": (text % (b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "body"),
        "not JSON": (b"text=a", "body"),
        "cut off": (b'{"inputs": [{"text": "a', "body"),
        "two documents": (b'{"inputs": [{"text": "a"}]} {}', "body"),
        "a list": (b"[]", "body"),
        "nothing": (b"", "body"),
    }


async def _documents(service: Served, rounds: int) -> list[tuple[str, bool]]:
    found = []
    async with Connection(service.url) as connection:
        for name, (body, field) in list(bad_documents().items()) * rounds:
            answer = await connection.ask("POST", "/predict", body)
            fields = [one["field"] for one in answer.json["detail"]] if answer.is_told else []
            found.append((name, answer.status in REFUSING and field in fields))
    return found


PATHS = [
    "/../../etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/%252e%252e%252fetc%252fpasswd",
    "/....//....//etc/passwd",
    "//etc/passwd",
    "/etc/passwd",
    "/file:///etc/passwd",
    "/predict/../../etc/passwd",
    "/tasks/..%5c..%5cetc%5cpasswd",
    "/tasks%00.json",
    "/tasks/%00",
    "/tasks#/../../etc/passwd",
    "/tasks;/../etc/passwd",
    "/static/../../../etc/passwd",
    "/runs/..",
    "/runs/%2e%2e",
    "/runs/..%c0%af..%c0%afetc/passwd",
    "/runs/\u2215..\u2215etc\u2215passwd",
    "/openapi.json/../run.json",
    "/model.safetensors",
    "/run.json",
    "/final/model.safetensors",
    "/best/settings.json",
    "/?path=../../etc/passwd",
    "/tasks?file=/etc/passwd",
    "http://169.254.169.254/latest/meta-data",
    "*",
]
SECRET = "a secret outside of the run"


def s6(seed: int, size: Size) -> Figure:
    """Paths that lead out of the service; no route has a path of files."""
    del seed, size
    with world(shared()) as here:
        run = here.finished()
        for place in (here.folder / "secret.txt", run / "secret.txt"):
            place.write_text(SECRET)
        (run / "link").symlink_to(here.folder)
        paths = [*PATHS, f"/{here.folder}/secret.txt", "/secret.txt", "/link/secret.txt"]
        with served(here.commands, run, env=here.env) as service:
            known = {answer.body for answer in asyncio.run(_on_paths(service, ["/", "/tasks"]))}
            answers = asyncio.run(_on_paths(service, paths))
        inside = [SECRET.encode(), Path("/etc/passwd").read_bytes()[:20], b"sharing"]
    held = sum(_gives_nothing(answer, inside, known) for answer in answers)
    claim = "paths that lead to files: not one byte of any, 4xx"
    return Figure("S6", claim, len(answers), held)


def _gives_nothing(answer: Answer, inside: list[bytes], known: set[bytes]) -> bool:
    """A query or a fragment changes nothing in the answer of a ``known`` path."""
    clean = not any(secret in answer.body for secret in inside)
    return clean and (answer.status in REFUSING or answer.body in known)


async def _on_paths(service: Served, paths: list[str]) -> list[Answer]:
    found = []
    for path in paths:
        for method in ("GET", "POST"):
            async with Connection(service.url) as connection:
                raw = path.encode("utf-8").decode("latin-1")
                found.append(await connection.ask(method, raw, b"{}" if method == "POST" else b""))
    return found


def s9(seed: int, size: Size) -> Figure:
    """Pages of other sites that try to ask through a browser, and wrong tokens."""
    del seed, size
    token = "correct-horse"
    env = {"COTRUNK_TOKEN": token}
    with world(shared()) as here:
        run = here.finished()
        with served(here.commands, run, env=here.env) as service:
            checks = asyncio.run(_foreign(service))
        with served(here.commands, run, env=here.env | env) as service:
            checks += asyncio.run(_tokens(service, token))
    claim = "another Host or Origin, a simple form, a wrong token: refused; safe headers"
    return Figure("S9", claim, len(checks), sum(checks))


async def _foreign(service: Served) -> list[bool]:
    asked = {"inputs": [{"text": "a"}]}
    port = service.url.rpartition(":")[2]
    refused: list[Callable[[Connection], Awaitable[Answer]]] = [
        lambda c, host=host: c.post("/predict", asked, host=host)  # type: ignore[misc]
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example#127.0.0.1",
            "127.0.0.1@evil.example",
            "10.0.0.1",
            "[::2]",
            "2130706433.example",
            "\x7f",
            "",
        )
    ]
    refused += [
        lambda c, origin=origin: c.post("/predict", asked, origin=origin)  # type: ignore[misc]
        for origin in (
            "http://evil.example",
            "null",
            "file://",
            f"http://127.0.0.1:{int(port) + 1}",
        )
    ]
    refused += [
        lambda c, kind=kind: c.post("/predict", asked, content_type=kind)  # type: ignore[misc]
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "")
    ]
    allowed: list[Callable[[Connection], Awaitable[Answer]]] = [
        lambda c: c.post("/predict", asked),
        lambda c: c.post("/predict", asked, host="localhost"),
        lambda c: c.post("/predict", asked, origin=service.url),
        lambda c: c.get("/tasks", host=f"localhost:{port}"),
    ]
    checks = []
    for ask in refused:
        async with Connection(service.url) as connection:
            answer = await ask(connection)
        checks.append(answer.status in (400, 403, 415) and answer.is_told)
    for ask in allowed:
        async with Connection(service.url) as connection:
            answer = await ask(connection)
        headers = answer.headers
        safe = "default-src 'none'" in headers["content-security-policy"]
        safe = safe and "access-control-allow-origin" not in headers
        checks.append(answer.status == 200 and safe)
    return checks


async def _tokens(service: Served, token: str) -> list[bool]:
    async with Connection(service.url) as connection:
        asked = {"inputs": [{"text": "a"}]}
        given = ["", "Bearer", "Bearer ", f"Bearer {token}x", f"Basic {token}", token]
        refused = [await connection.post("/predict", asked, authorization=each) for each in given]
        refused += [await connection.get(path) for path in ("/tasks", "/metrics", "/openapi.json")]
        right = await connection.post("/predict", asked, authorization=f"Bearer {token}")
        health = [await connection.get(path) for path in ("/healthz", "/readyz")]
    checks = [
        answer.status == 401 and answer.is_told and token.encode() not in answer.body
        for answer in refused
    ]
    # 503: it is still warming up.
    return [*checks, right.status == 200, *(answer.status in (200, 503) for answer in health)]
