"""The queue: every row once, batches by tokens, turns, bounds."""

from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotrunk.data.batches.text import PairFormat
from cotrunk.serve.jobs import TURN_TOKENS, InputRow, Job, JobRow, QueueFull, TokenQueue
from cotrunk.serve.lanes import Lane

LANE = Lane(PairFormat(texts=1), words=False, tasks=("t",))
SIZES = st.lists(st.lists(st.integers(1, 128), min_size=1, max_size=20), min_size=1, max_size=12)


def job(tokens):
    """Of rows with so many tokens; the text says how many."""
    asked = [InputRow(n, LANE, ("t",), ("a" * 4 * (count - 1),)) for n, count in enumerate(tokens)]
    made = Job(asked, len(tokens))
    assert made.tokens == sum(tokens)
    return made


def tokenise(jobs):
    for one in jobs:
        one.tokenised(
            [JobRow(one, asked, (np.zeros(0),), None, asked.estimate) for asked in one.asked]
        )


def batches(queue, *, most=256):
    """All that is taken until the queue is empty."""
    queue.close()
    while taken := queue.take(tokenise, least=1, most=most):
        yield taken


@given(sizes=SIZES, most=st.integers(1, 512))
@settings(max_examples=60, deadline=None)
def test_every_row_is_taken_once_in_batches_that_fit(sizes, most):
    queue = TokenQueue(max_tokens=10**6)
    jobs = [job(tokens) for tokens in sizes]
    for one in jobs:
        queue.offer(one)
    taken = list(batches(queue, most=most))
    rows = [(jobs.index(row.job), row.asked.input) for batch in taken for row in batch]
    assert sorted(rows) == [(n, at) for n, each in enumerate(sizes) for at in range(len(each))]
    for batch in taken:
        *others, last = (row.tokens for row in batch)
        assert sum(others) < most or not others
        assert sum(others) + last <= most + 127
    assert queue.tokens == 0


def test_a_small_job_does_not_wait_for_a_large_one_before_it():
    queue = TokenQueue(max_tokens=10**6)
    large, small = job([100] * 50), job([10])
    queue.offer(large)
    queue.offer(small)
    first = next(batches(queue, most=2 * TURN_TOKENS))
    assert small in [row.job for row in first]


def test_a_worker_alone_takes_all_that_fits():
    queue = TokenQueue(max_tokens=10**6)
    queue.offer(job([10] * 40))
    assert sum(row.tokens for row in queue.take(tokenise, least=1, most=1000)) == 400


def test_idle_workers_share_what_comes():
    queue, taken = TokenQueue(max_tokens=10**6), []

    def work():
        while rows := queue.take(tokenise, least=1, most=1000):
            taken.append([row.tokens for row in rows])

    workers = [Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for _ in range(20):
        queue.offer(job([10] * 30))
    queue.close()
    for worker in workers:
        worker.join(timeout=10)
    assert sum(map(len, taken)) == 600


def test_a_full_queue_refuses_but_an_empty_one_takes_any_job():
    queue = TokenQueue(max_tokens=100)
    queue.offer(job([90, 90]))
    with pytest.raises(QueueFull) as full:
        queue.offer(job([1]))
    assert full.value.seconds >= 1
    list(batches(queue))
    assert queue.tokens == 0


def test_a_forgotten_job_makes_room_whether_or_not_it_was_begun():
    queue = TokenQueue(max_tokens=10**6)
    untouched, begun = job([50]), job([128] * 10)
    queue.offer(begun)
    queue.take(tokenise, least=1, most=128)
    queue.offer(untouched)
    queue.forget(untouched)
    queue.forget(begun)
    queue.forget(begun)
    assert queue.tokens == 0
    assert list(batches(queue)) == []


def test_a_cancelled_job_is_not_computed():
    queue = TokenQueue(max_tokens=10**6)
    gone, waiting = job([5, 5]), job([5])
    queue.offer(gone)
    queue.offer(waiting)
    gone.done.cancel()
    assert [row.job for batch in batches(queue) for row in batch] == [waiting]


def test_abandoned_jobs_fail():
    queue = TokenQueue(max_tokens=10**6)
    begun, new = job([128] * 4), job([5])
    queue.offer(begun)
    queue.take(tokenise, least=1, most=128)
    queue.offer(new)
    queue.abandon(TimeoutError())
    assert queue.tokens == 0
    for one in (begun, new):
        assert isinstance(one.done.exception(timeout=1), TimeoutError)


def test_a_closed_queue_takes_no_job():
    queue = TokenQueue(max_tokens=10**6)
    queue.close()
    assert not queue.offer(job([1]))


def test_a_job_is_done_when_all_its_rows_are_whoever_finishes_them():
    queue = TokenQueue(max_tokens=10**6)
    made = job([1] * 200)
    queue.offer(made)
    rows = [row for batch in batches(queue) for row in batch]

    def finish(some):
        for row in some:
            made.finish(row, {"t": row.asked.input})

    threads = [Thread(target=finish, args=(rows[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    assert made.done.result(timeout=10) == [{"t": number} for number in range(200)]
    for thread in threads:
        thread.join()
