"""Works on threads of their own: in order, one thread an operation, nothing left behind."""

import threading

import pytest
import torch
from threadpoolctl import threadpool_info

from cotrunk.infer import threads as threads_of
from cotrunk.infer.threads import in_order, threads_per_operation


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items(threads):
    begun, later = threading.Barrier(min(threads, 2), timeout=30), threading.Event()

    def work(item):
        if item < 2 and threads > 1:
            begun.wait()
        if item == 0 and threads > 1:
            assert later.wait(timeout=30)  # the first ends after the second
        if item == 1:
            later.set()
        return item * 10

    assert list(in_order(work, range(6))) == [0, 10, 20, 30, 40, 50]


def test_callers_on_several_threads_take_turns_and_leave_all_as_it_was(threads):
    found, libraries = {}, threads_of._BLAS.info()

    def call(name):
        found[name] = list(in_order(lambda item: (name, item), range(30)))

    callers = [threading.Thread(target=call, args=(name,)) for name in "abc"]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == {name: [(name, item) for item in range(30)] for name in "abc"}
    fresh = []
    last = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    last.start()
    last.join()
    assert fresh == [threads]
    assert threads_of._BLAS.info() == libraries


def test_an_operation_has_one_thread_where_there_are_works_for_all(threads):
    items = range(threads)
    assert list(in_order(lambda _: torch.get_num_threads(), items)) == [1] * threads


def test_an_operation_of_few_works_has_one_thread_unless_idle_ones_are_shared(threads):
    def count(_):
        return torch.get_num_threads()

    assert list(in_order(count, [0])) == [1]
    assert list(in_order(count, [0], share_idle_threads=True)) == [threads]


def test_no_more_results_wait_than_there_are_threads(threads):
    begun = []
    found = in_order(begun.append, range(20))
    for taken in range(20):
        next(found)
        assert len(begun) <= taken + 1 + threads


def test_an_error_reaches_the_caller_and_leaves_the_number_of_threads(threads):
    def work(item):
        if item == 3:
            raise ValueError("the fourth")
        return item

    found = in_order(work, range(50))
    with pytest.raises(ValueError, match="the fourth"):
        list(found)
    assert torch.get_num_threads() == threads


def test_a_caller_who_goes_away_leaves_the_number_of_threads(threads):
    found = in_order(lambda item: item, range(50))
    next(found)
    found.close()
    assert torch.get_num_threads() == threads


def test_nothing_to_do_gives_nothing(threads):  # noqa: ARG001
    assert list(in_order(lambda item: item, [])) == []


def test_numpy_multiplies_on_as_many_threads_as_torch():
    numpys = {library["filepath"] for library in threads_of._BLAS.info()}

    def count():
        return {lib["num_threads"] for lib in threadpool_info() if lib["filepath"] in numpys}

    before = count()
    with threads_per_operation(1):
        assert count() == {1}
    assert list(in_order(lambda _: count(), range(4))) == [{1}] * 4
    assert count() == before
