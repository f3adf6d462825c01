"""The built-in policies."""

import numpy as np
import pytest
from gymnasium import spaces
from support.policies import LEAVES, SPACE, context, policy

from envhub.wire.policy_contract import facts_of
from envhub.worker.policy.builtin import make_random, make_zero
from envhub.worker.policy.caller import PolicyCaller

SPACES = [
    SPACE,
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Discrete(5),
    spaces.Discrete(3, start=7),
    spaces.MultiDiscrete([2, 5]),
    spaces.MultiBinary(3),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("make", [make_random, make_zero])
def test_builtin_policies_act_in_every_space(space, make):
    runner = PolicyCaller(make(None, None, space), LEAVES, space)
    assert runner.facts == facts_of(policy(placement="worker", needs=(), batch="any"), LEAVES)
    episodes = [context(seed) for seed in range(4)]
    for episode in episodes:
        runner.start(episode)
    actions = runner.act({}, episodes)
    assert (actions.shape, actions.dtype) == ((4, 1, *space.shape), space.dtype)
    if make is make_zero:
        assert not actions.any()
    else:
        assert all(space.contains(action[0]) for action in actions)


def test_random_actions_follow_from_the_episode_alone():
    def three(seeds):
        made = make_random(None, None, SPACE)
        episodes = [context(seed) for seed in seeds]
        for episode in episodes:
            made.start(episode)
        return np.stack([made.act({}, episodes) for _ in range(3)], axis=1)

    together = three([4, 5, 6])
    assert np.array_equal(together[1], three([5])[0])
    assert len({actions.tobytes() for actions in together.reshape(9, 2)}) == 9
