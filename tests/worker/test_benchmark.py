"""Loaded benchmarks, in this process: what they declare, what envs they make."""

import sys

import pytest

from envhub.errors import ContractError, InvalidEnvs, PluginError, UnknownName
from envhub.worker.benchmark import find_task


class TestDeclared:
    def test_what_it_declares(self, load):
        benchmark = load("hooks").benchmark
        assert (benchmark.name, benchmark.default) == ("counting", ("small",))
        assert list(benchmark.tasks()) == ["three", "five", "nine"]

    def test_what_it_makes(self, load):
        program = load("hooks", start=2)
        task = program.benchmark.tasks()["five"]
        first, second = (program.make("small", task) for _ in range(2))
        assert first is not second
        assert first.reset()[0] == [2]
        assert first.goal == 5

    def test_an_argument_that_make_does_not_take(self, load):
        program = load("hooks", size=2)
        with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
            program.make("small", program.benchmark.tasks()["five"])

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("", "The benchmark names ':make', but .* has no 'make'."),
            ("def make(task): return 42", ":make returned a int, not a gymnasium Env."),
            (
                "from gymnasium import make_vec\ndef make(task): return make_vec('CartPole-v1')",
                ":make returned a CartPoleVectorEnv, not a gymnasium Env.",
            ),
        ],
    )
    def test_a_make_that_makes_no_env(self, load, tmp_path, body, message):
        (tmp_path / "env.py").write_text(
            "import envhub\n"
            "@envhub.hookimpl\n"
            "def envhub_benchmarks():\n"
            "    task = envhub.Task('count', 'count', horizon=3)\n"
            "    yield envhub.Benchmark('b', ':make', {'all': (task,)})\n" + body
        )
        program = load(str(tmp_path))
        with pytest.raises(ContractError, match=f"^{message}$"):
            program.make("all", program.benchmark.tasks()["count"])


class TestConventions:
    def test_a_function_is_called_with_the_arguments(self, load):
        assert load("conventions").benchmark.conventions["control"] == "ee_delta_pose"
        assert load("conventions", control="absolute").benchmark.conventions["control"] == "ee_pose"

    def test_what_it_returns_is_checked(self, load):
        with pytest.raises(ContractError, match="'arm': the convention gripper is 'shut', which"):
            load("conventions", wrong="shut")

    def test_a_function_that_returns_something_else(self, load, tmp_path):
        (tmp_path / "env.py").write_text(
            "import envhub\n"
            "@envhub.hookimpl\n"
            "def envhub_benchmarks():\n"
            "    task = envhub.Task('count', 'count', horizon=3)\n"
            "    yield envhub.Benchmark('b', ':make', {'all': (task,)}, conventions=':say')\n"
            "def say():\n"
            "    return 'world'\n"
        )
        with pytest.raises(ContractError, match=r"^:say must return a mapping of conventions"):
            load(str(tmp_path))


FILES = {
    "published_plain": ({"published_plain": {"published_plain": 500}}, {}),
    "published_cfg": ({"published_cfg": {"published_cfg": 50}}, {}),
    "published_cfg with an argument": ({"published_cfg": {"published_cfg": 7}}, {"steps": 7}),
    "published_kwargs": ({"published_kwargs": {"published_kwargs": 500}}, {}),
    "published_kwargs with an argument": (
        {"published_kwargs": {"published_kwargs": 9}},
        {"max_episode_steps": 9},
    ),
    "bare_env": ({"bare_env": {"bare_env": 500}}, {}),
    "vector": ({"vector": {"vector": 500}}, {}),
    "maker": ({"maker": {"short": 20, "long": 200}}, {}),
    "mapping": (
        {"near": {"near.0": 6, "near.1": 10}, "far": {"far.0": 60, "far.1": 100}},
        {},
    ),
    "absolute_sibling": ({"absolute_sibling": {"absolute_sibling": 77}}, {}),
    "package_init": ({"package_init": {"package_init": 66}}, {}),
}


@pytest.mark.parametrize(("name", "expected"), FILES.items(), ids=FILES)
def test_published_files(load, name, expected):
    horizons, env_args = expected
    program = load(name.partition(" ")[0], **env_args)
    suites = program.benchmark.suites
    assert {s: {t.name: t.horizon for t in tasks} for s, tasks in suites.items()} == horizons
    for suite, tasks in suites.items():
        for task in tasks:
            env = program.make(suite, task)
            observation, info = env.reset(seed=0)
            assert env.observation_space.contains(observation)
            assert isinstance(info, dict)
            observation, reward, *ended, info = env.step(env.action_space.sample())
            assert env.observation_space.contains(observation)
            assert isinstance(reward, float)
            assert ended == [False, False]
            env.close()


BAD_FILES = {
    "no_benchmark": (
        ContractError,
        (
            "env.py is not a benchmark: it has neither a function make_env(n_envs, ...) nor hooks"
            " marked with @envhub.hookimpl. Add one of them."
        ),
    ),
    "two_benchmarks": (ContractError, "env.py declares 2 benchmarks; declare one."),
    "misspelled_hook": (
        PluginError,
        (
            "Plugin 'misspelled_hook' implements envhub_benchmark, which is not a hook; the hooks"
            " are envhub_benchmarks, envhub_episode_finished, envhub_perturbations,"
            " envhub_run_finished, envhub_run_started, envhub_wrap_env."
        ),
    ),
    "bad_return": (
        InvalidEnvs,
        (
            "make_env must return a gymnasium Env or VectorEnv, a callable that makes an Env or a"
            " list of them, {task: env} or {suite: {task: env}}: at suite / task: an int."
        ),
    ),
}


@pytest.mark.parametrize(("name", "expected"), BAD_FILES.items(), ids=BAD_FILES)
def test_files_that_break_the_contract(load, name, expected):
    error, message = expected
    with pytest.raises(error) as caught:
        load(name)
    assert str(caught.value) == message


def test_a_file_that_imports_a_plugins_package_has_no_hooks_by_that(load, tmp_path):
    (tmp_path / "envhub_of_others.py").touch()
    (tmp_path / "env.py").write_text(
        "import gymnasium as gym\nimport envhub_of_others\nenvhub_version = '1'\n"
        "def make_env(): return gym.make('CartPole-v1')"
    )
    try:
        assert [task.horizon for task in load(str(tmp_path)).benchmark.tasks().values()] == [500]
    finally:
        sys.modules.pop("envhub_of_others", None)


class TestFindTask:
    def test_there(self, load):
        assert find_task(load("hooks").benchmark, "small", "five").horizon == 10

    @pytest.mark.parametrize(("suite", "name"), [("small", "nin"), ("nothing", "nin")])
    def test_not_there(self, load, suite, name):
        with pytest.raises(UnknownName) as caught:
            find_task(load("hooks").benchmark, suite, name)
        assert str(caught.value) == "No task is called 'nin'. Did you mean 'nine'?"
