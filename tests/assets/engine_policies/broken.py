"""Policies that cannot be made."""

import os
import sys

number = 7


class Still:
    def act(self, obs, episodes):
        raise AssertionError("nobody asks")


def raises(benchmark, observation_space, action_space):
    raise RuntimeError("no weights")


def exits(benchmark, observation_space, action_space):
    sys.exit("no weights")


def dies(benchmark, observation_space, action_space):
    os._exit(3)


def nothing(benchmark, observation_space, action_space):
    return None


def greedy(benchmark, observation_space, action_space, no_such_argument):
    return Still()


def needy(benchmark, observation_space, action_space):
    policy = Still()
    policy.needs = {"pixels/front", "pixels/top"}
    return policy


def empty(benchmark, observation_space, action_space):
    policy = Still()
    policy.batch = 0
    return policy


def lost(benchmark, observation_space, action_space):
    policy = Still()
    policy.placement = "x"
    return policy
