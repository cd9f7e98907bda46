"""What threads cost on a machine that is busy or limited."""

import os
import subprocess
import sys

import pytest
import torch

from cotrunk.data.tokens.workers import cores
from cotrunk.infer.threads import one_after_another


def test_waiting_threads_do_not_spin_unless_the_user_says_so():
    code = "import cotrunk, os; print(os.environ['OMP_WAIT_POLICY'])"
    without = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    for given, expected in [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")]:
        found = subprocess.run(
            [sys.executable, "-c", code], env=without | given, capture_output=True, text=True
        )
        assert found.stdout.strip() == expected


def test_works_one_after_another_have_one_thread_an_operation():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert list(one_after_another(lambda _: torch.get_num_threads(), range(3))) == [1, 1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("written", "at_most"), [("100000 100000", 1), ("50000 100000", 1), ("150000 100000", 2)]
)
def test_the_cores_of_a_container_are_those_of_its_quota(tmp_path, written, at_most):
    quota = tmp_path / "cpu.max"
    quota.write_text(written + "\n")
    assert 1 <= cores(quota) <= at_most


def test_without_a_quota_all_cores_count(tmp_path):
    unlimited = tmp_path / "cpu.max"
    unlimited.write_text("max 100000\n")
    assert cores(unlimited) == cores(tmp_path / "absent") == len(os.sched_getaffinity(0))
