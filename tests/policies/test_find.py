"""What `--policy` means."""

import importlib

import pytest
from support.paths import ASSETS

import envhub
from envhub.declarations import Benchmark, Task
from envhub.errors import UnknownName, UsageError
from envhub.policies.find import find_policy, read_policy
from envhub.policies.provider import Wanted
from envhub.types import FileSource, PluginSource, PolicySource

BENCHMARK = Benchmark(
    "reach",
    ":make",
    {"all": (Task("reach", "reach the goal", 10),)},
    policies={"expert": "reach_plans.expert:make_expert", "novice": ":make_novice"},
)
HERE = FileSource("/benchmarks/reach", "env.py", "envhub_local_1", "reach")
PLUGIN = PluginSource("reach")

WALK = f"{ASSETS}/engine_walk"

POLICY = """
import numpy as np


class Still:
    def __init__(self, way):
        self.way = way

    def act(self, obs, episodes):
        return np.full((len(episodes), 2), len(self.way))


def make_policy(benchmark, observation_space, action_space, argument="", pace=1):
    return Still(argument * pace)


make_other = make_policy
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a real distribution with entry points and a module on the path, here and for others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def install(group, **points):
        info = tmp_path / "dummy_policies-1.0.dist-info"
        info.mkdir()
        (tmp_path / "dummy_policies.py").write_text(POLICY)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dummy-policies\nVersion: 1.0")
        listed = "\n".join(f"{name} = {value}" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{listed}\n")
        importlib.invalidate_caches()

    return install


def find(text, source=HERE, **args):
    """What its process loads, and whether that is a worker."""
    policy = find_policy(read_policy(text, args).obtain(Wanted()), BENCHMARK)
    return policy.factory(BENCHMARK, source), policy.acts_in == "worker"


@pytest.mark.parametrize(("name", "factory"), [("random", "make_random"), ("zero", "make_zero")])
def test_builtin(name, factory):
    assert find(name) == (PolicySource("envhub.worker.policy.builtin", factory), True)


def test_of_the_benchmark():
    expert = PolicySource("reach_plans.expert", "make_expert", {"gain": 2})
    assert find("expert", gain=2) == (expert, True)
    assert find("expert", PLUGIN, gain=2) == (expert, True)
    assert find("novice") == (PolicySource(HERE, "make_novice"), True)


def test_in_the_module_of_an_installed_benchmark(install):
    install("envhub", reach="dummy_policies")
    assert find("novice", PLUGIN) == (PolicySource("dummy_policies", "make_novice"), True)


@pytest.mark.parametrize(
    "way", ["{path}", "./{name}", "../{directory}/{name}", "./a.py:b/../{name}"]
)
@pytest.mark.parametrize("factory", ["", ":make_policy", ":make_other"])
def test_in_a_file(way, factory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py:b").mkdir()
    path = tmp_path / "policy.py"
    path.write_text(POLICY)
    text = way.format(path=path, name="policy.py", directory=tmp_path.name) + factory
    policy, beside = find(text, pace=3)
    assert isinstance(policy.module, FileSource)
    assert (policy.module.directory, policy.module.file) == (str(tmp_path), "policy.py")
    assert (policy.name, policy.args) == (factory[1:] or "make_policy", {"pace": 3})
    assert not beside


def test_in_a_package():
    found = find("my_package.policies:make_small", pace=3)
    assert found == (PolicySource("my_package.policies", "make_small", {"pace": 3}), False)


def test_installed(install):
    install("envhub.policies", still="dummy_policies:make_other", plain="dummy_policies [extra]")
    other = PolicySource("dummy_policies", "make_other", {"pace": 2, "argument": "a:b/c.pt"})
    assert find("still:a:b/c.pt", pace=2) == (other, False)
    assert find("still") == (PolicySource("dummy_policies", "make_other"), False)
    assert find("plain") == (PolicySource("dummy_policies", "make_policy"), False)


def test_a_benchmark_does_not_take_the_place_of_an_installed_policy(install):
    """Whoever writes the name may mean either; the wrong one would be evaluated silently."""
    install("envhub.policies", expert="dummy_policies:make_other")
    with pytest.raises(UsageError, match="Write dummy_policies:make_other for the installed one"):
        find("expert")
    assert find("novice")[0].name == "make_novice"


UNKNOWN = "No policy is called 'g:/a.pt'. Available: expert, novice, random, still, zero."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("randon", "No policy is called 'randon'. Did you mean 'random'?"),
        ("Expert", "No policy is called 'Expert'. Did you mean 'expert'?"),
        ("stil", "No policy is called 'stil'. Did you mean 'still'?"),
        ("q", "No policy is called 'q'. Available: expert, novice, random, still, zero."),
        ("policy.py", "No policy is called 'policy.py'."),
        ("g:/a.pt", f"{UNKNOWN} If g: is a scheme, install its provider. Or write"),
    ],
)
def test_unknown(install, text, problem):
    install("envhub.policies", still="dummy_policies:make_other")
    with pytest.raises(UnknownName) as caught:
        find(text)
    assert str(caught.value).startswith(problem)
    assert str(caught.value).endswith("Or write ./policy.py or package.module:name.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("./missing.py", "./missing.py does not exist."),
        ("./missing.py:make", "./missing.py does not exist."),
        ("./notes.txt", "./notes.txt is not a Python file"),
        ("./empty", "./empty is a directory: name the policy's file."),
        ("./with_env", "./with_env is a directory: name the policy's file."),
    ],
)
def test_files_that_are_none(text, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "with_env").mkdir()
    (tmp_path / "with_env" / "env.py").touch()
    with pytest.raises(UsageError) as caught:
        find(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("dummy_policies:make_policy", 0.0), ("still:xx", 2.0), ("{file}:make_other", 0.0)],
)
def test_policies_are_found_where_they_run(text, expected, install, tmp_path):
    install("envhub.policies", still="dummy_policies:make_other")
    run = envhub.evaluate(
        WALK,
        text.format(file=tmp_path / "dummy_policies.py"),
        tasks=["mute"],
        episodes=1,
        workers=1,
        policy_args={"pace": 1},
        out=tmp_path / "run",
    )
    (record,) = run.records()
    assert record.status == "ok"
    assert (record.out_of_bounds > 0) == (expected > 1)
