"""Soft sharing: what the penalty is, and where it pulls."""

import pytest
import torch

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.task import Task
from cotrunk.learn.soft import soft_penalty, trace_norm
from cotrunk.model.encoder.shape import named
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.initial import initialise

NAMES = ["a", "b", "c"]
SHAPE = named("tiny", "test")


def network(encoder: str, *, neck: str = "", apart: bool = True) -> Network:
    tasks = [Task(name, 1, Binary()) for name in NAMES]
    heads = {name: HeadPlan() for name in NAMES}
    trunk = trunk_places(NAMES, SHAPE, encoder=encoder, neck=neck)
    made = Network(SHAPE, make_plan(trunk, SHAPE, tasks, heads), tasks, heads).double()
    initialise(made, {}, seed=1)
    if apart:
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
    return made


def penalty(made: Network, *, l2: float = 0.0, trace: float = 0.0) -> torch.Tensor:
    return soft_penalty(made, l2=l2, trace=trace)


def test_l2_is_the_squared_distance_of_every_copy_to_their_mean():
    made = network("S I", neck="(b+c)")
    expected = 0.0
    for owned in (made.owned["layers.1"], made.owned["neck.0"]):
        copies = [torch.cat([p.flatten() for p in copy.parameters()]) for copy in owned.values()]
        mean = torch.stack(copies).mean(0)
        expected += sum((copy - mean).square().sum() for copy in copies)
    torch.testing.assert_close(penalty(made, l2=0.5), 0.5 * expected)


def test_two_copies_pay_half_their_squared_distance():
    made = network("S2", neck="(b+c)")
    one, other = (
        torch.cat([p.flatten() for p in copy.parameters()])
        for copy in made.owned["neck.0"].values()
    )
    torch.testing.assert_close(penalty(made, l2=1.0), (one - other).square().sum() / 2)


def test_the_trace_norm_is_the_sum_of_singular_values():
    rows = torch.randn(3, 40, dtype=torch.float64)
    torch.testing.assert_close(trace_norm(rows), torch.linalg.matrix_norm(rows, ord="nuc"))


def slope_of_trace_norm(rows: torch.Tensor) -> torch.Tensor:
    rows = rows.clone().requires_grad_()
    trace_norm(rows).backward()
    return rows.grad


def apart_by(gap: float, *, copies: int, size: int, centre: float = 0.0) -> torch.Tensor:
    """Copies of one float32 parameter, each ``gap`` away from a common start."""
    random = torch.Generator().manual_seed(size)
    start = centre + 0.1 * torch.randn(1, size, generator=random)
    return start + gap * torch.randn(copies, size, generator=random)


@pytest.mark.parametrize("centre", [0.0, 1.0], ids=["weights", "norms"])
@pytest.mark.parametrize("copies", [2, 3, 5])
@pytest.mark.parametrize("size", [8, 300, 40_000])
def test_the_slope_of_the_trace_norm_is_exact_while_copies_are_close(size, copies, centre):
    """Against the singular vectors in float64: the slope of the sum of singular values is U V'."""
    rows = apart_by(1e-4, copies=copies, size=size, centre=centre)
    u, sigma, vt = torch.linalg.svd(rows.double(), full_matrices=False)
    found = slope_of_trace_norm(rows)
    assert found.dtype == rows.dtype
    assert (found.double() - u @ vt).norm() <= 1e-6 * (u @ vt).norm()
    assert trace_norm(rows).item() == pytest.approx(sigma.sum().item(), rel=1e-6)


@pytest.mark.parametrize("copies", [2, 3, 5])
@pytest.mark.parametrize("size", [1, 8, 300, 40_000])
def test_equal_copies_get_the_least_subgradient_of_the_trace_norm(size, copies):
    """One singular value, with the copies' own direction; the directions of value 0 add nothing."""
    row = apart_by(0.0, copies=1, size=size, centre=1.0)
    expected = (row / row.norm()).expand(copies, -1) / copies**0.5
    torch.testing.assert_close(slope_of_trace_norm(row.repeat(copies, 1)), expected)


def test_two_equal_copies_and_a_third_have_a_finite_slope():
    rows = apart_by(1e-4, copies=2, size=300)[[0, 0, 1]]
    u, sigma, vt = torch.linalg.svd(rows.double(), full_matrices=False)
    assert sigma[2] < 1e-12 * sigma[0]
    expected = (u[:, :2] @ vt[:2]).float()
    torch.testing.assert_close(slope_of_trace_norm(rows), expected, rtol=0, atol=1e-6)


def test_copies_that_are_all_zero_have_no_slope():
    """As biases are when a run starts."""
    assert not slope_of_trace_norm(torch.zeros(3, 40)).any()
    assert trace_norm(torch.zeros(3, 40)) == 0


def test_the_trace_norm_is_least_when_copies_are_equal():
    row = torch.randn(1, 40, dtype=torch.float64)
    equal = row.repeat(3, 1)
    other = torch.randn(3, 40, dtype=torch.float64)
    other *= equal.norm() / other.norm()
    assert trace_norm(equal) < trace_norm(other)


@pytest.mark.parametrize("kind", ["l2", "trace"])
def test_equal_copies_are_not_pulled_apart(kind):
    made = network("I2", apart=False).float()
    penalty(made, **{kind: 1.0}).backward()
    for owned in (made.owned[name] for name in ("embeddings", "layers.0", "layers.1")):
        names = [name for name, _ in owned["a"].named_parameters()]
        for name in names:
            grads = [owned[task].get_parameter(name).grad for task in NAMES]
            assert all(torch.isfinite(grad).all() for grad in grads)
            spread = torch.stack([grad - grads[0] for grad in grads]).abs().max()
            assert spread <= 1e-3 * max(1.0, grads[0].abs().max().item())


@pytest.mark.parametrize("kind", ["l2", "trace"])
def test_descent_on_the_penalty_brings_copies_together(kind):
    made = network("S I")
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    before = penalty(made, l2=1.0).item()
    for _ in range(10):
        optimizer.zero_grad()
        penalty(made, **{kind: 1.0}).backward()
        optimizer.step()
    assert penalty(made, l2=1.0).item() < 0.9 * before


def test_heads_and_shared_modules_are_left_alone():
    made = network("S I")
    penalty(made, l2=1.0, trace=1.0).backward()
    moved = {name.split(".")[0] for name, p in made.named_parameters() if p.grad is not None}
    assert moved == {"layers"}
    assert all(p.grad is None for p in made.layers["0"].parameters())


@pytest.mark.parametrize("encoder", ["S2", "I2"])
def test_a_penalty_on_nothing_that_learns_is_no_error(encoder):
    """All shared, or all copies frozen in this stage."""
    made = network(encoder)
    made.requires_grad_(False)
    found = penalty(made, l2=1.0, trace=1.0)
    found.backward()
    assert (found.item() == 0) == (encoder == "S2")
