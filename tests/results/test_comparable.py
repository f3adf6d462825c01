"""What must be equal for two runs to have played the same episodes, and what may differ."""

import copy

import pytest
from support.manifests import INFO

from envhub.errors import UsageError
from envhub.results.comparable import check_comparable

CHANGES = {
    "name": ("benchmark", "name", "other", "the benchmark (env, other)"),
    "files": ("benchmark", "files", {"env.py": "sha256:bb"}, "the benchmark's files (env.py)"),
    "args": ("benchmark", "env_args", {"size": 3}, "--env-arg (size none, 3)"),
    "plugins": ("benchmark", "plugins", ["mine"], "ENVHUB_PLUGINS (none, ['mine'])"),
    "conventions": (
        "benchmark",
        "conventions",
        {"images": "upright"},
        "conventions (images none, upright)",
    ),
    "seed": ("plan", "seed", 5, "--seed (0, 5)"),
    "reuse": ("plan", "reuse", "rebuild", "the reuse of envs (reset, rebuild)"),
    "package": ("runtime", "packages", {"mujoco": "3.3.2"}, "packages (mujoco 3.3.0, 3.3.2)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_must_be_equal(name):
    section, key, value, said = CHANGES[name]
    other = copy.deepcopy(INFO)
    other[section][key] = value
    with pytest.raises(UsageError) as caught:
        check_comparable(INFO, other)
    assert str(caught.value).startswith(f"The runs differ in {said}. --unpaired compares them")


def test_a_horizon_and_many_packages_that_differ():
    other = copy.deepcopy(INFO)
    other["plan"]["tasks"]["near"]["horizon"] = 20
    other["runtime"]["packages"] = {f"p{i}": "1" for i in range(9)}
    with pytest.raises(UsageError) as caught:
        check_comparable(INFO, other)
    assert "packages (mujoco 3.3.0, none; p0 none, 1; p1 none, 1, and 7 more)" in str(caught.value)
    assert "; and in tasks (near horizon 10, 20)." in str(caught.value)


def test_what_may_differ():
    other = copy.deepcopy(INFO)
    other["policy"]["ref"] = "random"
    other["plan"]["episodes"] = 3
    del other["plan"]["tasks"]["far"]
    check_comparable(INFO, other)
