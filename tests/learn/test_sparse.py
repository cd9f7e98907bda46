"""Row-sparse gradients against the dense ones that torch makes without them."""

import pytest
import torch
import torch.nn.functional as F

from cotrunk.learn.optimizer import OPTIMIZERS, clip
from cotrunk.learn.sparse import DenseRows, coalesced, dot

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
    torch.testing.assert_close(dot(one[0], one[0]), one[1].square().sum())


def test_the_dense_form_forgets_the_rows_of_the_step_before():
    table, dense = torch.zeros(10, 4, requires_grad=True), DenseRows()
    for seed, rows in enumerate(ROWS):
        table.grad, expected = gradients(rows, seed=seed)
        dense.fill([table])
        torch.testing.assert_close(table.grad, expected)


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
