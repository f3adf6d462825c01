"""Meta-World's scripted experts as one policy, which reads the state but no pixels."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from envhub import Benchmark, Context
from envhub_metaworld.simulator import import_metaworld


class Expert:
    """Acts in each episode as the expert of its task.

    Actions are passed on unchanged, some of them outside [-1, 1]: the env clips them, as in
    Meta-World's own loops.
    """

    placement: Literal["worker"] = "worker"
    needs = frozenset({"environment_state"})
    batch: Literal["any"] = "any"

    def act(self, obs: Mapping[str, Any], episodes: Sequence[Context]) -> Any:
        """Return the experts' actions."""
        states = obs["environment_state"]
        if len(episodes) == 1:  # always, in the env's worker
            return _expert_for(episodes[0]).get_action(states[0])[None]
        rows = zip(episodes, states, strict=True)
        return [_expert_for(episode).get_action(state) for episode, state in rows]


def make_policy(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Expert:
    """Make the policy `expert`."""
    return Expert()


def _expert_for(episode: Context) -> Any:
    """Return an expert for this episode only, because experts may have state."""
    if "expert" not in episode.memory:
        import_metaworld()
        from metaworld.policies import ENV_POLICY_MAP

        episode.memory["expert"] = ENV_POLICY_MAP[episode.task]()
    return episode.memory["expert"]
