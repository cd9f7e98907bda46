"""Exports equal the run in the library they are for, or are refused by name."""

from pathlib import Path

import pytest
from shipping import TASKS, stirred, train, write_world

from cotrunk.errors import UserError
from cotrunk.export.check import TOLERANCE
from cotrunk.export.export import Request, export

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

POOLER = 'encoder.pooling="pooler"'
SCHEMES = {
    "1-bert": ["sharing.encoder=S2"],
    "hybrid": ["sharing.encoder=S1 I1"],
    "hybrid, pooler": ["sharing.encoder=S1 I1", POOLER],
    "lora": ["sharing.lora.who=I", "sharing.encoder=S2", POOLER],
    "pals": ["sharing.pal.size=8", "sharing.pal.heads=2", "sharing.encoder=S2"],
    "progressive": [
        "sharing.encoder=S2",
        'tasks.same.reads=["mood"]',
        'tasks.alike.reads=["mood", "same"]',
        'tasks.alike.reading.what="probabilities"',
    ],
    "neck": ["sharing.neck=S-I", 'sharing.pooled_norm="S"', 'encoder.pooling="max"'],
    "apart": [
        'tasks.same.pair="all"',
        'tasks.alike.pair="cosine"',
        "tasks.alike.head.projection=true",
        'tasks.mood.pooling="sum"',
    ],
    "apart, reading": [
        'tasks.same.pair="concat"',
        'tasks.alike.pair="difference"',
        'tasks.same.reads=["mood"]',
        'tasks.alike.reads=["mood", "same"]',
        'tasks.alike.reading.combine="attention"',
    ],
    "both orders": ["tasks.same.swap=true", "tasks.alike.segments=false"],
    "distilbert's head": [
        'encoder.pooling="cls"',
        *(f"tasks.{task}.head={{depth=2, width=32}}" for task in ("mood", "same", "alike")),
    ],
}


def exported(model, run: Path, to: str, tasks: list[str], folder: Path, *, int8: bool = False):
    found = export(model, Request(run, "best", to, tasks, folder, int8))
    assert [one.task for one in found] == tasks
    assert all(one.difference <= TOLERANCE and "dev row" in one.rows for one in found)
    return found


@pytest.mark.parametrize("family", ["tiny", "tiny-roberta", "tiny-distilbert"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_is_equal_in_every_format_or_refused(tmp_path, scheme, family):
    config = write_world(tmp_path)
    run = train(config, f"encoder.weights=random:{family}", *SCHEMES[scheme])
    model = stirred(run)
    exported(model, run, "onnx", TASKS, tmp_path / "onnx")
    for to in ("transformers", "sentence-transformers"):
        for task in TASKS:
            try:
                exported(model, run, to, [task], tmp_path / to / task)
                print(scheme, family, to, task, "OK")
            except UserError as error:
                print(scheme, family, to, task, error)
