"""Run in an environment with LeRobot and Meta-World: LeRobot's own rollout, timed.

    python lerobot_speed.py DIRECTORY TASK STEPS ENVS THREADS

Saves an ACT checkpoint with random weights in the directory, makes what `lerobot-eval` makes of it,
and prints {"ready": true}. Then every line of stdin is a number of rollouts, and is answered with
the seconds that they took and the env-steps that they made.
"""

import contextlib
import json
import sys
import time
from pathlib import Path

CHUNK = 10
SIZE = 480
"""The pictures of LeRobot's Meta-World env, which draws no others."""


def main(directory: Path, task: str, steps: int, envs: int, threads: int) -> None:
    try:
        import metaworld  # noqa: F401
    except ImportError as exc:
        print(json.dumps({"missing": str(exc)}), flush=True)
        return
    with contextlib.redirect_stdout(sys.stderr):
        play = prepare(directory, task, steps, envs, threads)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        taken = sum(play() for _ in range(int(line)))
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "steps": taken}), flush=True)


def prepare(directory: Path, task: str, steps: int, envs: int, threads: int):
    """Return a function that plays one rollout and returns how many env-steps it made."""
    import torch
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.envs.configs import MetaworldEnv
    from lerobot.envs.factory import make_env, make_env_pre_post_processors
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors
    from lerobot.scripts.lerobot_eval import rollout

    torch.set_num_threads(threads)
    save(directory)
    config = PreTrainedConfig.from_pretrained(directory)
    policy = get_policy_class(config.type).from_pretrained(directory, config=config, strict=True)
    before, after = make_pre_post_processors(config, str(directory))
    env_config = MetaworldEnv(task=task)
    ((env,),) = (one.values() for one in make_env(env_config, envs, use_async_envs=False).values())
    for one in env.envs:
        one._max_episode_steps = steps
    processors = make_env_pre_post_processors(env_config, config)

    def play() -> int:
        done = rollout(env, policy, *processors, before, after, seeds=list(range(envs)))
        return int(done["action"].shape[0] * done["action"].shape[1])

    return play


def save(directory: Path) -> None:
    """Write a checkpoint with random weights: ACT's ResNet, and a small transformer."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    config = ACTConfig(
        input_features={
            "observation.image": PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE)),
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        device="cpu",
        chunk_size=CHUNK,
        n_action_steps=CHUNK,
        dim_model=128,
        n_heads=4,
        dim_feedforward=256,
        n_encoder_layers=2,
        n_vae_encoder_layers=1,
        pretrained_backbone_weights=None,
    )
    torch.manual_seed(0)
    get_policy_class(config.type)(config).save_pretrained(directory)
    four = {"mean": torch.zeros(4), "std": torch.ones(4)}
    picture = {"mean": torch.full((3, 1, 1), 0.45), "std": torch.full((3, 1, 1), 0.2)}
    stats = {"observation.image": picture, "observation.state": four, "action": four}
    for processor in make_pre_post_processors(config, dataset_stats=stats):
        processor.save_pretrained(directory)


if __name__ == "__main__":
    place, task_name, *numbers = sys.argv[1:]
    main(Path(place), task_name, *map(int, numbers))
