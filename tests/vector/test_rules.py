"""The initial states of resets, the attributes that programs set, and the name of success."""

import numpy as np
import pytest

from envhub.vector.rules import EpisodeClock, InitStates, check_chosen, name_success


def states(given, rows):
    return [(given.choose(row, None) or {}).get("init_state") for row in rows]


def test_each_env_starts_from_its_own_state_and_moves_on_by_their_number():
    assert states(InitStates(3, 5), [0, 1, 2] * 3) == [0, 1, 2, 3, 4, 0, 1, 2, 3]


def test_one_env_goes_through_the_states_in_order():
    assert states(InitStates(1, 3), [0] * 5) == [0, 1, 2, 0, 1]


def test_an_option_comes_first_and_is_not_counted():
    given = InitStates(1, 3)
    assert given.choose(0, {"init_state": 2, "more": 1}) == {"init_state": 2, "more": 1}
    assert given.choose(0, {"more": 1}) == {"init_state": 0, "more": 1}


def test_without_stored_states_options_stay_as_they_are():
    assert InitStates(2, 0).choose(1, None) is None


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "5", None, 10**8])
def test_horizons_that_are_refused(value):
    with pytest.raises(ValueError, match="_max_episode_steps must be a whole number from 1 to"):
        check_chosen("_max_episode_steps", [5, value])


def test_numbers_of_numpy_are_numbers():
    assert check_chosen("init_state_id", [np.int64(3), 0]) == [3, 0]


@pytest.mark.parametrize(
    ("info", "named"),
    [
        ({"success": 1.0}, True),
        ({"success": np.array([0])}, False),
        ({"success": True, "is_success": False}, False),
        ({}, None),
        ({"success": None}, None),
    ],
)
def test_success_by_lerobots_name(info, named):
    name_success(info)
    assert info.get("is_success") is named


def test_envs_that_begin_at_different_times():
    clock = EpisodeClock(2, 3)
    assert [clock.tick() for _ in range(2)] == [False, False]
    clock.begin(1)
    assert clock.tick()
    assert clock.at_horizon().tolist() == [True, False]
    clock.begin(0)
    assert [clock.tick() for _ in range(2)] == [False, True]
    assert clock.at_horizon().tolist() == [False, True]


def test_an_env_that_steps_alone():
    clock = EpisodeClock(2, 3)
    clock.tick()
    assert [clock.tick_row(1) for _ in range(2)] == [False, True]
    assert clock.at_horizon().tolist() == [False, True]
    clock.begin(slice(None))
    assert not clock.at_horizon().any()


def test_horizons_that_are_set_while_episodes_run():
    clock = EpisodeClock(2, 3)
    assert not clock.tick()
    clock.set_horizons([5, 2])
    assert clock.tick()
    assert clock.at_horizon().tolist() == [False, True]
    clock.begin(1)
    assert not clock.tick_row(1)
    assert [clock.tick(), clock.at_horizon().tolist()] == [True, [False, True]]


def test_without_a_horizon_nothing_is_ever_due():
    clock = EpisodeClock(1, None)
    assert not any(clock.tick() for _ in range(100))
    assert not clock.at_horizon().any()
