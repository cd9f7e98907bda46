"""What the service answers: the objects of ``predict``, whatever else it is asked meanwhile."""

import asyncio
import json
import math
import random
import time

import numpy as np
import pytest

from cotrunk.cli.main import main
from cotrunk.data.tokens.workers import cores
from cotrunk.serve.lanes import lanes_of
from toy import WORDS


def close(one, other):
    """Equal, with numbers as close as sums in another order are."""
    if isinstance(one, float):
        return math.isclose(one, other, abs_tol=1e-5)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == other


@pytest.fixture(scope="module")
def offline(run, tmp_path_factory):
    """Inputs, and for each the answers of the command, which reads columns of the training data."""
    draw, folder = random.Random(1), tmp_path_factory.mktemp("offline")

    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 60)))

    given = [{"text": text()} | ({"pair": text()} if n % 2 else {}) for n in range(40)]
    rows = [
        {"sentence": one["text"], "tokens": one["text"].split()}
        | ({"left": one["text"], "right": one["pair"]} if "pair" in one else {})
        for one in given
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["predict", str(run), str(folder / "in.jsonl"), "-o", str(folder / "o.jsonl")]) == 0
    answers = [json.loads(line) for line in (folder / "o.jsonl").read_text().splitlines()]
    for answer in answers:
        del answer["id"]
    return list(zip(given, answers, strict=True))


@pytest.mark.slow
def test_answers_to_many_requests_at_once_are_those_of_predict(asking, offline):
    draw, every = random.Random(2), ["mood", "same", "alike", "words"]

    async def one(client):
        chosen = draw.choices(offline, k=draw.randint(1, 4))
        tasks = draw.choice([None, ["mood"], ["words", "mood"], every])
        if tasks is every:
            chosen = [pair for pair in chosen if "pair" in pair[0]] or offline[1:2]
        asked = {"inputs": [given for given, _ in chosen]} | ({"tasks": tasks} if tasks else {})
        found = (await client.post("/predict", json=asked)).raise_for_status().json()["outputs"]
        expected = [{t: a for t, a in row.items() if t in (tasks or row)} for _, row in chosen]
        assert close(found, expected)
        assert all(list(row) == [task for task in every if task in row] for row in found)

    async def all_at_once(client):
        await asyncio.gather(*(one(client) for _ in range(120)))

    asking.run(all_at_once)
    metrics = asking.get("/metrics").text
    rows, batches = (
        float(next(line for line in metrics.splitlines() if line.startswith(name)).split()[1])
        for name in ("cotrunk_rows_total", "cotrunk_batch_tokens_count")
    )
    assert batches < rows / 3


def test_the_metrics_are_those_of_both_runs(make):
    asking = make(runs=2)
    for path in ("/predict", "/other/predict"):
        asking.post(path, {"inputs": [{"text": "tea"}], "tasks": ["mood"]})
    until = time.monotonic() + 30
    while "cotrunk_rows_total 2.0" not in asking.get("/metrics").text.splitlines():
        assert time.monotonic() < until  # rows are counted after they were answered
    for service, tokens in zip(asking.services, (3, 4), strict=True):
        service.queue.tokens = tokens
    assert "cotrunk_waiting_tokens 7.0" in asking.get("/metrics").text.splitlines()
    for service in asking.services:
        service.queue.tokens = 0


def test_a_task_that_reads_one_text_reads_the_first_of_a_pair(asking):
    both = asking.post("/predict", {"inputs": [{"text": "a", "pair": "b"}], "tasks": ["mood"]})
    one = asking.post("/predict", {"inputs": [{"text": "a"}], "tasks": ["mood"]})
    assert close(both.json(), one.json())


def test_words_may_be_a_list_or_a_text_to_split(asking):
    asked = [{"text": ["good", "river"]}, {"text": "good river"}]
    found = asking.post("/predict", {"inputs": asked, "tasks": ["words"]}).json()["outputs"]
    assert close(found[0], found[1])
    assert len(found[0]["words"]["prediction"]) == 2
    default = asking.post("/predict", {"inputs": asked[:1]}).json()["outputs"]
    assert list(default[0]) == ["words"]


def test_words_without_a_token_harm_nobody(asking, model):
    asked = [{"text": ["\x07"]}, {"text": ["tea", "\x01"]}, {"text": ["tea"] * 300}]
    alone = [asking.post("/predict", {"inputs": [one], "tasks": ["words"]}).json() for one in asked]
    found = asking.post("/predict", {"inputs": asked, "tasks": ["words"]}).json()["outputs"]
    assert [one["outputs"][0] for one in alone] == found
    assert [len(row["words"]["prediction"]) for row in found] == [1, 2, 300]
    for one, row in zip(asked, found, strict=True):
        assert model.predict("words", [one["text"]])[0].prediction == row["words"]["prediction"]


def test_vectors_are_those_of_embed(asking, model):
    texts = ["a good river", "tea", "slow " * 90]
    for task in ("mood", "same"):
        asked = {"inputs": [{"text": text} for text in texts], "task": task}
        found = asking.post("/embed", asked).json()["outputs"]
        np.testing.assert_allclose(found, model.embed(texts, task=task), atol=1e-5)


def test_tasks_with_layers_in_common_share_a_lane(model):
    lanes = lanes_of(model.model)
    assert lanes["same"] == lanes["alike"]
    assert not lanes["same"].same_encoder  # the toy's last layer is owned by each task
    assert [lane.words for lane in lanes.values()] == [False, False, False, True]


def test_shared_layers_are_computed_once_for_all_tasks_that_are_asked(make):
    asking = make(threads=1)
    asking.post("/predict", {"inputs": [{"text": "tea"}]})  # the thread has warmed up
    network, passed = asking.service.engine.model.model.network, []
    for place, owned in network.places():
        if place.acts == "layer":
            for copy in owned.values():
                copy.register_forward_hook(lambda *_, name=place.name: passed.append(name))
    pair = {"text": "a good river", "pair": "tea"}
    found = asking.post("/predict", {"inputs": [pair], "tasks": ["same", "alike"]}).json()
    assert list(found["outputs"][0]) == ["same", "alike"]
    assert sorted(passed) == ["layers.0", "layers.1", "layers.1"]


def test_the_tasks_are_told_with_what_they_read(asking):
    told = asking.get("/tasks").json()
    assert {task["name"]: task["reads"] for task in told["tasks"]} == {
        "mood": "text",
        "same": "pair",
        "alike": "pair",
        "words": "words",
    }
    assert told["tasks"][3]["outputs"] == ["O", "B-THING"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_service_that_runs_is_healthy_and_ready(asking, path):
    asking.service.wait_until_warm()
    assert asking.get(path).json() == {"status": "ok"}


def test_a_service_that_shuts_down_is_healthy_and_not_ready(make):
    asking = make()
    asking.service.stop()
    assert asking.get("/healthz").status_code == 200
    assert asking.get("/readyz").status_code == 503


def test_a_second_service_has_as_many_threads_as_the_first(make):
    assert [make(threads=None).service.threads for _ in range(2)] == [cores()] * 2
