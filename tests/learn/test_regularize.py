import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from scipy.stats import entropy
from torch.testing import assert_close

from cotrunk.data.batches.packing import RowIndex, pack
from cotrunk.errors import UserError
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.learn.regularize import REGULARIZERS, regularizer, worst_perturbation
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.network import Network, identity
from cotrunk.model.sharing.places import trunk_places
from cotrunk.model.sharing.plan import make_plan
from cotrunk.model.weights.initial import initialise

TASKS = (
    Task("sst", 1, Classes(("0", "1", "2"))),
    Task("para", 1, Binary()),
    Task("sts", 1, Scores(range=(0, 5.0))),
)
TINY = Shape("bert", 2, 8, 2, 12, 40, 20, 2, 0, True, 1e-12, 0.1, 0.1)
EACH_KIND = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def answers(task, *, seed=0, rows=50):
    return 3 * torch.randn(rows, task.outputs, generator=random(seed), dtype=torch.float64)


class Run:
    """A tiny network on one batch, as the loop would run it."""

    def __init__(self, task, *, plan="S2"):
        self.task = task
        names = [each.name for each in TASKS]
        heads = {name: HeadPlan() for name in names}
        shared = make_plan(trunk_places(names, TINY, encoder=plan), TINY, TASKS, heads)
        self.network = Network(TINY, shared, TASKS, heads).double()
        initialise(self.network, {}, seed=1)
        for parameter in self.network.parameters():  # a network that answers more than its biases
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=random(9)).double()
        draw = np.random.default_rng(0)
        tokens = [draw.integers(0, 40, size=n) for n in (3, 7, 5, 7, 2)]
        self.text = pack(tokens, [np.zeros(len(t), np.int64) for t in tokens])
        self.target_R = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
        self.calls = []

    def __call__(self, repeat=0, perturb=identity):
        self.calls.append(repeat)
        index, name = RowIndex((self.text.place_S,)), self.task.name
        return self.network(self.text, index, [name], DropoutStream(1, 2, 3, repeat), perturb)[name]

    def criterion(self, output_RO):
        return self.task.labels.loss()(output_RO, self.target_R).mean()

    def loss(self, method, **options):
        return regularizer(method, options)(self.task, self, self.criterion, random())


@EACH_KIND
def test_equal_answers_do_not_disagree(task):
    a = answers(task)
    assert_close(task.labels.divergence(a, a), torch.zeros(50, dtype=torch.float64), rtol=0, atol=0)


@EACH_KIND
def test_disagreement_is_symmetric_and_never_negative(task):
    a, b = answers(task), answers(task, seed=1)
    assert_close(task.labels.divergence(a, b), task.labels.divergence(b, a))
    assert (task.labels.divergence(a, b) > 0).all()
    close = a.float() + 1e-6 * b.float()
    assert (task.labels.divergence(a.float(), close) >= 0).all()


@EACH_KIND
def test_disagreement_is_finite_for_extreme_answers(task):
    a = torch.full((2, task.outputs), -1e4)
    a[0, 0] = a[1, -1] = 1e4
    assert task.labels.divergence(a, a.flip(0)).isfinite().all()


def test_disagreement_equals_the_divergences_of_scipy():
    sst, para, sts = TASKS
    a, b = answers(sst), answers(sst, seed=1)
    p, q = softmax(a.numpy(), axis=1), softmax(b.numpy(), axis=1)
    expected = entropy(p, q, axis=1) + entropy(q, p, axis=1)
    np.testing.assert_allclose(sst.labels.divergence(a, b).numpy(), expected, rtol=1e-9)
    a, b = answers(para), answers(para, seed=1)
    p, q = (np.stack([expit(x[:, 0]), expit(-x[:, 0])], axis=1) for x in (a.numpy(), b.numpy()))
    expected = entropy(p, q, axis=1) + entropy(q, p, axis=1)
    np.testing.assert_allclose(para.labels.divergence(a, b).numpy(), expected, rtol=1e-9)
    a, b = answers(sts), answers(sts, seed=1)
    assert_close(sts.labels.divergence(a, b), (a - b)[:, 0] ** 2)


def test_two_classes_disagree_as_one_chance_does():
    two = Task("para", 1, Classes(("0", "1")))
    a, b = answers(TASKS[1]), answers(TASKS[1], seed=1)
    wide = [torch.cat([torch.zeros_like(x), x], dim=1) for x in (a, b)]
    assert_close(two.labels.divergence(*wide), TASKS[1].labels.divergence(a, b))


@EACH_KIND
def test_the_slope_of_disagreement_is_right_on_both_sides(task):
    a, b = (answers(task, seed=seed, rows=3).requires_grad_() for seed in (0, 1))
    assert torch.autograd.gradcheck(lambda a, b: task.labels.divergence(a, b), (a, b))


@EACH_KIND
def test_no_smoothing_is_the_loss_itself(task):
    run = Run(task)
    assert_close(run.loss("none"), run.criterion(run()), rtol=0, atol=0)
    assert len(run.calls) == 2


def divergences(task, a, b):
    """Of two answers, by scipy: the mean over rows of each way, or twice the squared difference."""
    a, b = a.detach().numpy(), b.detach().numpy()
    if task.name == "sts":
        return [((a - b) ** 2).mean()] * 2
    if task.name == "para":
        p, q = (np.concatenate([expit(x), expit(-x)], axis=1) for x in (a, b))
    else:
        p, q = softmax(a, axis=1), softmax(b, axis=1)
    return [entropy(p, q, axis=1).mean(), entropy(q, p, axis=1).mean()]


@EACH_KIND
def test_r_drop_with_half_the_papers_alpha_is_half_the_papers_loss(task):
    run, alpha = Run(task), 1.4
    a, b = run(0), run(1)
    assert not torch.equal(a, b)
    paper = run.criterion(a) + run.criterion(b) + alpha * sum(divergences(task, a, b)) / 2
    assert_close(run.loss("r-drop", strength=alpha / 2), paper / 2, rtol=1e-9, atol=0)


def test_the_first_pass_drops_what_a_pass_without_smoothing_drops():
    x = torch.ones(100)
    assert_close(
        DropoutStream(1, 2, 3).drop(x, 0.5), DropoutStream(1, 2, 3, 0).drop(x, 0.5), rtol=0, atol=0
    )
    assert not torch.equal(
        DropoutStream(1, 2, 3).drop(x, 0.5), DropoutStream(1, 2, 3, 1).drop(x, 0.5)
    )


@pytest.mark.slow
@EACH_KIND
@pytest.mark.parametrize("plan", ["S2", "I2"])
def test_the_ascent_finds_a_worse_perturbation_than_chance_within_the_ball(task, plan):
    run, radius = Run(task, plan=plan), 0.01
    clean = run().detach()
    perturbation = worst_perturbation(task, run, clean, random(), radius=radius)
    zero = torch.zeros(len(run.text.token_T), 8, dtype=torch.float64)
    assert perturbation(zero).abs().max() <= radius
    worst = task.labels.divergence(clean, run(0, perturbation)).mean()
    for seed in range(20):
        sign = radius * torch.randn(zero.shape, generator=random(seed)).sign().double()
        chance = task.labels.divergence(clean, run(0, lambda x_TD, by=sign: x_TD + by)).mean()
        assert worst > chance


@EACH_KIND
def test_the_strength_of_smart_is_the_papers_lambda(task):
    """Jiang et al. (2020): both ways of the divergence, or the squared difference, x lambda."""
    run = Run(task)
    clean = run()
    perturbation = worst_perturbation(task, run, clean.detach(), random(), radius=0.05)
    one, other = divergences(task, clean, run(0, perturbation))
    apart = one if task.name == "sts" else one + other
    found = run.loss("smart", strength=3, radius=0.05) - run.criterion(clean)
    assert_close(found.item(), 3 * apart, rtol=1e-6, atol=0)


@EACH_KIND
def test_smart_adds_the_disagreement_with_the_worst_perturbation_alone(task):
    run = Run(task)
    clean = run()
    perturbation = worst_perturbation(task, run, clean.detach(), random(), radius=0.05)
    expected = run.criterion(clean) + 3 * task.labels.divergence(clean, run(0, perturbation)).mean()
    assert_close(run.loss("smart", strength=3, radius=0.05), expected, rtol=0, atol=0)
    assert run.loss("smart") > run.criterion(clean)
    assert set(run.calls) == {0}


def test_the_search_for_a_perturbation_leaves_no_gradient_in_the_network():
    run = Run(TASKS[0])
    worst_perturbation(TASKS[0], run, run().detach(), random(), radius=0.01)
    assert all(parameter.grad is None for parameter in run.network.parameters())


@EACH_KIND
@pytest.mark.parametrize("method", REGULARIZERS)
def test_every_smoothed_loss_moves_the_embeddings_and_the_head(task, method):
    run = Run(task)
    run.loss(method).backward()
    grads = {
        name: p.grad.to_dense() for name, p in run.network.named_parameters() if p.grad is not None
    }
    assert any(name.startswith("embeddings.") and grad.any() for name, grad in grads.items())
    assert any(name.startswith(f"heads.{task.name}") for name in grads)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["r-drop", "smart"])
def test_smoothing_makes_answers_steadier(method):
    """The same steps, with and without: the penalised run ends where answers move less."""

    def ends_at(name, **options):
        run = Run(TASKS[2])
        optimizer = torch.optim.SGD(run.network.parameters(), lr=1e-2)
        for _ in range(30):
            optimizer.zero_grad()
            run.loss(name, **options).backward()
            optimizer.step()
        clean = run().detach()
        if method == "r-drop":
            return TASKS[2].labels.divergence(clean, run(1)).mean()
        perturbation = worst_perturbation(TASKS[2], run, clean, random(), radius=0.05)
        return TASKS[2].labels.divergence(clean, run(0, perturbation)).mean()

    options = {"radius": 0.05} if method == "smart" else {}
    assert ends_at(method, strength=5.0, **options) < ends_at("none")


def test_wrong_names_and_options_are_said():
    with pytest.raises(UserError, match="'rdrop' is not one of none, r-drop, smart"):
        regularizer("rdrop")
    with pytest.raises(UserError) as error:
        regularizer("r-drop", {"radius": 1.0, "strength": 0.0})
    assert error.value.lines == (
        "regularize_options: r-drop has no option 'radius'; its options are strength",
        "regularize_options.strength = 0.0 must be a number above 0",
    )
