"""Every scheme on three families of encoders, in every format: equal outputs, or a refusal."""

import pytest
from shipping import TASKS, exported, needs_peers, untrained

from cotrunk.errors import UserError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of guards, and of other libraries
    needs_peers,
]
FORMATS = ("transformers", "sentence-transformers")
PLANS = {"minilm": ("S6", "S3 I3"), "random:tiny-roberta": ("S2", "S1 I1")}
PLANS["random:tiny-distilbert"] = PLANS["random:tiny-roberta"]
"""All layers shared, and half of them."""
READS = ['tasks.same.reads=["mood"]', 'tasks.alike.reads=["mood", "same"]']
SCHEMES = {
    "1-bert": (0, []),
    "hybrid": (1, []),
    "lora": (0, ["sharing.lora.who=I"]),
    "pals": (0, ["sharing.pal.size=24", "sharing.pal.heads=2"]),
    "progressive": (0, READS),
}


@pytest.mark.parametrize("weights", PLANS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("first_token", [True, False])
def test_an_export_equals_the_run_or_is_refused(pooled_run, tmp_path, weights, scheme, first_token):
    plan, changes = SCHEMES[scheme]
    first = "cls" if weights.endswith("distilbert") else "pooler"
    pooling = first if first_token else "mean"
    settings = [f"sharing.encoder={PLANS[weights][plan]}", f"encoder.pooling={pooling}", *changes]
    if weights.endswith("distilbert"):  # the head that its class has
        settings += [f"tasks.{task}.head={{depth=2, width=32}}" for task in TASKS[:3]]
    config = pooled_run.with_name("toy.toml")
    model = untrained(config, f"encoder.weights={weights}", *settings)
    exported(model, pooled_run, "onnx", TASKS, tmp_path / "onnx")
    opened = [
        (to, task)
        for to in FORMATS
        for task in TASKS
        if _opens(model, pooled_run, to, task, tmp_path)
    ]
    if scheme in ("1-bert", "hybrid", "lora"):
        assert ("transformers", "names") in opened
        assert (("transformers", "mood") in opened) == first_token
        assert ("sentence-transformers", "mood") in opened
    if scheme == "pals":
        assert not opened


def _opens(model, run, to, task, folder):
    """Whether the other library can hold the task; if so, its outputs have been compared."""
    try:
        exported(model, run, to, [task], folder / f"{to}-{task}")
    except UserError as error:
        (line,) = error.lines
        assert line.startswith(f"task {task}: ")
        assert "--to onnx" in line
        return False
    return True
