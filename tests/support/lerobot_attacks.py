"""Checkpoints that try to lead LeRobot to code, by `make_policy` and in a program.

Called by `lerobot_cases.py` in LeRobot's environment. Harmless: the code writes a marker below the
directory that it is given.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from envhub_lerobot import checkpoint, reading
from envhub_lerobot.policy import make_policy

import envhub
from envhub.errors import EnvHubError
from support.guards import taken_away

PRE, POST = "policy_preprocessor.json", "policy_postprocessor.json"
Change = Callable[[Path], None]


def plant(directory: Path) -> Path:
    """Write a classifier whose network is code, which LeRobot loads with `trust_remote_code`."""
    net = directory / "evil" / "net"
    net.mkdir(parents=True)
    marker = directory / "marker"
    (net / "code.py").write_text(
        f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
        "from transformers import PretrainedConfig, PreTrainedModel\n"
        "class Config(PretrainedConfig):\n    model_type = 'planted'\n"
        "class Model(PreTrainedModel):\n    config_class = Config\n"
    )
    classes = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}
    (net / "config.json").write_text(json.dumps({"model_type": "planted", "auto_map": classes}))
    features = {"observation.image": {"type": "VISUAL", "shape": [3, 32, 32]}}
    classifier = {
        "type": "reward_classifier",
        "model_name": str(net),
        "model_type": "transformer",
        "num_cameras": 1,
        "input_features": features,
        "device": "cpu",
    }
    (directory / "evil/config.json").write_text(json.dumps(classifier))
    return directory / "evil"


def add_step(name: str, **entry: object) -> Change:
    """Return what appends a step to the preprocessor of a checkpoint."""

    def change(place: Path) -> None:
        content = json.loads((place / PRE).read_text())
        content["steps"].append({"registry_name": name, **entry})
        (place / PRE).write_text(json.dumps(content))

    return change


def add_class(name: str, **config: object) -> Change:
    """Return what appends a step to the postprocessor that is a class of Python."""

    def change(place: Path) -> None:
        content = json.loads((place / POST).read_text())
        content["steps"].append({"class": name, "config": config})
        (place / POST).write_text(json.dumps(content))

    return change


def edit_step(name: str, **entry: object) -> Change:
    """Return what changes a step of the preprocessor."""

    def change(place: Path) -> None:
        content = json.loads((place / PRE).read_text())
        step = next(one for one in content["steps"] if one["registry_name"] == name)
        step.update(entry)
        (place / PRE).write_text(json.dumps(content))

    return change


def edit_config(**fields: object) -> Change:
    """Return what changes `config.json`."""

    def change(place: Path) -> None:
        path = place / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return change


def attacks(directory: Path, make_env: Callable[[], object]) -> dict[str, object]:
    """Return what is said of each attack, twice, and whether its code ran."""
    evil = plant(directory)
    classifier = "reward_classifier_processor"
    cases = {
        "classifier": add_step(classifier, config={"pretrained_path": str(evil)}),
        "relative classifier": add_step(classifier, config={"pretrained_path": "evil"}),
        "state file": edit_step("normalizer_processor", state_file="../evil/x.safetensors"),
        "weights as state": edit_step("normalizer_processor", state_file="model.safetensors"),
        "field": edit_step("device_processor", config={"device": "cpu", "hook": "x"}),
        "path": edit_step("rename_observations_processor", config={"rename_map": {"a": "/etc"}}),
        "tokenizer": add_step("tokenizer_processor", config={"tokenizer_name": str(evil)}),
        "class": add_step("device_processor", **{"class": "os.system"}, module="os"),
        "program": add_class("subprocess.Popen", args=["touch", str(directory / "marker")]),
        "config": edit_config(later_path=str(evil)),
        "config name": edit_config(later_name="owner/repo"),
        "encoder": edit_config(vision_encoder_name=str(evil / "net")),
    }
    answer: dict[str, object] = {}
    with working_in(directory):
        for name, change in cases.items():
            place = directory / f"attack-{name}"
            shutil.copytree(directory / "act", place)
            change(place)
            answer[name] = [
                refusal(lambda place=place: made(place, make_env)),
                refusal(lambda place=place: envhub.load_lerobot_policy(place)),
            ]
        answer |= swaps(directory, make_env)
        answer["ran"] = (directory / "marker").exists()
        with taken_away("checkpoints"):
            try:
                made(directory / "attack-program", make_env)
            except TypeError as exc:  # LeRobot's own, after it has made the step
                answer["unchecked"] = str(exc)
    return answer | {"ran unchecked": appears(directory / "marker")}


def appears(path: Path) -> bool:
    """Whether a file is there within some seconds, which a program may need to make it."""
    for _ in range(100):
        if path.exists():
            return True
        time.sleep(0.1)
    return False


def swaps(directory: Path, make_env: Callable[[], object]) -> dict[str, object]:
    """Return what is said of files that change between the host's check and LeRobot's reading."""
    (state,) = (path.name for path in (directory / "act").glob("policy_pre*.safetensors"))
    answer: dict[str, object] = {}
    for name in ("config.json", PRE, state, "model.safetensors"):
        place = directory / f"swap-{name}"
        shutil.copytree(directory / "act", place)
        checked = dict(checkpoint.read_checkpoint(place).checked)
        data, times = (place / name).read_bytes(), (place / name).stat()
        other = data + b" " if name.endswith(".json") else data[:-1] + bytes([data[-1] ^ 1])
        (place / name).write_bytes(other)
        os.utime(place / name, ns=(times.st_atime_ns, times.st_mtime_ns))  # as an attacker would
        answer[f"swap {name.partition('_step')[0]}"] = refusal(
            lambda place=place, checked=checked: made(place, make_env, checked=checked)
        )
    return answer | {"during": during(directory, make_env)}


def during(directory: Path, make_env: Callable[[], object]) -> str | None:
    """Return what is said if the weights change while LeRobot reads them."""
    place = directory / "swap-during"
    shutil.copytree(directory / "act", place)
    contents = reading.read_contents(place)

    def load() -> None:
        with reading.private_copy(contents, {}, {}) as copy:
            names = sorted(path.name for path in copy.iterdir())
            assert names == sorted({*contents.hashes, *contents.states, "model.safetensors"})
            assert copy.stat().st_mode & 0o077 == 0
            weights = place / "model.safetensors"
            weights.rename(place / "old")  # what LeRobot gets stays what was opened
            weights.write_bytes(b"other")
            assert (copy / "model.safetensors").read_bytes() == (place / "old").read_bytes()
            with (place / "old").open("r+b") as file:
                file.write(b"!")

    return refusal(load)


def made(place: Path, make_env: Callable[[], object], **more: object) -> object:
    env = make_env()
    spaces = env.observation_space, env.action_space
    return make_policy(SimpleNamespace(name="walk", lerobot=None), *spaces, str(place), **more)


def refusal(load: Callable[[], object]) -> str | None:
    """Return what EnvHub says; None if it loads."""
    try:
        load()
    except EnvHubError as exc:
        return str(exc)
    return None


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
