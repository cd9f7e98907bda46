"""The outputs of several networks as those of one."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags

NAMES = ("a", "b", "c")
KINDS = {
    "classes": Classes(classes=NAMES),
    "binary": Binary(),
    "multilabel": Multilabel(classes=NAMES),
    "score": Scores(),
    "tags": Tags(classes=NAMES, scheme="plain"),
}


def drawn(kind, networks=3, units=20):
    random = np.random.default_rng(0)
    return [
        4 * random.standard_normal((units, kind.outputs)).astype(np.float32)
        for _ in range(networks)
    ]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_probabilities_of_the_average_are_the_average_of_the_probabilities(kind):
    outputs = drawn(kind)
    each = [kind.probabilities(torch.from_numpy(output).double()) for output in outputs]
    found = kind.probabilities(torch.from_numpy(kind.averaged(outputs)))
    assert_allclose(found, torch.stack(each).mean(0), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_networks_that_agree_are_their_average(kind):
    (output,) = drawn(kind, networks=1)
    found = kind.averaged([output, output])
    assert np.array_equal(kind.predict_labels(found), kind.predict_labels(output.astype(float)))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_unit_that_one_network_cannot_see_is_left_to_the_others(kind):
    one, other, third = drawn(kind)
    other[3] = np.nan
    one[5] = other[5] = third[5] = np.nan
    found = kind.averaged([one, other, third])
    assert_allclose(found[3], kind.averaged([one, third])[3])
    assert np.isnan(found[5]).all()
    assert np.isfinite(np.delete(found, 5, axis=0)).all()


@pytest.mark.parametrize("name", ["classes", "binary", "multilabel"])
def test_the_average_of_certain_networks_is_finite(name):
    kind = KINDS[name]
    sure = np.full((1, kind.outputs), -1e4)
    sure[0, 0] = 1e4
    assert np.isfinite(kind.averaged([sure, sure])).all()
    assert np.isfinite(kind.averaged([sure, -sure])).all()
