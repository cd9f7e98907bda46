"""What is refused: by whom it is asked, how much, and what cannot be."""

import asyncio
import json
from typing import Annotated

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import AfterValidator

from cotrunk.serve.guard import Rules
from cotrunk.serve.page.playground import SHELL
from cotrunk.serve.problems import add_problems
from faults.hostile_requests import PATHS, bad_documents

ASKED = {"inputs": [{"text": "a good plot"}]}
OF_OTHER_RUNS = {"a pair nobody reads"}


def fields(response: httpx2.Response) -> list[str]:
    return [one["field"] for one in response.json()["detail"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(bad_documents().keys() - OF_OTHER_RUNS))
def test_a_bad_document_is_refused_by_field(asking, name):
    body, field = bad_documents()[name]
    headers = {"content-type": "application/json"}
    found = asking.run(lambda client: client.post("/predict", content=body, headers=headers))
    assert 400 <= found.status_code < 500
    assert field in fields(found)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tasks": ["same"]}, "inputs[0].pair"),
        ({"tasks": ["mood", "moood"]}, "tasks[1]"),
        ({"inputs": [{"text": ["a"]}], "tasks": ["mood"]}, "inputs[0].text"),
        ({"inputs": [{"text": ["a"], "pair": "b"}]}, "inputs[0].pair"),
        ({"inputs": [{"text": "a"}, {"text": "b", "pair": ""}]}, "inputs[1].pair"),
        ({"inputs": [{"text": []}]}, "inputs[0].text"),
        ({"inputs": [{"text": ["a", "\0"]}]}, "inputs[0].text[1]"),
    ],
)
def test_what_the_tasks_cannot_read_is_refused_by_field(asking, changes, field):
    found = asking.post("/predict", ASKED | changes)
    assert found.status_code == 422
    assert fields(found) == [field]


def test_an_encoder_must_be_named_where_tasks_do_not_share_one(asking):
    for task, word in (({}, "share"), ({"task": "words"}, "words"), ({"task": "x"}, "not a task")):
        found = asking.post("/embed", ASKED | task)
        assert (found.status_code, fields(found)) == (422, ["task"])
        assert word in found.text


def test_a_body_that_grows_too_large_is_refused_before_its_end(make):
    asking, sent = make(rules=Rules(max_body=1000)), []

    async def endless():
        while True:
            sent.append(100)
            yield b" " * 100

    headers = {"content-type": "application/json"}
    found = asking.run(lambda client: client.post("/predict", content=endless(), headers=headers))
    assert (found.status_code, fields(found)) == (413, ["body"])


def test_a_head_of_ten_thousand_headers_is_refused(asking):
    found = asking.get("/tasks", **{f"x-{number}": str(number) for number in range(10_000)})
    assert found.status_code == 431


def test_a_body_that_comes_too_slowly_is_refused(make):
    asking = make(rules=Rules(body_seconds=0.05))

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    headers = {"content-type": "application/json"}
    found = asking.run(lambda client: client.post("/predict", content=slow(), headers=headers))
    assert (found.status_code, fields(found)) == (408, ["body"])


@pytest.mark.parametrize(
    ("rules", "host", "status"),
    [
        (Rules(), "localhost:8000", 200),
        (Rules(), "127.0.0.2", 200),
        (Rules(), "[::1]:8000", 200),
        (Rules(), "evil.example", 403),
        (Rules(), "localhost@evil.example", 403),
        (Rules(), "evil.example:80:80", 403),
        (Rules(), "10.0.0.1", 403),
        (Rules(any_address=True), "10.0.0.1", 200),
        (Rules(any_address=True), "evil.example", 403),
        (Rules(hosts={"models.example"}), "Models.Example:8000", 200),
    ],
)
def test_only_names_of_the_service_are_answered(make, rules, host, status):
    found = make(rules=rules).post("/predict", ASKED, host=host)
    assert found.status_code == status
    assert status == 200 or fields(found) == ["Host"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("http://127.0.0.1:8001", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("http://", 403),
    ],
)
def test_pages_of_other_origins_are_refused(asking, origin, status):
    assert asking.post("/predict", ASKED, origin=origin).status_code == status


@pytest.mark.parametrize("path", ["/predict", "/other/predict", "/other/embed"])
def test_a_form_of_another_page_is_refused(make, path):
    asking = make(runs=2)
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        content, headers = json.dumps(ASKED), {"content-type": kind}
        found = asking.run(
            lambda client, c=content, h=headers: client.post(path, content=c, headers=h)
        )
        assert (found.status_code, fields(found)) == (415, ["Content-Type"])


def test_a_token_is_asked_for_but_not_for_health(make):
    asking = make(rules=Rules(token="secret"))
    for given in ("", "Bearer ", "Bearer secre", "Bearer secrett", "secret", "Basic secret"):
        found = asking.post("/predict", ASKED, authorization=given)
        assert (found.status_code, fields(found)) == (401, ["Authorization"])
        assert found.headers["www-authenticate"] == "Bearer"
    assert asking.post("/predict", ASKED, authorization="Bearer secret").status_code == 200
    assert asking.get("/metrics").status_code == 401
    assert asking.get("/healthz").status_code == 200


def test_the_scheme_of_a_token_is_read_in_any_case(make):
    asking = make(rules=Rules(token="secret"))
    for given in ("bearer secret", "BEARER secret", "Bearer  secret"):
        assert asking.post("/predict", ASKED, authorization=given).status_code == 200


@pytest.mark.parametrize(
    ("given", "why"), [("", "is needed"), ("Basic x", "is needed"), ("Bearer x", "is wrong")]
)
def test_a_wrong_token_is_told_apart_from_a_missing_one(make, given, why):
    found = make(rules=Rules(token="secret")).post("/predict", ASKED, authorization=given)
    assert why in found.json()["detail"][0]["message"]


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"content-encoding": "gzip"}, "Content-Encoding"),
        ({"content-type": "application/json; charset=latin-1"}, "Content-Type"),
        ({"content-type": 'application/json; a=b; Charset="UTF-16"'}, "Content-Type"),
    ],
)
def test_a_body_must_be_utf8_and_not_compressed(asking, headers, field):
    found = asking.post("/predict", ASKED, **headers)
    assert (found.status_code, fields(found)) == (415, [field])


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF8"']
)
def test_the_charset_may_be_said_to_be_utf8(asking, kind):
    found = asking.post("/predict", ASKED, **{"content-type": kind, "content-encoding": "identity"})
    assert found.status_code == 200


def test_a_byte_order_mark_is_named(asking):
    body, headers = json.dumps(ASKED).encode("utf-8-sig"), {"content-type": "application/json"}
    found = asking.run(lambda client: client.post("/predict", content=body, headers=headers))
    assert (found.status_code, fields(found)) == (422, ["body"])
    assert "byte order mark" in found.text


def test_a_list_of_words_to_embed_is_refused_for_its_task_first(asking):
    told = {
        asking.post("/embed", {"inputs": [{"text": text}], "task": "words"}).text
        for text in ("a river", ["a", "river"])
    }
    assert len(told) == 1
    found = asking.post("/embed", {"inputs": [{"text": ["a"]}], "task": "mood"})
    assert (found.status_code, fields(found)) == (422, ["inputs[0].text"])


def test_only_tasks_that_can_embed_are_proposed(asking):
    found = asking.post("/embed", ASKED | {"task": "x"})
    assert "tasks are mood, same, alike" in found.text
    assert "words" not in found.text


@pytest.mark.slow
def test_the_files_of_a_page_need_no_token_but_its_data_do(make):
    asking = make(rules=Rules(token="secret"), runs=2)
    assert {asking.get(path).status_code for path in SHELL} == {200}
    assert asking.run(lambda client: client.head("/")).status_code == 200
    assert asking.get("/playground.json").status_code == 401


@pytest.mark.parametrize("path", PATHS[:-2])
def test_no_path_leads_to_a_file(asking, path):
    found = asking.get(path.replace("\u2215", "%E2%88%95"))
    assert found.status_code == 404 or "/tasks" in path
    assert "root:" not in found.text


def test_responses_forbid_everything_to_a_browser(asking):
    headers = asking.get("/tasks").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize(("path", "asked"), [("/predict", 0), ("/other/predict", 1)])
def test_a_full_queue_is_told_before_the_body_is_read(make, path, asked):
    asking = make(queue_tokens=1, runs=2)
    queue = asking.services[asked].queue
    queue.tokens = 2  # as if others waited
    read = []

    async def body():
        read.append(1)
        yield b"{}"

    headers = {"content-type": "application/json"}
    found = asking.run(lambda client: client.post(path, content=body(), headers=headers))
    queue.tokens = 0
    assert found.status_code == 429
    assert int(found.headers["retry-after"]) >= 1


def test_a_request_that_is_not_answered_in_time_is_told_so_and_forgotten(make):
    asking = make(deadline=0.0)
    found = asking.post("/predict", ASKED)
    assert found.status_code == 503
    assert int(found.headers["retry-after"]) >= 1
    assert asking.service.queue.tokens == 0


@pytest.mark.parametrize("path", ["/predict/", "/embed/"])
def test_a_slash_at_the_end_is_another_path(asking, path):
    found = asking.post(path, ASKED)
    assert (found.status_code, fields(found)) == (404, [None])


def test_unknown_paths_and_methods_are_told_as_json(asking):
    assert asking.get("/nothing").json()["detail"][0]["message"] == "Not Found"
    assert asking.get("/predict").status_code == 405
    assert asking.get("/docs").status_code == 404


def test_text_of_pydantic_with_braces_in_it_is_told_as_it_is():
    app = FastAPI()
    add_problems(app)

    @app.get("/")
    async def found(path: Annotated[str, AfterValidator(_refuse)]) -> str:
        return path

    async def ask():
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/?path={x}")

    response = asyncio.run(ask())
    assert (response.status_code, fields(response)) == (422, ["path"])
    assert "{x} is not a path" in response.text


def _refuse(given: str) -> str:
    raise ValueError(f"{given} is not a path")
