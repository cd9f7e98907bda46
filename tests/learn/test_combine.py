import sys

import pytest
import torch
from torch.testing import assert_close

from cotrunk.errors import UserError
from cotrunk.learn.combine import COMBINERS, combiner

TORCHJD = {
    "upgrad": "UPGrad",
    "dualproj": "DualProj",
    "mgda": "MGDA",
    "cagrad": "CAGrad",
    "imtl-g": "IMTLG",
    "aligned-mtl": "AlignedMTL",
    "fairgrad": "FairGrad",
}
TORCHJD_ARGUMENTS = {"cagrad": (0.5,), "fairgrad": (1.0,)}
WITHOUT_CHANCE = sorted(set(COMBINERS) - {"pcgrad", "gradvac"})
SAME_DIRECTION_AT_ANY_SCALE = sorted(set(COMBINERS) - {"fairgrad", "nash-mtl"})


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def gradients(tasks, *, seed=0, size=20):
    return torch.randn(tasks, size, generator=random(seed), dtype=torch.float64)


def weigh(name, jacobian, *, state=None, seed=0, **options):
    gramian = jacobian @ jacobian.T
    return combiner(name, options)(gramian, random(seed), state or {})


def textbook_orders(tasks, generator):
    return [torch.randperm(tasks, generator=generator).tolist() for _ in range(tasks)]


def textbook_pcgrad(jacobian, orders):
    projected = jacobian.clone()
    for i, order in enumerate(orders):
        for j in order:
            if j != i and projected[i] @ jacobian[j] < 0:
                other = jacobian[j]
                projected[i] -= (projected[i] @ other) / (other @ other) * other
    return projected.sum(0)


def textbook_gradvac(jacobian, orders, target, beta):
    turned = jacobian.clone()
    for i, order in enumerate(orders):
        for j in order:
            if j == i:
                continue
            own, other = turned[i].norm(), jacobian[j].norm()
            phi = turned[i] @ jacobian[j] / (own * other)
            wanted = target[i, j].clone()
            if phi < wanted:
                step = own * (wanted * (1 - phi**2).sqrt() - phi * (1 - wanted**2).sqrt())
                turned[i] += step / (other * (1 - wanted**2).sqrt()) * jacobian[j]
            target[i, j] = (1 - beta) * wanted + beta * phi
    return turned.sum(0)


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_pcgrad_is_the_textbook_loop_on_flat_gradients(tasks):
    combine = combiner("pcgrad")
    for draw in range(200):
        jacobian = gradients(tasks, seed=draw, size=tasks + 1)
        expected = textbook_pcgrad(jacobian, textbook_orders(tasks, random(draw)))
        weights = combine(jacobian @ jacobian.T, random(draw), {}).weights
        assert_close(weights @ jacobian, expected, atol=1e-10, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_gradvac_is_the_textbook_loop_on_flat_gradients(tasks):
    combine, state = combiner("gradvac", {"beta": 0.3}), {}
    target = torch.zeros(tasks, tasks, dtype=torch.float64)
    for draw in range(200):
        jacobian = gradients(tasks, seed=draw, size=tasks + 1)
        orders = textbook_orders(tasks, random(draw))
        expected = textbook_gradvac(jacobian, orders, target, 0.3)
        combined = combine(jacobian @ jacobian.T, random(draw), state)
        state = combined.state
        assert_close(combined.weights @ jacobian, expected, atol=1e-8, rtol=1e-8)
        assert_close(state["target"], target, atol=1e-10, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 3, 5])
@pytest.mark.parametrize("name", TORCHJD)
def test_a_weighting_is_its_aggregator_on_the_whole_jacobian(name, tasks):
    from torchjd import aggregation

    aggregator = getattr(aggregation, TORCHJD[name])(*TORCHJD_ARGUMENTS.get(name, ()))
    for draw in range(10):
        jacobian = gradients(tasks, seed=draw)
        combined = weigh(name, jacobian)
        assert_close(combined.weights @ jacobian, aggregator(jacobian), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 3])
def test_mgda_finds_the_shortest_mixture(tasks):
    for draw in range(20):
        jacobian = gradients(tasks, seed=draw, size=tasks + 1)
        weights = weigh("mgda", jacobian).weights
        assert_close(weights.sum().item(), 1.0, atol=1e-6, rtol=0)
        mixtures = -torch.rand(20_000, tasks, generator=random(draw), dtype=torch.float64).log()
        mixtures /= mixtures.sum(1, keepdim=True)
        shortest = (mixtures @ jacobian).norm(dim=1).min()
        assert (weights @ jacobian).norm() <= 1.05 * shortest


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_imtl_g_goes_equally_far_along_every_gradient(tasks):
    for draw in range(20):
        jacobian = gradients(tasks, seed=draw)
        along = jacobian @ (weigh("imtl-g", jacobian).weights @ jacobian) / jacobian.norm(dim=1)
        assert_close(along, along.mean().expand_as(along), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["upgrad", "dualproj"])
def test_a_projection_onto_the_dual_cone_goes_against_no_gradient(name):
    for draw in range(20):
        jacobian = gradients(5, seed=draw, size=6)
        weights = weigh(name, jacobian).weights
        assert (jacobian @ (weights @ jacobian)).min() > -1e-2


def test_nash_mtl_is_its_aggregator_on_the_whole_jacobian():
    pytest.importorskip("ecos")
    from torchjd.aggregation import NashMTL

    for draw in range(5):
        jacobian = gradients(3, seed=draw)
        with pytest.warns(UserWarning, match="not DPP"):
            expected = NashMTL(n_tasks=3)(jacobian)
        assert_close(weigh("nash-mtl", jacobian).weights @ jacobian, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_nash_mtl_solves_the_bargaining_equation_at_any_scale(tasks, scale):
    for draw in range(50):
        jacobian = gradients(tasks, seed=draw) * torch.logspace(0, 2, tasks).double()[:, None]
        jacobian = jacobian * scale
        weights = weigh("nash-mtl", jacobian, max_norm=float("inf")).weights
        gains = weights * (jacobian @ jacobian.T @ weights)
        assert_close(gains, torch.ones_like(gains), atol=1e-4, rtol=0)


def test_nash_mtl_is_no_longer_than_the_maximal_norm():
    jacobian = gradients(3)
    assert_close((weigh("nash-mtl", jacobian, max_norm=0.5).weights @ jacobian).norm().item(), 0.5)


def test_fairgrad_with_fairness_1_is_nash_mtl_without_a_maximal_norm():
    jacobian = gradients(3)
    fair = weigh("fairgrad", jacobian, fairness=1.0).weights
    nash = weigh("nash-mtl", jacobian, max_norm=float("inf")).weights
    assert_close(fair, nash, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("fairness", [0.5, 2.0])
def test_fairgrad_solves_its_equation_at_any_scale(fairness, scale):
    jacobian = scale * gradients(3)
    weights = weigh("fairgrad", jacobian, fairness=fairness).weights
    found = jacobian @ jacobian.T @ weights * weights ** (1 / fairness)
    assert_close(found, torch.ones_like(found), atol=1e-4, rtol=0)


def test_sum_and_mean_are_the_gradients_of_the_summed_and_mean_loss():
    parameter = torch.randn(6, generator=random(), dtype=torch.float64, requires_grad=True)
    losses = [(parameter**2).sum(), parameter.sin().sum(), parameter.exp().sum()]
    jacobian = torch.stack([torch.autograd.grad(loss, parameter)[0] for loss in losses])
    expected = torch.autograd.grad(
        parameter.sin().sum() + (parameter**2 + parameter.exp()).sum(), parameter
    )[0]
    assert_close(weigh("sum", jacobian).weights @ jacobian, expected)
    assert_close(weigh("mean", jacobian).weights @ jacobian, expected / 3)


@pytest.mark.parametrize("name", COMBINERS)
def test_one_task_keeps_its_gradient(name):
    combined = weigh(name, 7 * gradients(1))
    assert combined.weights.tolist() == [1.0]


@pytest.mark.parametrize("name", COMBINERS)
def test_weights_are_float64_on_the_cpu(name):
    combined = weigh(name, gradients(3).float())
    assert combined.weights.dtype == torch.float64
    assert combined.weights.shape == (3,)


@pytest.mark.parametrize("silent", [[0], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("name", COMBINERS)
def test_zero_gradients_are_safe(name, silent):
    jacobian = gradients(3)
    jacobian[silent] = 0
    state = {}
    for seed in range(3):
        combined = weigh(name, jacobian, state=state, seed=seed)
        state = combined.state
        assert combined.weights.isfinite().all()
        assert all(value.isfinite().all() for value in state.values())


@pytest.mark.parametrize("name", COMBINERS)
def test_opposite_and_equal_gradients_are_safe(name):
    one = gradients(1)
    for jacobian in (
        torch.cat([one, -one]),
        torch.cat([one, one]),
        torch.cat([one, -2 * one, one]),
    ):
        combined = weigh(name, jacobian)
        assert combined.weights.isfinite().all()
        assert (combined.weights @ jacobian).norm() <= 4 * one.norm()


@pytest.mark.parametrize("name", WITHOUT_CHANCE)
def test_the_order_of_the_tasks_does_not_matter(name):
    jacobian, order = gradients(4), [2, 0, 3, 1]
    weights = weigh(name, jacobian).weights
    assert_close(weigh(name, jacobian[order]).weights, weights[order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e4])
@pytest.mark.parametrize("name", SAME_DIRECTION_AT_ANY_SCALE)
def test_small_and_large_gradients_get_the_same_weights(name, scale):
    jacobian = gradients(3, seed=4, size=3)
    weights = weigh(name, jacobian).weights
    assert_close(weigh(name, scale * jacobian).weights, weights, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["pcgrad", "gradvac", "upgrad", "dualproj"])
def test_orthogonal_gradients_are_only_added_up(name):
    weights = weigh(name, torch.eye(3, dtype=torch.float64)).weights
    assert_close(weights / weights.sum(), torch.full((3,), 1 / 3, dtype=torch.float64))


def test_pcgrad_projects_two_opposed_gradients_onto_each_others_normal():
    jacobian = torch.tensor([[1.0, 0.0], [-1.0, 1.0]], dtype=torch.float64)
    combined = weigh("pcgrad", jacobian).weights @ jacobian
    assert_close(combined, torch.tensor([0.5, 1.5], dtype=torch.float64))


def test_upgrad_opposes_no_task():
    for draw in range(20):
        jacobian = gradients(3, seed=draw, size=3)
        together = weigh("upgrad", jacobian).weights @ jacobian
        assert (jacobian @ together).min() > -1e-3 * jacobian.norm() ** 2


@pytest.mark.parametrize("name", ["pcgrad", "gradvac"])
def test_the_mean_is_the_sum_over_the_number_of_tasks(name):
    jacobian = gradients(3, size=3)
    summed = weigh(name, jacobian).weights
    assert_close(weigh(name, jacobian, reduction="mean").weights, summed / 3)


@pytest.mark.parametrize("name", ["pcgrad", "gradvac"])
def test_the_order_is_a_function_of_the_generator(name):
    jacobian = gradients(5, size=5)
    assert torch.equal(weigh(name, jacobian, seed=1).weights, weigh(name, jacobian, seed=1).weights)
    drawn = {tuple(weigh(name, jacobian, seed=seed).weights.tolist()) for seed in range(10)}
    assert len(drawn) > 1


@pytest.mark.parametrize("name", COMBINERS)
def test_a_combiner_made_anew_goes_on_from_its_state(name):
    def run(combine, state, draws):
        weights = []
        for draw in draws:
            jacobian = gradients(3, seed=draw, size=3)
            combined = combine(jacobian @ jacobian.T, random(draw), state)
            state = combined.state
            weights.append(combined.weights)
        return weights, state

    whole, _ = run(combiner(name), {}, range(6))
    _, half = run(combiner(name), {}, range(3))
    kept = {key: value.clone() for key, value in half.items()}
    rest, _ = run(combiner(name), kept, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(whole[3:], rest, strict=True))


def test_a_step_leaves_the_state_it_was_given_alone():
    state = weigh("gradvac", gradients(3)).state
    before = state["target"].clone()
    weigh("gradvac", gradients(3, seed=1), state=state)
    assert torch.equal(state["target"], before)


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(UserError, match="'pcgrd' is not one of sum, mean, pcgrad") as error:
        combiner("pcgrd")
    assert all(name in str(error.value) for name in COMBINERS)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pcgrad", {"beta": 0.1}, "pcgrad has no option 'beta'; its options are reduction"),
        ("sum", {"reduction": "mean"}, "sum has no option 'reduction'; it has no options"),
        ("pcgrad", {"reduction": "max"}, "'max' must be sum or mean"),
        ("gradvac", {"beta": 1.5}, "beta = 1.5 must be a number in"),
        ("cagrad", {"radius": "wide"}, "radius = 'wide' must be a number in"),
        ("fairgrad", {"fairness": 0.0}, "fairness = 0.0 must be a number in"),
        ("nash-mtl", {"max_norm": 0.0}, "max_norm = 0.0 must be a number in"),
    ],
)
def test_a_wrong_option_is_refused(name, options, message):
    with pytest.raises(UserError, match=message):
        combiner(name, options)


@pytest.mark.parametrize("name", TORCHJD)
def test_a_missing_package_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchjd", None)
    with pytest.raises(UserError, match=r'pip install "cotrunk\[gradients\]"'):
        combiner(name)
