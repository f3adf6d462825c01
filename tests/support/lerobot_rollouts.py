"""LeRobot's own `rollout`, over its own envs and over those of `envhub.make_env`, compared.

    python tests/support/lerobot_rollouts.py ASSETS [TASK ...]

Needs LeRobot 0.6.1, Meta-World and LIBERO in one interpreter, which both sides use. Prints a line
of JSON per task: what both sides say, and the largest differences. In Meta-World the actions are
those of the scripted experts, recorded before, so that episodes succeed; in LIBERO they are random.
"""

import json
import sys
from typing import Any

import numpy as np
import torch
from envhub_lerobot.sentences import sentences_for
from lerobot.envs import make_env
from lerobot.envs.configs import LiberoEnv, MetaworldEnv
from lerobot.envs.factory import make_env_pre_post_processors
from lerobot.processor import PolicyProcessorPipeline
from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action
from lerobot.scripts.lerobot_eval import rollout
from libero_lerobot import configure

import envhub

EPISODES, SEED, STEPS = 3, 1000, 10
METAWORLD = ("reach-v3", "drawer-close-v3", "button-press-topdown-v3")
LIBERO = ("libero_spatial", "libero_goal")
"""Suites, of which task 0 is played for a few steps."""


class Recorded(torch.nn.Module):
    """Plays recorded actions."""

    def __init__(self, episodes: list[Any]) -> None:
        super().__init__()
        self.episodes = iter(episodes)
        self.told: list[str] = []

    def reset(self) -> None:
        self.actions = iter(next(self.episodes))

    def select_action(self, observation: dict[str, Any]) -> torch.Tensor:
        self.told += observation["task"]
        return torch.from_numpy(next(self.actions)[None])


class Watched:
    """A processor of LeRobot's, and all observations that it is given in an episode."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.seen: list[dict[str, Any]] = []

    def __call__(self, observation: dict[str, Any]) -> dict[str, Any]:
        found = leaves(observation).items()
        self.seen.append({key: v.clone() for key, v in found if isinstance(v, torch.Tensor)})
        return self.processor(observation)  # type: ignore[no-any-return]

    def taken(self) -> dict[str, Any]:
        """Return the observations so far, stacked, and forget them."""
        seen, self.seen = self.seen, []
        return {key: torch.stack([each[key] for each in seen], dim=1) for key in seen[0]}


def play(env: Any, actions: list[Any], steps: int | None, processor: Any) -> dict[str, Any]:
    """Play all episodes with LeRobot's loop, and with its processor for such envs."""
    nothing: Any = PolicyProcessorPipeline(steps=[])
    watched: Any = Watched(processor)
    of_actions: Any = PolicyProcessorPipeline(
        steps=[],
        to_transition=policy_action_to_transition,
        to_output=transition_to_policy_action,
    )
    horizon = env.call("_max_episode_steps")[0]
    if steps is not None:
        env.set_attr("_max_episode_steps", steps)
    policy, played = Recorded(actions), []
    for episode in range(len(actions)):
        seeds = [SEED + episode]
        told = rollout(env, policy, watched, nothing, nothing, of_actions, seeds=seeds)
        played.append({**told, "observation": watched.taken()})
    return {"horizon": horizon, "told": policy.told, "played": played}


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    """The tensors of what the loop returns, by their paths."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {k: v for key, part in tree.items() for k, v in leaves(part, f"{path}/{key}").items()}


def compare(name: str, own: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """What both sides say, and the largest differences of pictures and of other numbers."""
    pictures, numbers, compared = 0.0, 0.0, set()
    for theirs, mine in zip(own["played"], ours["played"], strict=True):
        known, found = leaves(theirs), leaves(mine)
        for path, value in known.items():
            assert found[path].shape == value.shape, (path, found[path].shape, value.shape)
            if not value.is_floating_point() and value.dtype != torch.bool:
                raise TypeError(f"{path} is {value.dtype}")
            far = float((found[path].double() - value.double()).abs().max())
            compared.add(path)
            if "image" in path:
                pictures = max(pictures, far)
            else:
                numbers = max(numbers, far)
    said = {
        side: {
            "horizon": played["horizon"],
            "told": sorted(set(played["told"])),
            "steps": [episode["action"].shape[1] for episode in played["played"]],
            "success": [bool(episode["success"].any()) for episode in played["played"]],
        }
        for side, played in (("lerobot", own), ("envhub", ours))
    }
    shape = next(v.shape for k, v in leaves(own["played"][0]).items() if "image" in k)
    return {
        "task": name, **said, "pictures": pictures, "numbers": numbers,
        "shape": list(shape), "compared": sorted(compared),
    }  # fmt: skip


def expert_actions(task: str) -> list[Any]:
    """The actions of the scripted expert in each episode."""
    from metaworld.policies import ENV_POLICY_MAP

    envs = envhub.make_env("metaworld", tasks=task, needs=["environment_state"], runtime="here")
    [env] = [env for tasks in envs.values() for env in tasks.values()]
    episodes = []
    with env:
        for episode in range(EPISODES):
            observation, _ = env.reset(seed=SEED + episode)
            expert, actions, ended = ENV_POLICY_MAP[task](), [], False
            while not ended:
                action = expert.get_action(observation["environment_state"][0])
                actions.append(np.asarray(action, np.float32))
                observation, _, terminated, truncated, _ = env.step(actions[-1][None])
                ended = bool(terminated[0] or truncated[0])
            episodes.append(actions)
    return episodes


def metaworld(task: str) -> dict[str, Any]:
    actions = expert_actions(task)
    config = MetaworldEnv(task=task, obs_type="pixels_agent_pos")
    [[own]] = [tasks.values() for tasks in make_env(config, n_envs=1).values()]
    processor, _ = make_env_pre_post_processors(config, None)
    theirs = play(own, actions, None, processor)
    own.close()
    envs = envhub.make_env(
        "metaworld", tasks=task, needs=["pixels", "agent_pos"], runtime="here",
        instructions=sentences_for("metaworld"),
    )  # fmt: skip
    [ours] = [env for tasks in envs.values() for env in tasks.values()]
    with ours:
        return compare(task, theirs, play(ours, actions, None, processor))


def libero(suite: str, assets: str) -> dict[str, Any]:
    actions = np.random.default_rng(0).uniform(-1, 1, (EPISODES, STEPS, 7)).astype(np.float32)
    config = LiberoEnv(task=suite, task_ids=[0])
    [[own]] = [tasks.values() for tasks in make_env(config, n_envs=1).values()]
    processor, _ = make_env_pre_post_processors(config, None)
    theirs = play(own, list(actions), STEPS, processor)
    own.close()
    arguments = {"assets": assets, "size": 360}
    envs = envhub.make_env("libero", suites=suite, env_args=arguments, runtime="here")
    with envs[suite][0] as ours:
        return compare(suite, theirs, play(ours, list(actions), STEPS, processor))


if __name__ == "__main__":
    configure(sys.argv[1])
    for name in sys.argv[2:] or (*METAWORLD, *LIBERO):
        print(json.dumps(libero(name, sys.argv[1]) if name in LIBERO else metaworld(name)))
        sys.stdout.flush()
