"""What run.json says of an evaluation, and what of it is known before any code is executed."""

import json
import shutil
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.run_json import MANIFEST, info_of
from support.run_tools import WALK, WALKERS

import envhub
from envhub import evaluate
from envhub.evaluation.describe import foresee
from envhub.evaluation.request import EvalRequest
from envhub.policies.find import read_policy
from envhub.run_info import WORKER, hash_protocol


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
        *("format", "envhub", "created", "benchmark", "plan", "policy", "conventions", "runtime"),
        *("machine", "protection", "limits", "retries", "protocol"),
        *("reproducible", "shard", "parts", "machines", "seal"),
    ]
    assert (said["format"], said["envhub"]) == (2, envhub.__version__)
    benchmark = said["benchmark"]
    assert (benchmark["ref"], benchmark["kind"], benchmark["name"]) == (str(WALK), "local", "walk")
    assert list(benchmark["files"]) == ["env.py"]
    assert benchmark["env_args"] == {"pause": 0.0}
    assert said["plan"] == {
        "suites": {"long": ["far", "near"]},
        "episodes": 1,
        "seed": 5,
        "seeding": "task",
        "max_steps": 4,
        "instructions": {},
        "reuse": "reset",
        "tasks": {
            name: {
                "horizon": 4,
                "success": "once",
                "init_states": 0,
                "description": f"walk {name}",
            }
            for name in ("far", "near")
        },
        "latency": None,
        "perturbations": {},
        "dimensions": {},
        "part": False,
    }
    policy = said["policy"]
    assert (policy["kind"], policy["ref"]) == ("file", f"{tmp_path}/mine.py")
    assert policy["path"] == f"{tmp_path}/mine.py:make_policy"
    assert (policy["args"], policy["batch"]) == ({"noise": 0.5}, 1)
    assert policy["placement"] == "process"
    assert said["runtime"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["runtime"]["packages"]["numpy"] == np.__version__
    versions = {name: metadata.version(name) for name in said["runtime"]["packages"]}
    assert said["runtime"]["packages"] == versions
    assert said["protection"] == {
        "process": False, "sandbox": "none", "network": True, "memory_mb": None,
    }  # fmt: skip
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


def test_conventions_are_part_of_the_protocol():
    def digest(**more):
        return hash_protocol(info_of({**MANIFEST, "benchmark": {**MANIFEST["benchmark"], **more}}))

    said = {
        digest(),
        digest(conventions={"images": "upright"}),
        digest(lerobot_conventions={"images": "upright"}),
        digest(conventions={"images": "upside_down"}),
    }
    assert len(said) == 4


def test_what_is_not_known_yet_is_as_it_was():
    before = info_of()
    request = EvalRequest("./walk", read_policy("zero"), seed=3, max_steps=7, env_args={"size": 2})
    now = foresee(request, {"kind": "plugin", "files": {"a.py": "sha256:5"}}, before)
    assert (now.plan.seed, now.plan.max_steps, now.plan.episodes) == (3, 7, 2)
    assert (now.benchmark.kind, now.benchmark.files) == ("plugin", {"a.py": "sha256:5"})
    assert (now.benchmark.env_args, now.benchmark.name) == ({"size": 2}, "walk")
    assert (now.policy.sha256, now.envhub, now.runtime.worker) == (
        None, envhub.__version__, WORKER,
    )  # fmt: skip
    assert (now.plan.tasks, now.machine) == (before.plan.tasks, before.machine)
