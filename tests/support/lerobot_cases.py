"""Run in an environment with LeRobot: make small checkpoints, and act with them in two ways.

    python lerobot_cases.py DIRECTORY ENV_FILE [NAME...]

With names, only these checkpoints are made and compared, and nothing is refused.

LeRobot's own loop plays episode after episode with `select_action`. EnvHub's policy acts for all
of them at once, in an order that is drawn. One process does everything, because importing LeRobot
takes most of the time. The answer is a file `answer.json` in the directory.
"""

import importlib.util
import json
import random
import shutil
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import lerobot
import numpy as np
import torch
from envhub_lerobot.acting import Chunk
from envhub_lerobot.policy import make_policy
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

import envhub
from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError
from envhub.observations import to_lerobot
from envhub.wire.policy_contract import Context, make_rng
from envhub.worker.policy.caller import PolicyCaller
from support import lerobot_steps
from support.lerobot_attacks import attacks

TASK = "lerobot_walk"
SEEDS = range(6)
INPUTS = {
    "observation.image": PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
    "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
}
OUTPUTS = {"action": PolicyFeature(FeatureType.ACTION, (2,))}
FEATURES = {"input_features": INPUTS, "output_features": OUTPUTS, "device": "cpu"}
ACT = {
    **FEATURES,
    "chunk_size": 8,
    "n_action_steps": 5,
    "dim_model": 32,
    "n_heads": 2,
    "dim_feedforward": 64,
    "n_encoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "latent_dim": 8,
    "pretrained_backbone_weights": None,
}
DIFFUSION = {
    **FEATURES,
    "n_obs_steps": 2,
    "horizon": 8,
    "n_action_steps": 6,
    "down_dims": (16, 32),
    "n_groups": 4,
    "diffusion_step_embed_dim": 16,
    "spatial_softmax_num_keypoints": 4,
    "use_group_norm": True,  # another default in 0.6, which needs larger pictures
    "crop_shape": None,
    "pretrained_backbone_weights": None,
    "num_train_timesteps": 6,
}
CONFIGS = {
    "act": lambda: ACTConfig(**ACT),
    "ensemble": lambda: ACTConfig(**{**ACT, "n_action_steps": 1, "temporal_ensemble_coeff": 0.01}),
    "diffusion": lambda: DiffusionConfig(**DIFFUSION),
    "ddim": lambda: DiffusionConfig(**{**DIFFUSION, "noise_scheduler_type": "DDIM"}),
    "back3": lambda: DiffusionConfig(**{**DIFFUSION, "n_obs_steps": 3, "n_action_steps": 2}),
}
KINDS = ("act", "ensemble", "diffusion")
"""One of each way to act, which are made if none is named."""
STATS = {
    "observation.image": {k: torch.full((3, 1, 1), v) for k, v in (("mean", 0.45), ("std", 0.2))},
    "observation.state": {
        "mean": torch.tensor([0.1, 0.0, -0.1, 0.2]),
        "std": torch.tensor([0.5, 0.6, 0.7, 0.8]),
        "min": torch.full((4,), -2.0),
        "max": torch.full((4,), 2.0),
    },
    "action": {
        "mean": torch.tensor([0.1, -0.1]),
        "std": torch.tensor([0.3, 0.4]),
        "min": torch.tensor([-1.0, -0.9]),
        "max": torch.tensor([1.0, 0.9]),
    },
}


VLM = "tests/tiny-vlm"
"""The model that the checkpoint `smolvla` names; its files are in the directory `vlm`."""


def smolvla(vlm: Path):
    """A small SmolVLA, and the description and tokenizer that it is made of."""
    from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig

    save_vlm(vlm)
    return SmolVLAConfig(
        **FEATURES,
        vlm_model_name=str(vlm),
        chunk_size=8,
        n_action_steps=5,
        max_state_dim=8,
        max_action_dim=8,
        resize_imgs_with_padding=(64, 64),
        tokenizer_max_length=8,
        pad_language_to="max_length",
        num_steps=3,
        num_vlm_layers=2,
        expert_width_multiplier=0.5,
    )


def save_vlm(directory: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import (
        PreTrainedTokenizerFast,
        SmolVLMConfig,
        SmolVLMImageProcessor,
        SmolVLMProcessor,
        SmolVLMVideoProcessor,
    )

    special = {
        "fake_image_token": "<fake_token_around_image>",
        "image_token": "<image>",
        "global_image_token": "<global-img>",
        "end_of_utterance_token": "<end_of_utterance>",
    }
    words = ["<unk>", "<pad>", "<s>", "</s>", *special.values(), *["walk", "to", "the", "middle"]]
    table = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, "<unk>"))
    table.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=table,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens=special,
    )
    SmolVLMProcessor(
        SmolVLMImageProcessor(), tokenizer, SmolVLMVideoProcessor(), image_seq_len=4
    ).save_pretrained(directory)
    SmolVLMConfig(
        image_token_id=words.index("<image>"),
        scale_factor=2,
        text_config={
            "model_type": "llama",
            "vocab_size": len(words),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 256,
            "pad_token_id": 1,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
        },
    ).save_pretrained(directory)


def name_vlm(directory: Path, vlm: Path) -> None:
    """Let a checkpoint name the model instead of the directory that it was made of."""
    for name in ("config.json", "policy_preprocessor.json"):
        path = directory / name
        text = path.read_text()
        assert str(vlm) in text, name
        path.write_text(text.replace(str(vlm), VLM))


def save(name: str, config, directory: Path, stats=STATS) -> None:
    """Write a checkpoint with random weights."""
    torch.manual_seed(len(name))
    get_policy_class(config.type)(config).save_pretrained(directory)
    for processor in make_pre_post_processors(config, dataset_stats=stats):
        processor.save_pretrained(directory)


def own_loop(directory: Path, make_env, vlm: Path | None = None) -> list[np.ndarray]:
    """The actions of LeRobot's own use: one episode after the other."""
    from lerobot.configs.policies import PreTrainedConfig

    config = PreTrainedConfig.from_pretrained(directory)
    overrides = {}
    if vlm is not None:
        config.vlm_model_name = str(vlm)
        overrides = {"tokenizer_processor": {"tokenizer_name": str(vlm)}}
    policy = get_policy_class(config.type).from_pretrained(directory, config=config, strict=True)
    pre, post = make_pre_post_processors(config, str(directory), preprocessor_overrides=overrides)
    return play(policy, pre, post, make_env)


def play(policy, pre, post, make_env) -> list[np.ndarray]:
    """The actions of one episode after the other, with `select_action`."""
    taken = []
    for seed in SEEDS:
        env = make_env()
        observation, _ = env.reset(seed=seed)
        torch.manual_seed(int(make_rng(seed, TASK).integers(2**63 - 1)))
        policy.reset()
        actions = []
        for _ in range(env._max_episode_steps):
            frame = {
                "observation.image": torch.from_numpy(observation["pixels"].copy())
                .permute(2, 0, 1)[None]
                .contiguous()
                .float()
                / 255,
                "observation.state": torch.from_numpy(observation["agent_pos"])[None].float(),
                "task": [env.task_description],
            }
            with torch.inference_mode():
                action = post(policy.select_action(pre(frame)))
            actions.append(action.numpy()[0].copy())
            observation, *_ = env.step(actions[-1])
        taken.append(np.stack(actions))
    return taken


def ours(directory: Path, make_env, order: int, most: int = 6, **arguments):
    """The actions of EnvHub's policy, acting for episodes in an order that is drawn."""
    rng, env = random.Random(order), make_env()
    policy = make_policy(
        SimpleNamespace(name=TASK, lerobot=None),
        env.observation_space,
        env.action_space,
        str(directory),
        **arguments,
    )
    pixels = "pixels/top" if isinstance(env.reset(seed=0)[0]["pixels"], dict) else "pixels"
    caller = PolicyCaller(policy, [pixels, "agent_pos", "unread"], env.action_space)
    envs = [make_env() for _ in SEEDS]
    seen = [env.reset(seed=seed)[0] for seed, env in zip(SEEDS, envs, strict=True)]
    contexts = [
        Context(TASK, TASK, env.task_description, seed, seed, rng=make_rng(seed, TASK))
        for seed in SEEDS
    ]
    taken, looks, begun = [[] for _ in SEEDS], 0, set()
    while left := [row for row in SEEDS if len(taken[row]) < env._max_episode_steps]:
        rows = rng.sample(left, rng.randint(1, min(most, len(left))))
        looks += len(rows)
        for row in {*rows} - begun:  # while others are under way
            caller.start(contexts[row])
        begun |= {*rows}
        batch = {key: stacked([seen[row][key] for row in rows]) for key in ("pixels", "agent_pos")}
        for row, chunk in zip(rows, caller.act(batch, [contexts[r] for r in rows]), strict=True):
            for action in chunk[: env._max_episode_steps - len(taken[row])]:
                taken[row].append(action)
                seen[row], *_ = envs[row].step(action)
            contexts[row].step = len(taken[row])
    return [np.stack(actions) for actions in taken], looks, caller.facts


def stacked(values):
    if isinstance(values[0], dict):
        return {key: stacked([value[key] for value in values]) for key in values[0]}
    return np.stack(values)


def refusals(directory: Path, make_env) -> dict[str, str]:
    """What is said of checkpoints that cannot be evaluated."""
    said = {}

    def try_(name: str, kind: str, change=lambda place: None, space=None, **arguments) -> None:
        place = directory / f"bad-{name}"
        shutil.copytree(directory / kind, place)
        change(place)
        env = make_env()
        try:
            make_policy(
                SimpleNamespace(name=TASK, lerobot=None),
                space or env.observation_space,
                env.action_space,
                str(place),
                **arguments,
            )
        except ContractError as exc:
            said[name] = str(exc)

    def config(**more):
        def change(place: Path) -> None:
            path = place / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | more))

        return change

    def weights(edit):
        def change(place: Path) -> None:
            from safetensors.torch import load_file, save_file

            tensors = load_file(place / "model.safetensors")
            edit(tensors)
            save_file(tensors, place / "model.safetensors")

        return change

    def tokenizer(place: Path) -> None:
        path = place / "policy_preprocessor.json"
        steps = json.loads(path.read_text())
        settings = {"tokenizer_name": "tests/absent", "max_length": 4}
        steps["steps"].append({"registry_name": "tokenizer_processor", "config": settings})
        path.write_text(json.dumps(steps))

    def lose(tensors) -> None:
        for key in sorted(tensors)[:5]:
            del tensors[key]

    from gymnasium import spaces

    parts = dict(make_env().observation_space.spaces)
    wide = spaces.Dict({**parts, "pixels": spaces.Box(0, 255, (48, 48, 3), np.uint8)})
    named = spaces.Dict({**parts, "pixels": spaces.Dict({"top": parts["pixels"]})})
    blind = spaces.Dict({"agent_pos": parts["agent_pos"]})
    try_("type", "act", config(type="walker"))
    try_("field", "act", config(later_field=3))
    try_("missing weights", "act", weights(lose))
    try_("other weights", "act", weights(lambda t: t.update(new=torch.zeros(1))))
    try_("peft", "act", config(use_peft=True))
    try_("relative", "act", config(use_relative_actions=True))
    try_("size", "act", space=wide)
    try_("camera", "act", space=named)
    try_("blind", "act", space=blind)
    actions = {"action": {"type": "ACTION", "shape": [7]}}
    try_("actions", "act", config(output_features=actions))
    try_("swap batch", "ensemble", batch=8)
    try_("batch", "act", batch=0)
    try_("steps", "act", n_action_steps=9)
    try_("device", "act", device="cuda:7")
    try_("rename", "act", rename="observation.images.top")
    try_("renamed", "act", rename="observation.images.top=observation.image")
    try_("tokenizer", "act", tokenizer)
    try_("fits", "act", space=named, rename="observation.images.top=observation.image")
    inputs = {
        key: {"type": each.type.value, "shape": [*each.shape]} for key, each in INPUTS.items()
    }
    longer = {"observation.state": {"type": "STATE", "shape": [6]}}
    third = {"observation.images.third": inputs["observation.image"]}
    for kind in ("act", "diffusion"):
        try_(f"{kind} state", kind, config(input_features=inputs | longer))
        try_(f"{kind} no action", kind, lambda place: leave_out(place, "post", "action"))
        try_(f"{kind} no state", kind, lambda place: leave_out(place, "pre", "observation.state"))
        try_(f"{kind} third", kind, config(input_features=inputs | third))
        try_(f"{kind} wide", kind, space=wide)
    return said


def leave_out(place: Path, processor: str, feature: str) -> None:
    """Take a feature's statistics out of a checkpoint."""
    from safetensors.torch import load_file, save_file

    (path,) = place.glob(f"policy_{processor}processor_step_*.safetensors")
    tensors = load_file(path)
    kept = {key: value for key, value in tensors.items() if not key.startswith(f"{feature}.")}
    assert len(kept) < len(tensors)
    save_file(kept, path)


def renamed(directory: Path, make_env) -> dict[str, object]:
    """Act with a checkpoint that remembers the names of its training, where cameras have those."""

    class Named(make_env):
        def __init__(self):
            super().__init__()
            parts = dict(self.observation_space.spaces)
            parts["pixels"] = type(self.observation_space)({"top": parts["pixels"]})
            self.observation_space = type(self.observation_space)(parts)

        def reset(self, **words):
            observation, info = super().reset(**words)
            return self._named(observation), info

        def step(self, action):
            observation, *rest = super().step(action)
            return self._named(observation), *rest

        def _named(self, observation):
            return {**observation, "pixels": {"top": observation["pixels"]}}

    answer: dict[str, object] = {}
    for kind in ("act", "diffusion"):
        place = directory / f"renamed-{kind}"
        shutil.copytree(directory / kind, place)
        path = place / "policy_preprocessor.json"
        content = json.loads(path.read_text())
        (step,) = (s for s in content["steps"] if s["registry_name"].startswith("rename_"))
        step["config"] = {"rename_map": {"observation.images.top": "observation.image"}}
        path.write_text(json.dumps(content))
        own = np.load(directory / f"{kind}.npz")
        taken, _, facts = ours(place, Named, 1)
        equal = same([own[key] for key in own.files], taken)
        answer[kind] = {"equal": equal, "remarks": list(facts.remarks)}
    return answer


def conventions(directory: Path, make_env) -> dict[str, object]:
    """What a checkpoint declares by its file and by an argument, and what its state says."""
    place = directory / "declared"
    shutil.copytree(directory / "act", place)
    declared = {"conventions": {"gripper": "width", "frame": "ee"}}
    (place / "envhub.json").write_text(json.dumps(declared))
    _, _, facts = ours(place, make_env, 1, conventions="frame=world,control_hz=20")
    env = make_env()
    task = Task("a", "a", 5)
    said = {}
    for layout in ("ee_axis_angle_gripper", "ee_position_gripper"):
        benchmark = Benchmark(
            "arm",
            ":make",
            {"all": (task,)},
            lerobot=":convert",
            lerobot_conventions={"state": layout},
        )
        try:
            make_policy(benchmark, env.observation_space, env.action_space, str(place))
            said[layout] = None
        except ContractError as exc:
            said[layout] = str(exc)
    return {"declared": dict(facts.conventions), "state": said}


def outliers(directory: Path, make_env) -> dict[str, list[dict[str, object]]]:
    """What is said of states, of a checkpoint that knows such states and of one that does not."""
    from safetensors.torch import load_file, save_file

    far = directory / "far"
    shutil.copytree(directory / "act", far)
    (path,) = far.glob("policy_preprocessor_step_*.safetensors")
    tensors = load_file(path)
    for key in ("mean", "min", "max"):
        tensors[f"observation.state.{key}"][2] += 100
    save_file(tensors, path)
    env, found = make_env(), {}
    for name in ("act", "far"):
        benchmark = SimpleNamespace(name=TASK, lerobot=None)
        spaces = env.observation_space, env.action_space
        policy = make_policy(benchmark, *spaces, str(directory / name))
        caller = PolicyCaller(policy, ["pixels", "agent_pos", "unread"], env.action_space)
        seen, _ = env.reset(seed=0)
        for index in (1, 0):  # only a task's first episode counts
            episode = Context(TASK, TASK, "walk", index, 0, rng=make_rng(0, TASK))
            caller.start(episode)
            caller.act({key: value[None] for key, value in seen.items()}, [episode])
            found[f"{name} {index}"] = [asdict(one) for one in caller.take_outliers()]
    return found


def draws() -> dict[str, object]:
    """Draws that have no rows."""
    from envhub_lerobot.draws import start_stream, streams_of

    answers: dict[str, object] = {}
    for name, draw in {
        "rows": lambda: torch.randn(2, 3).sum(),
        "like": lambda: torch.rand_like(torch.zeros(2, 3)).sum(),
        "shape": lambda: torch.randn(3, 3),
        "normal": lambda: torch.normal(0.0, 1.0, size=(2, 3)).sum(),
        "each": lambda: torch.normal(torch.zeros(2, 3), 1.0),
        "method": lambda: torch.zeros(2, 3).normal_(),
        "multinomial": lambda: torch.multinomial(torch.ones(2, 3), 1),
    }.items():
        contexts = [Context("s", "t", "d", k, k, rng=make_rng(k, "t")) for k in range(2)]
        for context in contexts:
            start_stream(context)
        before = torch.get_rng_state()
        try:
            with streams_of(contexts):
                draw()
            answers[name] = None
        except ContractError as exc:
            answers[name] = str(exc)
        assert torch.equal(before, torch.get_rng_state())
    return answers | {"checkpoint": draw_in_a_call()}


def draw_in_a_call() -> str | None:
    """What is said of a network that draws something without rows when it is called with two."""
    network = SimpleNamespace(
        config=SimpleNamespace(n_action_steps=2),
        predict_action_chunk=lambda frame: (
            frame["x"][:, None].expand(2, 2, 1) + torch.randn(3).sum()
        ),
    )
    acting = Chunk(network, lambda actions: actions, 2)
    contexts = [Context("s", "t", "d", k, k, rng=make_rng(k, "t")) for k in range(2)]
    for context in contexts:
        acting.start(context)
    try:
        acting.act([{"x": torch.zeros(1, 1)}] * 2, contexts)
    except ContractError as exc:
        return str(exc)
    return None


def in_a_program(directory: Path, env_file: str) -> dict[str, object]:
    """What a program does that loads checkpoints itself: a loop of its own, and an evaluation."""
    policy = envhub.load_lerobot_policy(directory / "act")
    place = Path(env_file).parent
    ((suite, envs),) = envhub.make_env(place, n_envs=len(SEEDS)).items()
    ((task, env),) = envs.items()
    episodes = [Context(suite, task, "walk to the middle", seed, seed) for seed in SEEDS]
    for episode in episodes:
        policy.start(episode)
    observation, _ = env.reset(seed=list(SEEDS))
    steps: list[np.ndarray] = []
    truncated = np.zeros(1)
    while not truncated.any():
        texts = [episode.description for episode in episodes]
        chunks = policy.act(to_lerobot(observation, texts), episodes)
        for actions in torch.stack(chunks, dim=1).numpy():
            observation, _, _, truncated, _ = env.step(actions)
            steps.append(actions.copy())
            if truncated.any():
                break
    env.close()
    wrong = {"observation.state": torch.zeros(1, 4), "task": ["walk"]}
    try:
        policy.act(wrong, episodes[:1])
        said = None
    except ContractError as exc:
        said = str(exc)
    noisy = envhub.load_lerobot_policy(str(directory / "diffusion"), rename={}, threads=1)
    run = envhub.evaluate(
        place, noisy, episodes=6, workers=2, seeding="shared", out=directory / "program-run"
    )
    taken = [np.load(run.directory / "actions" / f"{k}.npy") for k in SEEDS]
    np.savez(directory / "program-loop.npz", *np.stack(steps, axis=1))
    np.savez(directory / "program-run.npz", *taken)
    return {"said": said, "policy": dict(run.info["policy"])}


def same(a, b) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def load_walk(env_file: str):
    spec = importlib.util.spec_from_file_location("walk", env_file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Walk


def compare(name: str, directory: Path, make_env) -> dict[str, object]:
    """Make a checkpoint and act with it in both ways."""
    began = time.monotonic()
    place, vlm = directory / name, None
    arguments: dict[str, object] = {}
    if name == "smolvla":
        vlm = directory / "vlm"
        save(name, smolvla(vlm), place)
        name_vlm(place, vlm)
        arguments["models"] = {VLM: str(vlm)}
    else:
        save(name, CONFIGS[name](), place)
    own = own_loop(place, make_env, vlm)
    np.savez(directory / f"{name}.npz", *own)
    one, looks, facts = ours(place, make_env, order=1, **arguments)
    answer = {
        "equal": same(own, one),
        "looks": looks,
        "needs": sorted(facts.needs),
        "about": dict(facts.about),
        "batch": facts.batch,
        "remarks": list(facts.remarks),
        "seconds": time.monotonic() - began,
        "varied": not same(own[:1], own[1:2]),
    }
    if name in ("act", "diffusion", "smolvla"):
        eights = [ours(place, make_env, k, batch=8, **arguments)[0] for k in (1, 2)]
        near = max(float(np.abs(x - y).max()) for x, y in zip(own, eights[0], strict=True))
        answer |= {"eight": same(*eights), "near": near}
    return answer


WRIST = "observation.images.wrist_image"
"""A name with an underscore, which LeRobot's own conversion loses the statistics of."""
MODES = {
    "old-act": ("MEAN_STD", "MEAN_STD", "MEAN_STD"),
    "old-act-ranges": ("MIN_MAX", "MIN_MAX", "MIN_MAX"),
    "old-diffusion": ("MEAN_STD", "MIN_MAX", "MIN_MAX"),
    "old-diffusion-deviations": ("IDENTITY", "MEAN_STD", "MEAN_STD"),
}
"""How pictures, states and actions are normalized."""


def compare_old(name: str, directory: Path, make_env) -> dict[str, object]:
    """Act with a checkpoint as LeRobot 0.3.3 saved it, and with its formulas, written again."""
    from lerobot.configs.types import NormalizationMode
    from safetensors.torch import save_file

    place = directory / name
    inputs = {WRIST: INPUTS["observation.image"], "observation.state": INPUTS["observation.state"]}
    visual, state, action = map(NormalizationMode, MODES[name])
    mapping = {"VISUAL": visual, "STATE": state, "ACTION": action}
    more = {"input_features": inputs, "normalization_mapping": mapping}
    config = DiffusionConfig(**DIFFUSION | more) if "diff" in name else ACTConfig(**ACT | more)
    torch.manual_seed(len(name))
    policy = get_policy_class(config.type)(config).eval()
    stats = {**STATS, WRIST: STATS["observation.image"]}
    stats[WRIST] |= {"min": torch.zeros(3, 1, 1), "max": torch.full((3, 1, 1), 0.9)}
    buffers = {}
    for part, features in (("normalize_inputs", inputs), ("unnormalize_outputs", OUTPUTS)):
        for feature, each in features.items():
            keys = {"MEAN_STD": ("mean", "std"), "MIN_MAX": ("min", "max"), "IDENTITY": ()}
            for key in keys[mapping[each.type.value].value]:
                buffer = f"{part}.buffer_{feature.replace('.', '_')}.{key}"
                buffers[buffer] = stats[feature][key]
    targets = {k.replace("unnormalize_outputs", "normalize_targets"): v for k, v in buffers.items()}
    policy.config.save_pretrained(place)
    weights = {key: value.contiguous() for key, value in policy.state_dict().items()}
    save_file(
        {**weights, **{k: v.clone() for k, v in {**targets, **buffers}.items()}},
        place / "model.safetensors",
    )

    def normalize(frame):
        new = dict(frame)
        for feature, each in inputs.items():
            mode, known = mapping[each.type.value].value, stats[feature]
            if mode == "MEAN_STD":
                new[feature] = (frame[feature] - known["mean"]) / (known["std"] + 1e-8)
            elif mode == "MIN_MAX":
                part = (frame[feature] - known["min"]) / (known["max"] - known["min"] + 1e-8)
                new[feature] = part * 2 - 1
        return new

    def unnormalize(taken):
        known = stats["action"]
        if action.value == "MEAN_STD":
            return taken * known["std"] + known["mean"]
        return (taken + 1) / 2 * (known["max"] - known["min"]) + known["min"]

    def before(frame):
        frame = {**frame, WRIST: frame["observation.image"]}
        return normalize({key: frame[key] for key in inputs})

    own = play(policy, before, unnormalize, make_env)
    one, _, facts = ours(place, make_env, 1, rename=f"observation.image={WRIST}")
    return {
        "equal": same(own, one),
        "varied": not same(own[:1], own[1:2]),
        "about": dict(facts.about),
        "remarks": list(facts.remarks),
    }


def old_refusals(directory: Path, make_env) -> dict[str, str]:
    """What is said of old checkpoints whose statistics are not as config.json says."""
    from safetensors.torch import load_file, save_file

    tensors, said = load_file(directory / "old-act/model.safetensors"), {}
    state = "normalize_inputs.buffer_observation_state"
    changes = {
        "missing": {f"{state}.std": None},
        "never set": {f"{state}.std": torch.full((4,), torch.inf)},
        "size": {f"{state}.std": torch.ones(6)},
        "of nothing": {"normalize_inputs.so100_buffer_observation_state.mean": torch.ones(4)},
        "weights": {"model.new": torch.ones(1)},
    }
    for name, change in changes.items():
        place = directory / f"old-{name}"
        shutil.copytree(directory / "old-act", place)
        kept = {k: v for k, v in {**tensors, **change}.items() if v is not None}
        save_file(kept, place / "model.safetensors")
        try:
            ours(place, make_env, 1, rename=f"observation.image={WRIST}")
        except ContractError as exc:
            said[name] = str(exc)
    return said


def main(directory: Path, env_file: str, *names: str) -> dict[str, object]:
    walk = load_walk(env_file)
    torch.set_num_threads(1)
    answer: dict[str, object] = {"version": lerobot.__version__}
    for name in names or KINDS:
        how = compare_old if name in MODES else compare
        answer[name] = how(name, directory, walk)
    return answer if names else answer | others(directory, walk, env_file)


def others(directory: Path, walk, env_file: str) -> dict[str, object]:
    """Everything that is not about equal actions."""
    answer: dict[str, object] = {}
    _, looks, _ = ours(directory / "act", walk, 1, n_action_steps=2)
    answer["fewer"] = {"looks": looks, "threads": torch.get_num_threads()}
    shutil.copytree(directory / "act", directory / "cuda")
    path = directory / "cuda/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"device": "cuda"}))
    _, _, facts = ours(directory / "cuda", walk, 1)
    answer["cuda"] = {"remarks": list(facts.remarks), "device": facts.about["device"]}
    answer["refusals"] = refusals(directory, walk)
    answer["old-act"] = compare_old("old-act", directory, walk)
    answer["old refusals"] = old_refusals(directory, walk)
    answer["renamed"] = renamed(directory, walk)
    answer["conventions"] = conventions(directory, walk)
    answer["outliers"] = outliers(directory, walk)
    answer["draws"] = draws()
    answer["attacks"] = attacks(directory, walk)
    answer["program"] = in_a_program(directory, env_file)
    answer["steps"] = lerobot_steps.main()
    return answer


if __name__ == "__main__":
    place = Path(sys.argv[1])
    try:
        result = main(place, *sys.argv[2:])
    except Exception:
        result = {"error": traceback.format_exc()}
    (place / "answer.json").write_text(json.dumps(result, indent=1))
