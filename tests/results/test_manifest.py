"""What `run.json` says, compared with what it would say now."""

import copy
from pathlib import Path

import pytest

from envhub.errors import RunDirectoryError
from envhub.results.manifest import check_same, check_shape, describe_policy, foresee_policy
from envhub.types import FileSource, PolicySource

MANIFEST = {
    "created": "2026-01-01T12:00:00+00:00",
    "benchmark": {
        "kind": "local",
        "name": "walk",
        "files": {"env.py": "sha256:1"},
        "env_args": {"size": 1},
        "plugins": [],
    },
    "plan": {
        "suites": {"short": ["near"], "long": ["far", "near"]},
        "episodes": 2,
        "seed": 0,
        "max_steps": None,
        "reuse": "reset",
        "tasks": {
            name: {"horizon": 5, "success": "once", "init_states": 0} for name in ("near", "far")
        },
    },
    "policy": {
        "kind": "named",
        "ref": "./policy.py",
        "path": "/here/policy.py:make_policy",
        "sha256": "ab",
        "args": {},
        "files": {},
        "batch": None,
        "placement": None,
    },
    "runtime": {"key": None, "packages": {"numpy": "2.0"}},
    "protocol": "sha256:2",
}


def changed(dotted: str, value: object) -> dict:
    made = copy.deepcopy(MANIFEST)
    *above, last = dotted.split(".")
    part = made
    for key in above:
        part = part[key]
    part[last] = value
    return made


def test_the_same_question():
    check_shape(MANIFEST, Path("run"))
    check_same(MANIFEST, MANIFEST, Path("run"))
    check_same(MANIFEST, {"policy": {}, "plan": {"seed": 0}}, Path("run"))


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        ("policy.path", "/there/policy.py:make_policy"),
        ("policy.ref", "/there/policy.py:make_policy"),
        ("policy.batch", 4),
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


def test_a_policy_before_the_benchmark_is_known(tmp_path):
    """What is foreseen is what is said later on."""
    file = tmp_path / "policy.py"
    file.write_text("")
    (tmp_path / "weights").write_text("")
    args = {"weights": str(tmp_path / "weights"), "no": "where", "odd": "\0", "size": 1}
    module = FileSource(str(tmp_path), "policy.py", "p", "p")
    for text in (str(file), f"{file}:make_other"):
        said = describe_policy(text, PolicySource(module, "make_other", args), args)
        assert foresee_policy(text, args).items() <= said.items()
        assert list(said["files"]) == ["weights"]
        assert said["sha256"]


def test_a_policy_of_the_benchmark_is_named_and_not_a_path(tmp_path):
    module = FileSource(str(tmp_path), "env.py", "p", "p")
    said = describe_policy("expert", PolicySource(module, "make_expert"), {})
    assert (said["ref"], said["path"], said["sha256"]) == ("expert", None, None)
    assert foresee_policy("expert", {}).items() <= said.items()
