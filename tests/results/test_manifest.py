"""What run.json says, and which runs can be compared."""

import json
import shutil
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.run_json import MANIFEST, changed
from support.run_tools import WALK, WALKERS

import envhub
from envhub import evaluate
from envhub.errors import RunDirectoryError
from envhub.results.manifest import check_same, hash_protocol


class Still:
    """A policy object."""

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_conventions_are_part_of_the_protocol():
    benchmark = {**MANIFEST["benchmark"], "assets": {}}

    def digest(**more):
        packages = MANIFEST["runtime"]["packages"]
        return hash_protocol({**benchmark, **more}, MANIFEST["plan"], packages)

    plain, none = digest(), digest(conventions={}, lerobot_conventions={})
    assert plain == none  # runs from before there were any
    raw = digest(conventions={"images": "upright"})
    lerobot = digest(lerobot_conventions={"images": "upright"})
    assert len({plain, raw, lerobot, digest(conventions={"images": "upside_down"})}) == 4


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
        *("machine", "protection", "limits", "retries", "protocol", "seal"),
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
    assert said["protection"] == {
        "process": False, "sandbox": "none", "network": True, "memory_mb": None,
        "differences": None,
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


def test_the_same_question():
    check_same(MANIFEST, MANIFEST, Path("run"))
    check_same(MANIFEST, {"policy": {}, "plan": {"seed": 0}}, Path("run"))


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        ("policy.path", "/there/policy.py:make_policy"),
        ("policy.ref", "/there/policy.py:make_policy"),
        ("policy.batch", 4),
        ("policy.directory", "/there"),
        ("created", "2027-01-01T12:00:00+00:00"),
    ],
)
def test_what_may_change(dotted, value):
    check_same(MANIFEST, changed(dotted, value), Path("run"))


@pytest.mark.parametrize(
    ("dotted", "value", "said"),
    [
        ("benchmark.env_args", {"size": True}, "--env-arg size that run was begun with is 1, and"),
        ("benchmark.env_args", {}, "--env-arg size that run was begun with is 1, and now it is no"),
        ("benchmark.env_args", {"size": 1, "x": None}, "--env-arg x that run was begun with is"),
        ("benchmark.files", {"env.py": "sha256:3"}, "benchmark's file env.py that run was begun"),
        ("benchmark.name", "run", "The benchmark that run was begun with is walk, and now it is r"),
        ("plan.suites", {"long": ["far", "near"], "short": ["near"]}, "The order of tasks that"),
        ("plan.suites", {"short": ["near"], "long": ["far"]}, "The suite long that run was begun"),
        ("plan.reuse", "rebuild", "The reuse of envs that run was begun with is reset, and now"),
        ("policy.path", None, "is make_policy of a file, and now it is ./policy.py. Restore it"),
        ("policy.imports", {"a.py": "sha256:5"}, "The policy's imported file a.py that run was"),
        ("policy.files", {"a": "sha256:4"}, "The file of --policy-arg a that run was begun with"),
        ("runtime.packages", {"numpy": "2.1"}, "The package numpy that run was begun with is 2.0"),
        ("protocol", "x" * 99, f"and now it is {'x' * 80}.... Restore it"),
    ],
)
def test_another_question(dotted, value, said):
    with pytest.raises(RunDirectoryError) as caught:
        check_same(MANIFEST, changed(dotted, value), Path("run"))
    assert said in str(caught.value)
    assert str(caught.value).endswith(", or start a new run in another directory.")
