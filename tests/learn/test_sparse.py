"""Row-sparse gradients against the dense ones that torch makes without them."""

import pytest
import torch
import torch.nn.functional as F

from cotrunk.learn.combine import combiner
from cotrunk.learn.gradients import Block, Surgery
from cotrunk.learn.optimizer import OPTIMIZERS, clip
from cotrunk.learn.sparse import DenseRows, add, coalesced, dot

ROWS = [[0, 3, 3, 7], [3, 7, 9], [2, 2, 2]]


def gradients(rows: list[int], *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of looking up these rows of a table, row-sparse and dense."""
    torch.manual_seed(seed)
    weight, direction = torch.randn(10, 4), torch.randn(len(rows), 4)
    found = []
    for sparse in (True, False):
        table = weight.clone().requires_grad_()
        (F.embedding(torch.tensor(rows), table, sparse=sparse) * direction).sum().backward()
        assert table.grad is not None
        found.append(table.grad)
    return coalesced(found[0]), found[1]


@pytest.mark.parametrize("left", range(3))
@pytest.mark.parametrize("right", range(3))
def test_inner_products_are_those_of_the_dense_gradients(left, right):
    one, two = gradients(ROWS[left], seed=left), gradients(ROWS[right], seed=right)
    expected = (one[1] * two[1]).sum()
    torch.testing.assert_close(dot(one[0], two[0]), expected)
    torch.testing.assert_close(dot(one[1], two[1]), expected)
    torch.testing.assert_close(dot(one[0], two[1]), expected)
    torch.testing.assert_close(dot(one[1], two[0]), expected)
    torch.testing.assert_close(dot(one[0], one[0]), one[1].square().sum())


@pytest.mark.parametrize("weight", [1.0, -0.3])
@pytest.mark.parametrize("is_total_dense", [0, 1])
@pytest.mark.parametrize("is_grad_dense", [0, 1])
def test_sums_of_any_layouts_are_those_of_the_dense_gradients(
    is_total_dense, is_grad_dense, weight
):
    one, two = gradients(ROWS[0], seed=0), gradients(ROWS[1], seed=1)
    expected = one[1] + weight * two[1]
    total = add(one[is_total_dense], two[is_grad_dense], weight=weight)
    assert total.is_sparse == (not is_total_dense and not is_grad_dense)
    torch.testing.assert_close(total.to_dense(), expected)


@pytest.mark.parametrize("scores_first", [False, True])
def test_a_table_that_is_looked_up_and_scored_against_gets_the_sum_of_both_gradients(scores_first):
    torch.manual_seed(0)
    weight, rows = torch.randn(10, 4), torch.tensor(ROWS[0])
    found = []
    for sparse in (True, False):
        table = weight.clone().requires_grad_()
        x = torch.tanh(F.embedding(rows, table, sparse=sparse))
        loss = F.cross_entropy(x @ table.T, rows)
        more = F.embedding(rows, table, sparse=sparse).square().sum()
        found.append(torch.autograd.grad(loss + more if scores_first else more + loss, [table])[0])
    assert not found[0].is_sparse
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("method", ["sum", "pcgrad"])
@pytest.mark.parametrize("first", ["dense", "sparse"])
def test_surgery_takes_a_dense_gradient_of_one_task_beside_a_sparse_one_of_another(method, first):
    combined = []
    for mixed in (True, False):
        table = torch.nn.Parameter(torch.zeros(10, 4))
        block = Block(frozenset("ab"), "embeddings", (table,))
        surgery = Surgery([block], ["a", "b"], combiner(method, {}), seed=0)
        dense, sparse = ("a", "b") if first == "dense" else ("b", "a")
        for task, seed in [(dense, 0), (sparse, 1), (sparse, 2), (dense, 3)]:
            grads = gradients(ROWS[seed % 2], seed=seed)
            table.grad = grads[0] if mixed and (task == sparse or seed == 3) else grads[1]
            surgery.stash(task)
        combined.append((surgery.combine(0), table.grad))
    (conflicts, grad), (expected_conflicts, expected) = combined
    torch.testing.assert_close(grad, expected)
    (one,), (other,) = conflicts.values(), expected_conflicts.values()
    assert one == pytest.approx(other)


def test_the_dense_form_forgets_the_rows_of_the_step_before():
    table, dense = torch.zeros(10, 4, requires_grad=True), DenseRows()
    for seed, rows in enumerate(ROWS):
        table.grad, expected = gradients(rows, seed=seed)
        dense.fill([table])
        torch.testing.assert_close(table.grad, expected)


def test_sparse_and_dense_steps_may_alternate():
    table, dense = torch.zeros(10, 4, requires_grad=True), DenseRows()
    for seed, rows in enumerate(ROWS * 2):
        grads = gradients(rows, seed=seed)
        table.grad = grads[seed % 2]
        dense.fill([table])
        torch.testing.assert_close(table.grad, grads[1])
        table.grad = None


def test_a_dense_gradient_is_left_as_it_is():
    table, dense = torch.zeros(10, 4, requires_grad=True), DenseRows()
    grad = torch.ones(10, 4)
    table.grad = grad
    dense.fill([table])
    assert table.grad is grad


@pytest.mark.parametrize("most", [0.5, 1e9])
def test_clipping_is_that_of_torch(most):
    sparse, expected = (torch.zeros(10, 4, requires_grad=True) for _ in range(2))
    sparse.grad, expected.grad = gradients(ROWS[0], seed=0)
    length = torch.nn.utils.clip_grad_norm_([expected], most)
    torch.testing.assert_close(clip([sparse], most), length)
    torch.testing.assert_close(sparse.grad.to_dense(), expected.grad)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_steps_as_with_dense_gradients(name):
    tables = [torch.ones(10, 4, requires_grad=True) for _ in range(2)]
    made = [
        OPTIMIZERS[name]([{"params": [table], "lr": 0.1, "weight_decay": 0.1}]) for table in tables
    ]
    for seed, rows in enumerate(ROWS):
        for table, optimizer, grad in zip(tables, made, gradients(rows, seed=seed), strict=True):
            table.grad = grad
            optimizer.step()
    torch.testing.assert_close(tables[0], tables[1])
