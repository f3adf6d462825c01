"""What must be equal for two runs to have played the same episodes, and what may differ."""

import copy
from pathlib import Path

import pytest
from support.manifests import INFO
from support.run_json import changed, info_of

from envhub.errors import RunDirectoryError, UsageError
from envhub.results.comparable import check_comparable, check_same, describe_told_apart

CHANGES = {
    "name": ("benchmark", "name", "other", "the benchmark (env, other)"),
    "files": ("benchmark", "files", {"env.py": "sha256:bb"}, "the benchmark's files (env.py)"),
    "args": ("benchmark", "env_args", {"size": 3}, "--env-arg (size none, 3)"),
    "plugins": ("benchmark", "plugins", ["mine"], "the choice of ENVHUB_PLUGINS (none, ['mine'])"),
    "conventions": (
        "benchmark",
        "conventions",
        {"images": "upright"},
        "the conventions (images none, upright)",
    ),
    "seed": ("plan", "seed", 5, "--seed (0, 5)"),
    "instructions": (
        "plan",
        "instructions",
        {"near": ["Go."], "elsewhere": ["Stay."]},
        "--instructions (near none, ['Go.'])",
    ),
    "reuse": ("plan", "reuse", "rebuild", "the reuse of envs (reset, rebuild)"),
    "package": ("runtime", "packages", {"mujoco": "3.3.2"}, "the packages (mujoco 3.3.0, 3.3.2)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_must_be_equal(name):
    section, key, value, said = CHANGES[name]
    other = copy.deepcopy(INFO)
    other[section][key] = value
    with pytest.raises(UsageError) as caught:
        check_comparable(info_of(INFO), info_of(other))
    assert str(caught.value).startswith(f"The runs differ in {said}. --unpaired compares them")


def test_other_seeding_is_told_with_the_line_that_makes_pairs():
    shared, own = changed("plan.seeding", "shared", INFO), copy.deepcopy(INFO)
    with pytest.raises(UsageError) as caught:
        check_comparable(info_of(shared), info_of(own))
    assert str(caught.value) == (
        "The runs differ in --seeding (shared, task). --unpaired compares them all the same, as "
        "different experiments. For pairs play B with the seeds of A: envhub eval ./env --policy "
        "zero --suite s --episodes 10 --seed 0 --seeding shared"
    )
    with pytest.raises(UsageError, match=r"play B with the seeds of A: envhub eval .* --seed 0$"):
        check_comparable(info_of(own), info_of(shared))
    own["policy"]["kind"] = "object"
    with pytest.raises(UsageError, match=r"Evaluate B's policy with seeding='shared' for pairs.$"):
        check_comparable(info_of(shared), info_of(own))


def test_what_providers_tell_their_policies_is_named_and_pairs():
    other = copy.deepcopy(INFO)
    other["policy"]["instructions"] = {"far": "Go far.", "elsewhere": "Stay."}
    a, b = info_of(INFO), info_of(other)
    check_comparable(a, b)
    assert describe_told_apart(a, a) is None
    assert describe_told_apart(a, b) == (
        "The policies were told different instructions in 1 of 2 tasks; far: the benchmark's text "
        'to A, "Go far." to B.'
    )


def test_a_horizon_and_many_packages_that_differ():
    other = copy.deepcopy(INFO)
    other["plan"]["tasks"]["near"]["horizon"] = 20
    other["runtime"]["packages"] = {f"p{i}": "1" for i in range(9)}
    with pytest.raises(UsageError) as caught:
        check_comparable(info_of(INFO), info_of(other))
    assert "packages (mujoco 3.3.0, none; p0 none, 1; p1 none, 1, and 7 more)" in str(caught.value)
    assert "; and in the tasks (near horizon 10, 20)." in str(caught.value)


def test_what_may_differ():
    other = copy.deepcopy(INFO)
    other["policy"]["ref"] = "random"
    other["plan"]["episodes"] = 3
    del other["plan"]["tasks"]["far"]
    other["plan"]["suites"] = {"s": ["near"]}
    check_comparable(info_of(INFO), info_of(other))


# Continuing a run


def test_the_same_question():
    check_same(info_of(), info_of(), Path("run"))


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
    check_same(info_of(), info_of(changed(dotted, value)), Path("run"))


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
        ("benchmark.name", "x" * 99, f"and now it is {'x' * 80}.... Restore it"),
        (
            "benchmark.conventions",
            {"images": "upright"},
            "The convention images that run was begun",
        ),
        (
            "plan.seeding",
            "task",
            "--seeding that run was begun with is shared, and now it is task.",
        ),
        (
            "plan.instructions",
            {"near": ["Go."]},
            'The --instructions near that run was begun with is none, and now it is ["Go."]. Give',
        ),
        (
            "benchmark.assets",
            {"meshes": "sha256:6"},
            "The asset meshes that run was begun with is no",
        ),
    ],
)
def test_another_question(dotted, value, said):
    with pytest.raises(RunDirectoryError) as caught:
        check_same(info_of(), info_of(changed(dotted, value)), Path("run"))
    assert said in str(caught.value)
    assert str(caught.value).endswith(", or start a new run in another directory.")
