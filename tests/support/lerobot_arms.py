"""Run in an environment with LeRobot: make small checkpoints for arms, of each kind.

    python lerobot_arms.py DIRECTORY [smolvla]

They are `metaworld-act`, `libero-diffusion` and so on; their weights are random. `answer.json`
lists them. With `smolvla` there is one, made like `lerobot/smolvla_libero`.
"""

import json
import sys
from pathlib import Path

import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig

from support.lerobot_cases import ACT, DIFFUSION, name_vlm, save, smolvla

KINDS = {
    "act": lambda features: ACTConfig(**{**ACT, **features}),
    "ensemble": lambda features: ACTConfig(
        **{**ACT, **features, "n_action_steps": 1, "temporal_ensemble_coeff": 0.01}
    ),
    "diffusion": lambda features: DiffusionConfig(**{**DIFFUSION, **features}),
}
ARMS = {
    "metaworld": (("observation.image",), 4, 4),
    "libero": (("observation.images.image", "observation.images.image2"), 8, 7),
}
"""The names of the pictures, and the numbers of the state and of an action."""
SIZE = 64


def features(cameras: tuple[str, ...], state: int, action: int) -> dict[str, object]:
    pictures = {name: PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE)) for name in cameras}
    return {
        "input_features": {
            **pictures,
            "observation.state": PolicyFeature(FeatureType.STATE, (state,)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (action,))},
        "device": "cpu",
    }


def statistics(cameras: tuple[str, ...], state: int, action: int) -> dict[str, object]:
    """Such as those of a dataset: means of 0 and deviations of 1, within -1 and 1."""
    pictures = {
        name: {"mean": torch.full((3, 1, 1), 0.45), "std": torch.full((3, 1, 1), 0.2)}
        for name in cameras
    }
    numbers = {
        name: {
            "mean": torch.zeros(count),
            "std": torch.ones(count),
            "min": -torch.ones(count),
            "max": torch.ones(count),
        }
        for name, count in (("observation.state", state), ("action", action))
    }
    return {**pictures, **numbers}


def save_smolvla(directory: Path) -> str:
    """Make a SmolVLA whose config.json is its base model's, and whose processors are LIBERO's."""
    name, vlm = "libero-smolvla", directory / "vlm"
    cameras = tuple(f"observation.images.camera{number}" for number in (1, 2, 3))
    config = smolvla(vlm)
    for field, value in features(cameras, 6, 7).items():
        setattr(config, field, value)
    for feature in cameras:
        config.input_features[feature] = PolicyFeature(FeatureType.VISUAL, (3, 256, 256))
    config.chunk_size = config.n_action_steps = 50
    save(name, config, directory / name, statistics(*ARMS["libero"]))
    path = directory / name / "policy_preprocessor.json"
    content = json.loads(path.read_text())
    (step,) = (s for s in content["steps"] if s["registry_name"].startswith("rename_"))
    renamed = dict(zip(ARMS["libero"][0], cameras, strict=False))
    step["config"] = {"rename_map": renamed}
    path.write_text(json.dumps(content))
    name_vlm(directory / name, vlm)
    return name


def main(directory: Path, *kinds: str) -> list[str]:
    if "smolvla" in kinds:
        return [save_smolvla(directory)]
    names = []
    for arm, parts in ARMS.items():
        for kind, configure in KINDS.items():
            names.append(f"{arm}-{kind}")
            save(
                names[-1],
                configure(features(*parts)),
                directory / names[-1],
                statistics(*parts),
            )
    return names


if __name__ == "__main__":
    place = Path(sys.argv[1])
    (place / "answer.json").write_text(json.dumps(main(place, *sys.argv[2:])))
