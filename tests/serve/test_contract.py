"""The OpenAPI document is about this run. That the service keeps to it is line S5 of ``faults``."""

import json
from pathlib import Path


def test_requests_name_the_tasks_and_what_they_read(asking):
    document = asking.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    choices = schemas["PredictRequest"]["anyOf"]
    named = [choice["properties"]["tasks"].get("items", {}).get("enum") for choice in choices]
    assert named == [None, ["mood", "words"], ["mood", "same", "alike", "words"], ["words"]]
    assert "task" in schemas["EmbedRequest"]["required"]


def test_the_other_run_describes_its_tasks_too(make):
    asking = make(runs=2)
    assert asking.get("/other/tasks").json() == asking.get("/tasks").json()
    assert 'path="/other/tasks",status="200"' in asking.get("/metrics").text


def test_all_that_can_be_refused_is_documented(asking):
    document = asking.get("/openapi.json").json()
    predict = document["paths"]["/predict"]["post"]["responses"]
    assert predict.keys() >= {"200", "400", "401", "403", "408", "413", "415", "422", "429", "503"}


def test_no_file_of_this_machine_is_named(asking, run):
    """Neither in the document nor in what is told about the run."""
    for path in ("/openapi.json", "/tasks"):
        assert str(Path(run).parent) not in json.dumps(asking.get(path).json())
