"""Benchmarks on interpreters that were built for them, with real uv and real workers."""

import json
import platform
import re
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from textwrap import dedent

import pytest
import uv
from support.attacks import envhub as command
from support.needs import SANDBOXES
from support.wheels import make_sdist, make_wheel, pin, serving, stand_ins

import envhub
from envhub.directories import RUNTIMES, is_whole
from envhub.errors import (
    ContractError,
    ExitCode,
    RunDirectoryError,
    RuntimeUnavailable,
    SourceCorrupt,
    UnknownName,
    UsageError,
    WorkerRaised,
)
from envhub.evaluation.run import resume_run
from envhub.options import Limits, RecordedRuntime, Reporter
from envhub.refs import PathRef
from envhub.results.seal import seal
from envhub.runtime.provision import provision
from envhub.sources.find import locate
from envhub.types import HERE, PluginSource

BODY = """
import gymnasium as gym
import numpy as np
{imports}


class Env(gym.Env):
    _max_episode_steps = 5
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    task_description = {description}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        {on_reset}
        return self.np_random.random(2).astype(np.float32), {{}}

    def step(self, action):
        observation = self.np_random.random(2).astype(np.float32)
        return observation, float(observation[0]), False, False, {{"is_success": False}}

    def ask(self, code):
        return eval(code)


def make_env(n_envs=1, use_async_envs=False):
    return Env()
"""


def block(*packages: str, **more: str) -> str:
    lines = ["# /// script", f"# dependencies = {json.dumps(packages)}"]
    lines += [f"# {key.replace('_', '-')} = {json.dumps(value)}" for key, value in more.items()]
    return "\n".join([*lines, "# ///\n"])


def write(
    directory: Path, *packages: str, imports="", description="'x'", on_reset="", **more
) -> Path:
    """An env file that declares requirements."""
    directory.mkdir(exist_ok=True)
    head = block(*packages, **more) if packages or more else ""
    text = head + BODY.format(imports=imports, description=description, on_reset=on_reset)
    (directory / "env.py").write_text(text)
    return directory


@pytest.fixture
def gadget(tmp_path):
    """A benchmark that needs a package which is not installed here."""
    imports, description = "import gadget", "gadget.VERSION"
    return write(tmp_path / "gadget", "gadget==1.0", imports=imports, description=description)


def run(ref, out, **more):
    return envhub.evaluate(str(ref), "zero", episodes=2, workers=1, out=out, **more)


def same(record):
    fields = {name: getattr(record, name) for name in type(record).__dataclass_fields__}
    return {k: v for k, v in fields.items() if k not in ("seconds", "attempts")}


# Where it runs


def decide(directory, choice="auto", **more):
    return provision(locate(PathRef(str(directory))), choice, **more)


@pytest.mark.parametrize(
    "packages",
    [(), ("numpy",), ("numpy>=1", "gymnasium"), ("absent-package; python_version < '3'",)],
)
def test_what_is_met_runs_here(tmp_path, packages):
    assert decide(write(tmp_path / "env", *packages)) == HERE


def test_here_is_here_though_it_lacks_something(tmp_path):
    said: list[str] = []
    directory = write(tmp_path / "env", "absent-package>=2", "numpy>99", requires_python=">=3.99")
    found = decide(directory, "here", reporter=Reporter(message=said.append))
    version, python = metadata.version("numpy"), sys.version.split()[0]
    assert found.kind == "here"
    assert found.unmet == (
        f"Python >=3.99 (found {python})",
        "absent-package>=2 (not installed)",
        f"numpy>99 (found {version})",
    )
    assert said[0] == (
        f"Running env in this interpreter although Python >=3.99 (found {python}), "
        f"absent-package>=2, numpy>99 (found {version}) are not installed."
    )


def test_another_python_is_not_to_be_had(tmp_path):
    with pytest.raises(RuntimeUnavailable, match=r"requires Python >=3\.99; this is") as caught:
        decide(write(tmp_path / "env", requires_python=">=3.99"))
    assert caught.value.exit_code == ExitCode.RUNTIME
    assert caught.value.requirement == "Python >=3.99"


FUTURE = "Metadata-Version: 2.1\nName: future\nVersion: 1.0\nRequires-Python: >=3.99\n"


@pytest.mark.parametrize(
    ("packages", "end"),
    [
        (("absent-thing",), "helps if you can install the packages yourself, beside EnvHub in an"),
        (("needy",), "helps if you can install the packages yourself, beside EnvHub in an"),
        (("rawthing",), "helps if you can install the packages yourself, beside EnvHub in an"),
        (("fussy", "tool==2.0"), "does not help: these packages cannot be installed together."),
        (("numpy==0.1",), "does not help: these packages cannot be installed together."),
        (("future",), f"is this Python {platform.python_version()}, too: install EnvHub in a"),
    ],
)
def test_a_refused_build_says_whether_here_helps(tmp_path, only_index, monkeypatch, packages, end):
    index = tmp_path / "index"
    index.mkdir()
    stand_ins(index)
    make_wheel(index, "tool", "1.0")
    make_wheel(index, "tool", "2.0")
    make_wheel(index, "fussy", "1.0", requires=["tool<2"])
    make_wheel(index, "needy", "1.0", requires=["absent-thing"])
    make_wheel(index, "future", "1.0", files={"future-1.0.dist-info/METADATA": FUTURE})
    make_sdist(index, "rawthing", "1.0")
    only_index(index)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    with pytest.raises(RuntimeUnavailable) as caught:
        decide(write(tmp_path / "env", *packages))
    text = str(caught.value)
    assert f"\n--runtime here {end}" in text, text


@pytest.mark.parametrize(
    "line", ["toys @ git+https://example.invalid/toys.git", "-e ./toys", "./toys"]
)
def test_what_is_not_from_an_index_can_be_installed_by_hand(tmp_path, line):
    directory = write(tmp_path / "env")
    (directory / "requirements.txt").write_text(f"numpy\n{line}\n")
    with pytest.raises(ContractError, match=r"line 2: .* and add --runtime here\.$"):
        decide(directory)
    run_here = run(directory, tmp_path / "run", runtime="here")
    assert len(run_here.records()) == 2
    (unmet,) = run_here.run_info.runtime.unmet
    assert unmet.startswith("requirements.txt, line 2: ")
    assert envhub.verify(run_here).ok


def test_no_index_is_no_reason_for_another_environment(tmp_path, only_index, monkeypatch):
    only_index(tmp_path)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    with pytest.raises(RuntimeUnavailable, match="no package index could be reached") as caught:
        decide(write(tmp_path / "env", "absent-thing"))
    assert "--runtime here" not in str(caught.value)


def test_without_workers_there_is_no_runtime(tmp_path, gadget):
    with pytest.raises(UsageError, match="--workers 0 runs everything in this process"):
        envhub.evaluate(str(gadget), "zero", workers=0, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("package", "error", "message"),
    [
        ("envhub", ContractError, "another project's package"),
        ("envhub-core>=99", RuntimeUnavailable, "this is EnvHub 0"),
    ],
)
def test_envhub_itself_is_required(tmp_path, package, error, message):
    with pytest.raises(error, match=message):
        decide(write(tmp_path / "env", package), "isolated")


# Running there


def test_a_package_that_is_not_here_and_equal_records_where_it_is(
    real_runtimes, gadget, tmp_path, monkeypatch
):
    there = run(gadget, tmp_path / "there")
    runtime = there.info["runtime"]
    assert (runtime["kind"], runtime["unmet"]) == ("isolated", [])
    assert runtime["packages"]["numpy"] == metadata.version("numpy")
    assert all(record.status == "ok" for record in there.records())
    (tmp_path / "site").mkdir()
    (tmp_path / "site/gadget.py").write_text("VERSION = '1.0'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    here = run(gadget, tmp_path / "here", runtime="here")
    assert here.info["runtime"]["kind"] == "here"
    assert here.info["runtime"]["key"] is None
    assert here.info["runtime"]["unmet"] == ["gadget==1.0 (not installed)"]
    assert [same(r) for r in there.records()] == [same(r) for r in here.records()]


def test_conflicting_versions_side_by_side(real_runtimes, gadget, tmp_path):
    imports, description = "import gadget", "gadget.VERSION"
    other = write(tmp_path / "other", "gadget>=2", imports=imports, description=description)
    envs = [envhub.make_env(str(one), 1) for one in (gadget, other)]
    vectors = [vector for env in envs for tasks in env.values() for vector in tasks.values()]
    try:
        for vector in vectors:
            vector.reset(seed=0)
        assert [v.get_attr("task_description") for v in vectors] == [("1.0",), ("2.0",)]
    finally:
        for env in envs:
            envhub.close_envs(env)


def test_nothing_of_the_host_leaks_in(real_runtimes, gadget, tmp_path, monkeypatch):
    (tmp_path / "leak.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    with _vector(gadget) as vector:
        path, click = vector.call("ask", "__import__('sys').path")[0], "click"
        spec = "__import__('importlib.util').util.find_spec({!r}) is None"
        assert vector.call("ask", spec.format("leak")) == (True,)
        assert vector.call("ask", spec.format(click)) == (True,)
    site_packages = {str(Path(p).parent) for p in (pytest.__file__,)}
    assert not site_packages & set(path)
    assert str(Path(envhub.__file__).parent.parent) not in path


def _vector(directory, **more):
    env = envhub.make_env(str(directory), 1, **more)
    vector = next(iter(next(iter(env.values())).values()))
    vector.reset(seed=0)
    return vector


def test_nobody_can_write_to_it(real_runtimes, gadget):
    found = decide(gadget)
    place = Path(found.python).parents[2]
    for path in (place, *place.rglob("*"), *Path(found.paths[0]).rglob("*")):
        assert path.is_symlink() or not path.lstat().st_mode & 0o222, path


def test_isolated_though_nothing_is_declared(real_runtimes, tmp_path):
    out = run(write(tmp_path / "plain"), tmp_path / "run", runtime="isolated")
    assert out.info["runtime"]["kind"] == "isolated"
    assert all(record.status == "ok" for record in out.records())


def test_once_built_neither_uv_nor_an_index_is_needed(real_runtimes, gadget, tmp_path, monkeypatch):
    before = decide(gadget)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(uv, "find_uv_bin", lambda: pytest.fail("uv was looked for"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert decide(gadget) == before


def test_resuming_goes_on_in_the_same_runtime(real_runtimes, gadget, tmp_path):
    whole = run(gadget, tmp_path / "run")
    journal = tmp_path / "run/episodes.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text(lines[0])
    again = resume_run(tmp_path / "run", 1, _Watcher())
    assert [same(r) for r in again.records()] == [same(r) for r in whole.records()]
    info = json.loads((tmp_path / "run/run.json").read_text())
    info["runtime"]["key"] = "0123456789abcdef"
    (tmp_path / "run/run.json").write_text(json.dumps(seal(info)))
    journal.write_text(lines[0])
    with pytest.raises(
        RunDirectoryError, match="was begun with is 0123456789abcdef, and now it is"
    ):
        resume_run(tmp_path / "run", 1, _Watcher())


def test_an_upgrade_of_envhub_does_not_end_a_run(real_runtimes, gadget, tmp_path, monkeypatch):
    whole = run(gadget, tmp_path / "run")
    journal, told = tmp_path / "run/episodes.jsonl", tmp_path / "run/run.json"
    lines = journal.read_text().splitlines(keepends=True)
    monkeypatch.setattr(envhub, "__version__", "0.2.0")
    journal.write_text(lines[0])
    again = resume_run(tmp_path / "run", 1, _Watcher())
    assert [same(r) for r in again.records()] == [same(r) for r in whole.records()]
    assert (again.run_info.envhub, again.run_info.runtime.key) == (
        whole.run_info.envhub, decide(gadget).key,
    )  # fmt: skip

    # As 0.1.0 wrote it, with its version in the key.
    info = json.loads(told.read_text()) | {"format": 1, "protocol": "sha256:1"}
    info["runtime"]["key"] = decide(gadget).former_key
    told.write_text(json.dumps(seal(info)))
    journal.write_text(lines[0])
    again = resume_run(tmp_path / "run", 1, _Watcher())
    assert [same(r) for r in again.records()] == [same(r) for r in whole.records()]
    assert (again.run_info.format, again.run_info.runtime) == (2, whole.run_info.runtime)

    info = json.loads(told.read_text())
    info["runtime"]["worker"] += 1
    told.write_text(json.dumps(seal(info)))
    journal.write_text(lines[0])
    with pytest.raises(
        RunDirectoryError, match=r"begun with EnvHub 0\.1\.0, .* of EnvHub 0\.2\.0\."
    ):
        resume_run(tmp_path / "run", 1, _Watcher())


class _Watcher:
    def __getattr__(self, name):
        return lambda *_: None


def test_a_damaged_runtime_is_built_again(real_runtimes, gadget):
    place = Path(decide(gadget).python).parents[2]
    module = next(place.rglob("gadget.py"))
    module.parent.chmod(0o755)
    module.unlink()
    noted: list[str] = []
    found = decide(gadget, reporter=Reporter(progress=noted.append))
    assert "is damaged: rebuilding it" in noted[0]
    assert noted[1].startswith("Building the runtime of gadget (8 packages)")
    assert Path(found.python).parents[2] == place
    assert module.exists()
    assert is_whole(RUNTIMES, place.name)


def test_building_shows_packages_and_megabytes(tmp_path, gadget, only_index, monkeypatch):
    """As uv tells them of an index that has to be downloaded from."""
    index = tmp_path / "index"
    stand_ins(index)
    make_wheel(index, "gadget", "1.0", {"gadget.txt": "x" * 3_000_000})
    only_index(index)
    for name in ("UV_CACHE_DIR", "ENVHUB_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    noted: list[str] = []
    with serving(index) as address:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
        decide(gadget, reporter=Reporter(progress=noted.append))
    assert "Building the runtime of gadget (5 packages) ..." in noted
    assert "  gadget: 3.0 of 3.0 MB downloaded" in noted
    assert re.fullmatch(r"Built the runtime of gadget in [\d.]+ s: 5 packages, 3 MB\.", noted[-1])


# Pins beside the file


def pins(index: Path, *more: str) -> str:
    files = [p for p in (index / "files").iterdir() if not p.name.startswith("gadget")]
    return "".join(f"{line}\n" for line in (*map(pin, files), *more))


def test_a_lock_beside_the_file(real_runtimes, tmp_path):
    directory = write(tmp_path / "env", imports="import gadget", description="gadget.VERSION")
    env = directory / "env.py"
    head = '# /// script\n# dependencies = []\n# [tool.envhub]\n# lock = "runtime.txt"\n# ///\n'
    env.write_text(head + env.read_text())
    gadget = pin(real_runtimes / "files/gadget-2.0-py3-none-any.whl")
    (directory / "runtime.txt").write_text(pins(real_runtimes, gadget))
    with _vector(directory) as vector:
        assert vector.get_attr("task_description") == ("2.0",)
    (directory / "runtime.txt").write_text(gadget + "\n")
    with pytest.raises(ContractError, match="lacks gymnasium; a worker needs gymnasium>="):
        decide(directory)
    (directory / "runtime.txt").unlink()
    with pytest.raises(ContractError, match=r"env\.py names runtime\.txt, which cannot be read"):
        decide(directory)


# Plugins


@pytest.fixture
def plugin(tmp_path, real_runtimes, monkeypatch):
    """An installed plugin that comes with pins."""
    site, package = tmp_path / "site", tmp_path / "site/envhub_gadgets"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        dedent("""
        from envhub import Benchmark, Task, hookimpl

        @hookimpl
        def envhub_benchmarks():
            tasks = (Task("turn", "turn the gadget", 5),)
            yield Benchmark(
                "gadgets", "envhub_gadgets.env:make", {"all": tasks},
                policies={"own": "envhub_gadgets.env:make_policy"},
                runtime="envhub_gadgets:runtime.txt",
            )
        """)
    )
    policy = dedent("""

        class Own:
            placement = "process"
            def act(self, obs, episodes):
                import gadget
                return np.full((len(episodes), 1), float(gadget.VERSION) / 10, np.float32)


        def make_policy(benchmark, observation_space, action_space):
            return Own()


        def make(task):
            return Env()
        """)
    text = BODY.format(imports="import gadget", description="gadget.VERSION", on_reset="")
    (package / "env.py").write_text(text + policy)
    gadget = pin(real_runtimes / "files/gadget-1.0-py3-none-any.whl")
    (package / "runtime.txt").write_text(pins(real_runtimes, gadget))
    info = site / "envhub_gadgets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: envhub-gadgets\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[envhub]\ngadgets = envhub_gadgets\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(str(site))
    return package


def test_a_plugin_with_pins_that_are_not_met(plugin, tmp_path):
    out = run("gadgets", tmp_path / "run")
    assert out.info["runtime"]["kind"] == "isolated"
    assert all(record.status == "ok" for record in out.records())
    policy = envhub.evaluate("gadgets", "own", episodes=1, workers=1, out=tmp_path / "own")
    assert policy.info["policy"]["placement"] == "process"
    assert all(record.status == "ok" for record in policy.records())
    with _vector("gadgets") as vector:
        assert vector.get_attr("task_description") == ("1.0",)


def test_a_plugin_whose_pins_are_met_or_not_wanted(plugin, tmp_path):
    (plugin / "runtime.txt").write_text(
        f"numpy=={metadata.version('numpy')} --hash=sha256:{'0' * 64}\n"
    )
    source, benchmark = PluginSource("gadgets"), _declared()
    assert provision(source, "auto", benchmark) == HERE
    (plugin / "runtime.txt").write_text(f"numpy==1.0 --hash=sha256:{'0' * 64}\n")
    assert provision(source, "here", benchmark).unmet[0].startswith("numpy==1.0 (found ")
    (plugin / "runtime.txt").write_text("numpy==1.0\n")
    with pytest.raises(ContractError, match=r"envhub_gadgets:runtime\.txt, line 1: 'numpy==1\.0'"):
        provision(source, "auto", benchmark)
    (plugin / "runtime.txt").unlink()
    with pytest.raises(ContractError, match="that file does not exist"):
        provision(source, "auto", benchmark)


def test_a_further_runtime_of_a_plugin(plugin, real_runtimes, tmp_path):
    """It is chosen by its name; a run that was made with it goes on, and is verified, with it."""
    gadget = pin(real_runtimes / "files/gadget-2.0-py3-none-any.whl")
    (plugin / "runtime-gadget-2.txt").write_text(pins(real_runtimes, gadget))
    chosen = run("gadgets", tmp_path / "run", runtime="gadget-2")
    whole = [same(record) for record in chosen.records()]
    source, benchmark = PluginSource("gadgets"), _declared()
    keys = {name: provision(source, name, benchmark).key for name in ("isolated", "gadget-2")}
    assert chosen.info["runtime"]["key"] == keys["gadget-2"] != keys["isolated"]
    journal = tmp_path / "run/episodes.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    again = resume_run(tmp_path / "run", 1, _Watcher())
    assert [same(record) for record in again.records()] == whole
    found = envhub.verify(again, workers=1)
    assert (found.verdict, found.machine) == ("identical", ())
    for version, name in {"2.0": "gadget-2", "1.0": "isolated", "3.0": "isolated"}.items():
        recorded = RecordedRuntime("of another EnvHub", {"gadget": version})
        assert provision(source, recorded, benchmark).key == keys[name]
    with pytest.raises(UnknownName, match=r"No runtime is called 'gadget-3'\. Did you mean"):
        run("gadgets", tmp_path / "unknown", runtime="gadget-3")


def test_a_run_of_an_older_plugin_is_verified_and_not_resumed(plugin, tmp_path):
    """Whether the newer version changes the result can be asked; one run has one version."""
    made = run("gadgets", tmp_path / "run")
    with (plugin / "env.py").open("a") as file:
        file.write("# newer\n")
    found = envhub.verify(made, workers=1)
    assert found.verdict == "identical"
    versions = "envhub-gadgets 1.0 recorded, envhub-gadgets 1.0 here (envhub_gadgets/env.py)"
    assert found.machine == (versions,)
    journal = tmp_path / "run/episodes.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    with pytest.raises(RunDirectoryError, match=r"benchmark's file envhub_gadgets/env\.py"):
        resume_run(tmp_path / "run", 1, _Watcher())


def test_only_plugins_have_further_runtimes(gadget):
    with pytest.raises(UnknownName, match=r"'mine'\. Available: auto, here, isolated"):
        decide(gadget, "mine")


def test_the_user_is_told_of_versions_that_a_plugin_notes(plugin, real_runtimes):
    gadget = pin(real_runtimes / "files/gadget-2.0-py3-none-any.whl")
    (plugin / "runtime-gadget-2.txt").write_text(pins(real_runtimes, gadget))
    notes = {"gadget>=2": "turns the other way", "numpy>=1.0,<99": "counts", "absent>1": "is odd"}
    source, benchmark = PluginSource("gadgets"), replace(_declared(), version_notes=notes)
    numpy = f"gadgets runs with numpy {metadata.version('numpy')}, which counts."
    here = "Running gadgets in this interpreter although gadget==1.0 is not installed."
    for choice, told in {
        "isolated": [numpy],
        "gadget-2": ["gadgets runs with gadget 2.0, which turns the other way.", numpy],
        "here": [here, numpy],
    }.items():
        said = []
        provision(source, choice, benchmark, reporter=Reporter(message=said.append))
        assert said == told, choice


def _declared():
    tasks = (envhub.Task("turn", "turn", 5),)
    return envhub.Benchmark(
        "gadgets", ":make", {"all": tasks}, runtime="envhub_gadgets:runtime.txt"
    )


# On the Hub


@pytest.fixture
def published(local_hub, real_runtimes, gadget, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.chdir(gadget.parent)

    def publish(name: str) -> str:
        local_hub.create(name)
        commit = local_hub.commit(name, {"env.py": (gadget / "env.py").read_bytes()})
        return f"{name}@{commit}:env.py"

    return publish


def beside(directory: Path, text: str) -> Path:
    """Move the requirements of an env file into a requirements.txt."""
    env = directory / "env.py"
    env.write_text(env.read_text().partition("# ///\n")[2])
    (directory / "requirements.txt").write_text(text)
    return directory


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_hub_reference_runs_in_a_sandbox_in_a_runtime(published, gadget, tmp_path, sandbox):
    ref = published(f"{sandbox}/gadget")
    there = run(ref, tmp_path / "there", trust_remote_code=True, sandbox=sandbox)
    here = run(gadget, tmp_path / "here")
    assert there.info["runtime"] == here.info["runtime"]
    assert there.info["protection"]["sandbox"] == sandbox
    assert [same(r) for r in there.records()] == [same(r) for r in here.records()]
    place = Path(decide(gadget).python).parents[2]
    with _vector(ref, trust_remote_code=True, sandbox=sandbox) as vector:
        assert vector.get_attr("task_description") == ("1.0",)
        with pytest.raises(WorkerRaised, match=r"Read-only|Permission"):
            vector.call("ask", f"open({str(place / 'venv/lib/x')!r}, 'w')")
        library = place / "venv" / "lib"
        mode = library.stat().st_mode
        with suppress(WorkerRaised):  # read-only for an ordinary user, without effect for root
            vector.call("ask", f"__import__('os').chmod({str(library)!r}, 0o777)")
        assert library.stat().st_mode == mode
        with suppress(WorkerRaised):  # in the sandbox's own /tmp, or nowhere
            vector.call("ask", f"open({str(place / 'venv/x')!r}, 'w')")
        assert not (place / "venv" / "x").exists()


def test_a_lock_pins_what_is_required(published, tmp_path):
    ref = published("me/locked")
    done = command("lock", ref)
    assert done.returncode == 0, done.stderr
    assert "8 packages" in done.stdout
    content = json.loads(Path("envhub.lock").read_text())
    requirements = content["sources"]["me/locked"]["requirements"]
    assert requirements["declared"] == ["gadget==1.0"]
    assert any(line.startswith("gadget==1.0 --hash=sha256:") for line in requirements["pins"])
    assert "file:" not in Path("envhub.lock").read_text()
    out = run(ref, tmp_path / "run", trust_remote_code=True, locked=True)
    assert out.info["runtime"]["kind"] == "isolated"
    with pytest.raises(SourceCorrupt, match=r"locked cannot run as locked: gadget==1\.0"):
        run(ref, tmp_path / "x", trust_remote_code=True, locked=True, runtime="here")
    requirements["pins"] = [p for p in requirements["pins"] if not p.startswith("gadget")]
    requirements["pins"].append(f"gadget==1.0 --hash=sha256:{'0' * 64}")
    Path("envhub.lock").write_text(json.dumps(content))
    with pytest.raises(RuntimeUnavailable, match=r"cannot be built: gadget==1\.0\.") as caught:
        run(ref, tmp_path / "y", trust_remote_code=True, locked=True)
    assert "hash" in caught.value.said.lower()


# requirements.txt


def test_requirements_beside_the_file_build_the_same_runtime(real_runtimes, gadget, tmp_path):
    declared = run(gadget, tmp_path / "declared")
    listed = run(beside(gadget, "gadget==1.0  # the thing\n"), tmp_path / "listed")
    assert listed.info["runtime"] == declared.info["runtime"]
    assert listed.info["runtime"]["kind"] == "isolated"
    assert "requirements.txt" in listed.info["benchmark"]["files"]
    shown = command("info", str(gadget))
    assert "requires   gadget==1.0 (requirements.txt)\n" in shown.stdout, shown
    content = json.loads(command("info", str(gadget), "--json").stdout)
    assert content["requirements"] == {
        "python": None,
        "packages": ["gadget==1.0"],
        "file": "requirements.txt",
    }


def test_a_line_that_is_refused_is_one_sentence(tmp_path):
    directory = beside(write(tmp_path / "env", "numpy"), "numpy\n--index-url https://x.org\n")
    done = command("info", str(directory))
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "envhub: requirements.txt, line 2: '--index-url https://x.org' is an option; only names "
        "with versions and markers are accepted. Install it yourself, beside EnvHub in an "
        "environment of your own, and add --runtime here.\n"
    )


def test_requirements_beside_a_file_of_the_hub(local_hub, real_runtimes, gadget, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.chdir(gadget.parent)
    beside(gadget, "gadget==1.0\n")
    local_hub.create("me/listed")
    files = {f"sub/{path.name}": path.read_bytes() for path in gadget.iterdir()}
    ref = f"me/listed@{local_hub.commit('me/listed', files)}:sub/env.py"
    there = run(ref, Path("there"), trust_remote_code=True)
    here = run(gadget, Path("here"))
    assert there.info["runtime"] == here.info["runtime"]
    assert there.info["runtime"]["kind"] == "isolated"
    assert "sub/requirements.txt" in there.info["benchmark"]["files"]
    shown = command("info", ref).stdout
    assert "requires    gadget==1.0 (requirements.txt)\n" in shown
    first = shown.partition("and what it imports or names:\n")[2].partition("other files")[0]
    assert "sub/requirements.txt" in first
    assert "requires    gadget==1.0 (requirements.txt)\n" in command("trust", ref).stdout
    assert command("lock", ref).returncode == 0
    requirements = json.loads(Path("envhub.lock").read_text())["sources"]["me/listed"]
    assert requirements["requirements"]["declared"] == ["gadget==1.0"]
    assert any(pin.startswith("gadget==1.0 ") for pin in requirements["requirements"]["pins"])


# A module that nobody declared


def test_a_missing_module_is_to_be_added_where_the_others_are(real_runtimes, tmp_path):
    directory = write(tmp_path / "env", "gadget==1.0", imports="import absent_thing")
    with pytest.raises(WorkerRaised, match=r"add the line absent-thing to requirements\.txt\."):
        envhub.make_env(str(beside(directory, "gadget==1.0\n")))


@pytest.mark.parametrize(
    ("module", "declare", "called"),
    [("absent_thing", "absent-thing", ""), ("yaml", "PyYAML", " (of the package PyYAML)")],
)
def test_a_missing_module_names_the_requirement(real_runtimes, tmp_path, module, declare, called):
    directory = write(tmp_path / "env", "gadget==1.0", imports=f"import {module}.part")
    with pytest.raises(WorkerRaised) as caught:
        envhub.make_env(str(directory))
    text = str(caught.value)
    assert f"No module named '{module}'" in text
    assert f"env.py imports {module}{called}, which its runtime does not" in text
    assert f'# dependencies = [\n#     "gadget==1.0",\n#     "{declare}",\n# ]' in text


def test_a_missing_part_of_the_benchmark_is_no_package(tmp_path):
    directory = write(tmp_path / "env", imports="import helper.absent")
    (directory / "helper").mkdir()
    with pytest.raises(WorkerRaised, match=r"No module named 'helper\.absent'") as caught:
        envhub.make_env(str(directory), limits=Limits(start=60))
    assert "# /// script" not in str(caught.value)
