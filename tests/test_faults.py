"""Every line of ``make faults`` in its quick size."""

import pytest

from faults.lines import ALL


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_the_line_holds(name):
    figure = ALL[name](0, "quick")
    assert figure.name == name
    assert figure.holds, figure
