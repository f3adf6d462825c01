"""What run.json says, and which runs can be compared."""

import json
import shutil
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.run_tools import WALK, WALKERS

import envhub
from envhub import evaluate


class Still:
    """A policy object."""

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_what_run_json_says(out, tmp_path):
    shutil.copy(WALKERS, tmp_path / "mine.py")
    run = evaluate(
        str(WALK),
        f"{tmp_path}/mine.py",
        suites=["long"],
        episodes=1,
        seed=5,
        workers=0,
        max_steps=4,
        env_args={"pause": 0.0},
        policy_args={"noise": 0.5},
        limits=envhub.Limits(step=7),
        retries=3,
        out=out,
    )
    said = json.loads((out / "run.json").read_text())
    assert run.info == said
    assert list(said) == [
        *("format", "envhub", "created", "benchmark", "plan", "policy", "runtime", "protection"),
        *("limits", "retries", "protocol", "seal"),
    ]
    assert (said["format"], said["envhub"]) == (1, envhub.__version__)
    benchmark = said["benchmark"]
    assert (benchmark["ref"], benchmark["kind"], benchmark["name"]) == (str(WALK), "local", "walk")
    assert list(benchmark["files"]) == ["env.py"]
    assert benchmark["env_args"] == {"pause": 0.0}
    assert said["plan"] == {
        "suites": {"long": ["far", "near"]},
        "episodes": 1,
        "seed": 5,
        "max_steps": 4,
        "reuse": "reset",
        "tasks": {
            name: {"horizon": 4, "success": "once", "init_states": 0} for name in ("far", "near")
        },
    }
    policy = said["policy"]
    assert (policy["kind"], policy["ref"]) == ("named", f"{tmp_path}/mine.py")
    assert policy["path"] == f"{tmp_path}/mine.py:make_policy"
    assert (policy["args"], policy["batch"]) == ({"noise": 0.5}, None)
    assert policy["placement"] == "process"
    assert said["runtime"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["runtime"]["packages"]["numpy"] == np.__version__
    versions = {name: metadata.version(name) for name in said["runtime"]["packages"]}
    assert said["runtime"]["packages"] == versions
    assert said["protection"]["process"] is False
    assert (said["limits"]["step"], said["retries"]) == (7, 3)


def protocol(out: Path, ref: object = WALK, policy: object = "zero", **question: object) -> str:
    question = {"tasks": "near", "episodes": 1, "max_steps": 2, "workers": 0, **question}
    run = evaluate(str(ref), policy, out=out, **question)
    assert run.info["protocol"].startswith("sha256:")
    return str(run.info["protocol"])


def test_the_protocol_is_the_same(tmp_path):
    shutil.copytree(WALK, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("__pycache__"))
    said = {
        protocol(tmp_path / "0"),
        protocol(tmp_path / "1", policy=Still()),
        protocol(tmp_path / "2", WALK / "env.py", suites=["long"], retries=5),
        protocol(tmp_path / "3", tmp_path / "elsewhere", workers=1),
    }
    assert len(said) == 1


def test_the_protocol_is_another(tmp_path):
    shutil.copytree(WALK, tmp_path / "changed")
    with (tmp_path / "changed" / "env.py").open("a") as file:
        file.write("# a word\n")
    said = [
        protocol(tmp_path / "0"),
        protocol(tmp_path / "1", seed=1),
        protocol(tmp_path / "2", episodes=2),
        protocol(tmp_path / "3", max_steps=3),
        protocol(tmp_path / "4", tasks="far"),
        protocol(tmp_path / "5", env_args={"silent": True}),
        protocol(tmp_path / "6", tmp_path / "changed"),
    ]
    assert len(set(said)) == len(said)
