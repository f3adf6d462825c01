"""How long episodes are, of envs that step together and of one that steps alone."""

from envhub.vector.clock import EpisodeClock


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
