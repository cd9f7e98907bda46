"""Linear layers by numpy: what torch gives, forward and backward."""

import warnings

import pytest
import torch
from torch.testing import assert_close

from cotrunk.infer.threads import threads_per_operation
from cotrunk.model.encoder import linear
from cotrunk.model.encoder.linear import Linear


@pytest.fixture
def by_numpy(monkeypatch):
    monkeypatch.setattr(linear, "BY_NUMPY", True)
    used = []
    times = linear._times
    monkeypatch.setattr(linear, "_times", lambda *both: used.append(1) or times(*both))
    with threads_per_operation(1):
        yield used


def both(x, layer):
    """Outputs and gradients of ours, and of torch's own layer."""
    found = []
    for call in (layer, lambda x: torch.nn.functional.linear(x, layer.weight, layer.bias)):
        layer.zero_grad()
        mine = x.clone().requires_grad_()
        out = call(mine)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        grads = [p.grad.clone() for p in layer.parameters()]
        found.append([out.detach(), mine.grad, *grads])
    return found


@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_torch(by_numpy, bias):
    torch.manual_seed(0)
    ours, theirs = both(torch.randn(300, 48), Linear(48, 32, bias=bias))
    assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert len(by_numpy) == 3


def test_only_what_is_asked_for_is_multiplied(by_numpy):
    layer = Linear(16, 8)
    layer.weight.requires_grad_(False)
    x = torch.randn(100, 16, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert_close(x.grad, layer.weight.sum(0).expand(100, 16))
    assert len(by_numpy) == 2


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 16),
        torch.randn(100, 16, dtype=torch.float64),
        torch.randn(16, 100).T,
        torch.randn(100, 4, 16),
    ],
    ids=["few tokens", "double", "not contiguous", "three axes"],
)
def test_what_numpy_is_not_for_goes_through_torch(by_numpy, x):
    layer = Linear(16, 8).to(x.dtype)
    assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
    assert not by_numpy


def test_operations_of_several_threads_go_through_torch(by_numpy):
    with threads_per_operation(2):
        Linear(16, 8)(torch.randn(100, 16))
    assert not by_numpy


def test_what_is_not_finite_is_passed_on_without_a_warning(by_numpy):
    layer = Linear(16, 8)
    x = torch.full((100, 16), 3e38)
    x[0, 0] = torch.inf
    x.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = layer(x * 10)
        out.sum().backward()
    assert not out.isfinite().any()
    assert by_numpy
