"""Meta-World's scripted experts as one policy, which reads the state and no pixels."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from envhub import Benchmark, Context
from envhub_metaworld.simulator import import_metaworld


class Expert:
    """The expert of each episode's task.

    Its actions are handed on as they are, in part beyond [-1, 1]: the env clips them, as in
    Meta-World's own loops.
    """

    placement: Literal["worker"] = "worker"
    needs = frozenset({"environment_state"})

    def act(self, obs: Mapping[str, Any], episodes: Sequence[Context]) -> Any:
        """What the experts would do."""
        states = obs["environment_state"]
        if len(episodes) == 1:  # beside the env it is always one
            return _expert_for(episodes[0]).get_action(states[0])[None]
        rows = zip(episodes, states, strict=True)
        return [_expert_for(episode).get_action(state) for episode, state in rows]


def make_policy(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Expert:
    """The policy `expert`."""
    return Expert()


def _expert_for(episode: Context) -> Any:
    """The expert of this episode alone, whatever it may keep."""
    if "expert" not in episode.memory:
        import_metaworld()
        from metaworld.policies import ENV_POLICY_MAP

        episode.memory["expert"] = ENV_POLICY_MAP[episode.task]()
    return episode.memory["expert"]
