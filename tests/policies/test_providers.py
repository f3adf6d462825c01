"""Providers of policies: one that a user wrote, broken ones, and one that is not installed."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import uv
from support.paths import DOCS

import envhub
from envhub.errors import ExitCode, PluginError, RunDirectoryError, UsageError
from envhub.policies.find import read_policy
from envhub.policies.provider import Wanted

REACH = f"{DOCS}/examples/reach"
EXAMPLE = Path(DOCS, "examples/provider")
WEIGHTS = {"weights": [[-20, 0, 20, 0], [0, -20, 0, 20]]}


@pytest.fixture
def linear(tmp_path, monkeypatch):
    """Builds the package of the documentation and installs it beside this environment."""
    place = tmp_path / "installed"
    command = [uv.find_uv_bin(), "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    command += ["--python", sys.executable, "--target", place, EXAMPLE]
    subprocess.run(command, check=True)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setenv("PYTHONPATH", str(place))
    (tmp_path / "weights.json").write_text(json.dumps(WEIGHTS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate(out, policy="linear:weights.json", **more):
    options = {"tasks": ["reach-red"], "episodes": 2, "workers": 1, "out": out, **more}
    return envhub.evaluate(REACH, policy, **options)


def traces(run):
    return sorted((record.number, record.trace) for record in run.records())


def test_a_provider_of_one_file(linear, monkeypatch):
    """Named by its scheme, recorded as what it is, resumed, and refused when it has changed."""
    out = linear / "run"
    run = evaluate(out, policy_args={"gain": 1.0})
    assert all(record.success for record in run.records())
    policy = json.loads((out / "run.json").read_text())["policy"]
    assert (policy["ref"], policy["args"]) == ("linear:weights.json", {"gain": 1.0})
    assert policy["path"] == f"linear:{linear / 'weights.json'}"
    recorded = dict(policy["provided"])
    assert list(recorded.pop("files")) == ["weights.json"]
    size = (linear / "weights.json").stat().st_size
    assert recorded == {
        "scheme": "linear",
        "package": "envhub-linear",
        "version": "1.2",
        "details": {"bytes": size},
    }
    before = traces(run)
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text(lines[0])
    (linear / "elsewhere").mkdir()
    command = [sys.executable, "-m", "envhub", "eval", "--resume", out]
    subprocess.run(command, check=True, cwd=linear / "elsewhere")
    assert traces(envhub.open_run(out)) == before
    assert envhub.verify(out, policy=True, episodes=1, workers=1).ok
    (linear / "weights.json").write_text(json.dumps({**WEIGHTS, "note": 1}))
    with pytest.raises(RunDirectoryError, match=r"weights.json that .* was begun with is sha256:"):
        evaluate(out, policy_args={"gain": 1.0}, resume=True)


def test_a_providers_code_travels_to_the_interpreter_that_is_named(linear):
    """PYTHONPATH, by which it is installed here, is not passed on to that interpreter."""
    here = evaluate(linear / "here")
    named = evaluate(linear / "named", policy_python=sys.executable)
    assert named.info["policy"]["runtime"]["kind"] == "named"
    assert traces(named) == traces(here)


def test_what_a_provider_says_is_wrong(linear):
    with pytest.raises(UsageError, match=r"^linear:absent is not a file. Check the path.$"):
        evaluate(linear / "run", "linear:absent")
    assert not (linear / "run").exists()


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Installs a provider with some body."""

    def install(body, name="broken"):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (tmp_path / f"{name}.py").write_text(body)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = f"[envhub.policy_providers]\nbroken = {name}:provide\n"
        (info / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


HEAD = """
from envhub.policies.provider import ProvidedPolicy

def provide(rest, wanted):
"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("    return 1 / 0", "could not provide broken:x: ZeroDivisionError: division by zero"),
        ("    return rest", "returned a str for broken:x, not a ProvidedPolicy."),
        ("    return ProvidedPolicy(place='', factory='f')", "names the factory 'f': write"),
        (
            "    return ProvidedPolicy(place='', factory='a:b', files={'a': 1})",
            "returned something that cannot be recorded: Expected `str`, got `int`",
        ),
        (
            "    return ProvidedPolicy(place='', factory='a:b', details={'a': object()})",
            "returned something that cannot be recorded: Encoding objects of type object",
        ),
    ],
)
def test_a_provider_that_breaks_its_contract(broken, body, problem):
    broken(HEAD + body)
    with pytest.raises(PluginError) as caught:
        read_policy("broken:x").obtain(Wanted())
    assert str(caught.value).startswith(f"Plugin 'broken' of broken {problem}")


def test_two_providers_of_one_scheme(broken):
    broken(HEAD + "    return rest")
    broken(HEAD + "    return rest", name="other")
    with pytest.raises(PluginError, match="is claimed by broken and other: uninstall one of them"):
        read_policy("broken:x").obtain(Wanted())


def test_nothing_imports_a_provider_before_it_is_asked(broken):
    broken("raise SystemExit('imported')")
    for words in (["--help"], ["list"], ["eval", "absent-benchmark", "--policy", "random"]):
        done = subprocess.run(
            [sys.executable, "-m", "envhub", *words], capture_output=True, text=True
        )
        assert "imported" not in done.stdout + done.stderr


# A plugin of EnvHub that is not installed


@pytest.fixture(scope="module")
def without_lerobot(tmp_path_factory):
    """An environment with all that this one has, but the plugin."""
    place = tmp_path_factory.mktemp("without") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    packages = place / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "lerobot" not in path.name.lower():
            (packages / path.name).symlink_to(path)
    return place / "bin/python"


def test_a_scheme_whose_plugin_is_not_installed(without_lerobot, tmp_path):
    command = [without_lerobot, "-m", "envhub", "eval", REACH, "--policy", "lerobot:./here"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "needs the plugin envhub-lerobot, which is not installed." in done.stderr
    assert "pip install ./plugins/lerobot" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_program_whose_plugin_is_not_installed(without_lerobot):
    code = "from envhub import *; load_lerobot_policy('here')"
    done = subprocess.run([without_lerobot, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "envhub.errors.UsageError: load_lerobot_policy needs the plugin envhub-lerobot, which is "
        "not installed. In a clone of EnvHub, run: pip install ./plugins/lerobot"
    )
