"""Actions that come late: what is done until then, in both modes, for chunks of any length."""

import numpy as np
import pytest
from gymnasium.spaces import Box

from envhub.errors import ContractError
from envhub.options import Delays
from envhub.wire.delayed import DelayedActions, check_hold

SPACE = Box(-1000.0, 1000.0, (2,), np.float32)


def delayed(mode="wait", steps=((2, 1),), hold=(0.0, -1.0), keeps="gripper", **episode):
    given = {"seed": 3, "task": "line", "index": 0, **episode}
    return DelayedActions(Delays(mode, steps, hold, keeps), SPACE, **given)


def chunk(call, size):
    return np.array([[10 * call + k, call] for k in range(size)], np.float32)


def numbers(actions):
    return [float(action[0]) for action in actions]


def test_waiting_holds_and_then_takes_the_whole_chunk():
    late = delayed()
    assert late.begin_call().tolist() == [[0, -1], [0, -1]]
    assert numbers(late.take(chunk(1, 3))) == [0, 0, 10, 11, 12]
    assert late.begin_call().tolist() == [[0, 1], [0, 1]]  # the gripper stays as it was
    assert numbers(late.take(chunk(2, 1))) == [0, 0, 20]
    assert late.calls == 2


def test_overlapping_takes_the_end_of_the_chunk_before_while_the_next_is_made():
    """s = n - d: old[s:s+d], then new[d:s]; worked out by hand for n = 6, d = 2."""
    late = delayed("overlap")
    assert numbers(late.take(chunk(1, 6))) == [0, 0, 10, 11, 12, 13]  # the first: nothing to do yet
    assert numbers(late.begin_call()) == [14, 15]
    assert numbers(late.take(chunk(2, 6))) == [14, 15, 22, 23]
    assert numbers(late.begin_call()) == [24, 25]
    assert numbers(late.take(chunk(3, 6))) == [24, 25, 32, 33]


def test_a_chunk_too_short_to_overlap_is_taken_whole():
    late = delayed("overlap")
    assert numbers(late.take(chunk(1, 4))) == [0, 0, 10, 11, 12, 13]
    assert numbers(late.begin_call()) == [0, 0]
    assert numbers(late.take(chunk(2, 5))) == [0, 0, 20, 21, 22]  # 5 > 2 d: two actions stay
    assert numbers(late.take(chunk(3, 4))) == [23, 24, 30, 31, 32, 33]


def test_nothing_late_is_nothing_changed():
    late = delayed("overlap", ((0, 1),))
    for call in (1, 2):
        assert len(late.begin_call()) == 0
        assert np.array_equal(late.take(chunk(call, 3)), chunk(call, 3))


def test_the_steps_that_held_are_counted_as_they_are_taken():
    late = delayed()
    late.take(chunk(1, 2))
    late.taken(1)
    assert late.held == 1
    late.taken(3)
    assert late.held == 2
    late.take(chunk(2, 2))
    late.taken(4)
    assert late.held == 4


@pytest.mark.parametrize(
    ("keeps", "hold", "expected"),
    [
        ("gripper", (0.0, -1.0), [0, 7]),
        ("gripper", (), [0, 7]),
        ("none", (0.5, -1.0), [0.5, -1]),
        ("all", (0.5, -1.0), [6, 7]),
    ],
)
def test_how_a_robot_holds_still(keeps, hold, expected):
    late = delayed(keeps=keeps, hold=hold)
    assert late.begin_call()[0].tolist() == list(hold or (0, 0))
    late.take(np.array([[6, 7]], np.float32))
    assert late.begin_call()[0].tolist() == expected


def test_drawn_delays_depend_on_seed_task_episode_and_call_alone():
    steps = ((1, 3), (2, 5), (4, 2))

    def draw(calls=200, **episode):
        late = delayed(steps=steps, **episode)
        found = []
        for call in range(calls):
            found.append(len(late.begin_call()))
            assert len(late.begin_call()) == found[-1]  # asked again: the same call
            late.take(chunk(call, 1))
        return found

    drawn = draw()
    assert drawn == draw()
    assert all(drawn != draw(**other) for other in ({"seed": 4}, {"task": "two"}, {"index": 1}))
    shares = {size: drawn.count(size) / len(drawn) for size in (1, 2, 4)}
    assert sum(shares.values()) == 1
    assert abs(shares[1] - 0.3) < 0.1
    assert abs(shares[2] - 0.5) < 0.1


def test_a_later_delay_than_the_tail_is_held():
    late = delayed("overlap", ((1, 1),))
    late.take(chunk(1, 5))
    assert numbers(late.begin_call()) == [14]
    late._delays = Delays("overlap", ((3, 1),), (), "none")
    late.take(chunk(2, 5))  # one action stays; the next call takes three steps
    assert numbers(late.begin_call()) == [24, 0, 0]
    assert numbers(late.take(chunk(3, 9))) == [24, 0, 0, 31, 32, 33, 34, 35]


def test_a_hold_of_another_size_is_refused():
    check_hold(Delays("wait", ((1, 1),), (0.0, 1.0)), SPACE)
    check_hold(Delays("wait", ((1, 1),)), SPACE)
    with pytest.raises(ContractError, match=r"hold has 3 numbers and its actions have 2"):
        check_hold(Delays("wait", ((1, 1),), (0.0, 1.0, 2.0)), SPACE)
