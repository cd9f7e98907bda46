"""What a kind tells other programs about its outputs."""

import pytest
import torch

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags

KINDS = [
    Classes(("bad", "good")),
    Binary(),
    Scores(range=(0.0, 5.0)),
    Multilabel(("a", "b", "c")),
    Tags(("O", "B-X", "I-X")),
]
FUNCTIONS = {"softmax": lambda x: x.softmax(-1), "sigmoid": torch.sigmoid, "none": lambda x: x}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_the_named_function_gives_the_probabilities_and_every_output_has_a_name(kind):
    x = torch.randn(4, kind.outputs)
    assert torch.equal(FUNCTIONS[kind.activation](x), kind.probabilities(x))
    assert len(set(kind.output_names)) == kind.outputs
