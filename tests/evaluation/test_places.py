"""Places for workers: who gets one, and who is woken."""

import os
import select

from envhub.evaluation.places import Places


def woken(share):
    ready, _, _ = select.select([share.fileno()], [], [], 0)
    if ready:
        os.eventfd_read(share.fileno())
    return bool(ready)


def test_the_earlier_comes_first_and_is_woken():
    places = Places(2)
    first, second, third = (places.share(order, 1) for order in range(3))
    assert (first.take(), first.take(), places.held) == (True, True, 2)
    assert not third.take()
    assert not second.take()
    first.give()
    assert (woken(second), woken(third)) == (True, False)
    assert not third.take()
    assert second.take()
    first.give()
    assert (woken(third), third.take(), places.held) == (True, True, 2)
    for share in (second, third):
        share.give()
        share.dispose()
    first.dispose()
    assert places.held == 0


def test_who_withdraws_or_is_gone_is_waited_for_no_more():
    places = Places(1)
    first, second, third = (places.share(order, 1) for order in range(3))
    assert third.take()
    assert not first.take()
    assert not second.take()
    third.give()
    assert (woken(first), second.take()) == (True, False)
    first.withdraw()
    assert (woken(second), second.take()) == (True, True)
    assert not first.take()
    second.give()
    first.dispose()
    assert third.take()
    third.give()
    second.dispose()
    third.dispose()


def test_memory_limits_them_too_but_one_worker_always_runs():
    places = Places(8, memory_mb=1000)
    small, large = places.share(0, 300), places.share(1, 5000)
    assert (places.most(300), places.most(5000), Places(8).most(5000)) == (3, 1, 8)
    assert [small.take() for _ in range(4)] == [True, True, True, False]
    small.withdraw()
    assert not large.take()
    for _ in range(3):
        small.give()
    assert (woken(large), large.take(), small.take()) == (True, True, False)
    large.give()
    assert (woken(small), small.take()) == (True, True)
    small.give()
    small.dispose()
    large.dispose()
