"""Where a benchmark's code runs: its variables, its caches, and what errors say about the place."""

import json
import os
from pathlib import Path

import pytest
from support.attacks import envhub as run
from support.needs import (
    SANDBOXES,
    needs_bubblewrap,
    needs_egl,
    needs_landlock,
    needs_metaworld,
    needs_osmesa,
)
from support.notes import bring_notes
from support.paths import ROOT

import envhub
from envhub.errors import UsageError
from envhub.host.hints import FILES_HINT, GL_HINT, NETWORK_HINT

ENV = """
import os, socket, urllib.request
import gymnasium as gym
import numpy as np

{head}

class Env(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    _max_episode_steps = 3

    def reset(self, *, seed=None, options=None):
        {on_reset}
        return np.zeros(1, np.float32), {{}}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {{}}

    def look(self):
        return dict(os.environ)

def make_env(n_envs=1, use_async_envs=False):
    return Env()
"""


def env_file(head: str = "", on_reset: str = "pass") -> str:
    return ENV.format(head=head, on_reset=on_reset)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch, tmp_path):
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def local(tmp_path):
    directory = tmp_path / "env"
    directory.mkdir()

    def write(**parts: str) -> str:
        (directory / "env.py").write_text(env_file(**parts))
        return str(directory)

    return write


@pytest.fixture
def on_hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "cache"))
    bring_notes(tmp_path / "cache")
    local_hub.create("me/env")

    def publish(**parts: str) -> str:
        return f"me/env@{local_hub.commit('me/env', {'env.py': env_file(**parts)})}:env.py"

    return publish


def look(ref: str, n_envs: int = 1, **options) -> tuple[dict[str, str], ...]:
    """The variables that the code of a benchmark sees, in every env."""
    ((env,),) = [tasks.values() for tasks in envhub.make_env(ref, n_envs, **options).values()]
    with env:
        env.reset(seed=0)
        return env.call("look")


# GL


@needs_egl
def test_every_worker_gets_a_backend_that_draws(local):
    for seen in look(local(), n_envs=2):
        assert seen["MUJOCO_GL"] == "egl"


@needs_metaworld
@pytest.mark.parametrize(
    "backend",
    [pytest.param("egl", marks=needs_egl), pytest.param("osmesa", marks=needs_osmesa)],
)
def test_an_env_file_may_still_choose(local, backend):
    chooses = f"os.environ['MUJOCO_GL'] = {backend!r}\nimport mujoco\nmujoco.GLContext(8, 8)"
    [seen] = look(local(head=chooses))
    assert (seen["MUJOCO_GL"], seen["PYOPENGL_PLATFORM"]) == (backend, backend)


@needs_osmesa
def test_osmesa_where_egl_does_not_draw(local, monkeypatch):
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/dev/null")
    [seen] = look(local())
    assert seen["MUJOCO_GL"] == "osmesa"


def test_the_users_backend_is_kept(local, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    [seen] = look(local())
    assert seen["MUJOCO_GL"] == "glfw"


@needs_egl
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_in_a_sandbox_too_but_without_the_display(on_hub, sandbox, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":99")
    [seen] = look(on_hub(), trust_remote_code=True, sandbox=sandbox)
    assert seen["MUJOCO_GL"] == "egl"
    assert "DISPLAY" not in seen


def test_local_code_sees_the_display(local, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":99")
    monkeypatch.setenv("XAUTHORITY", "/cookies")
    [seen] = look(local())
    assert (seen["DISPLAY"], seen["XAUTHORITY"]) == (":99", "/cookies")


@needs_egl
@pytest.mark.filterwarnings("ignore:1 of 1 episodes ended with an error:RuntimeWarning")
def test_without_workers_too_and_this_process_stays_as_it_was(local, tmp_path):
    shows = "raise RuntimeError(os.environ.get('MUJOCO_GL'), os.environ.get('SHOWN'))"
    run_ = envhub.evaluate(
        local(on_reset=shows),
        episodes=1,
        workers=0,
        retries=0,
        out=tmp_path / "run",
        env_vars={"SHOWN": "yes"},
    )
    [record] = run_.records()
    assert "('egl', 'yes')" in record.error.message
    assert not {"MUJOCO_GL", "SHOWN"} & os.environ.keys()


@pytest.mark.parametrize("command", ["info", "eval"])
def test_a_gl_failure_ends_with_one_sentence(local, command):
    raises = "raise ImportError('Cannot initialize a EGL device display')"
    parts = {"head": raises} if command == "info" else {"on_reset": raises}
    done = run(command, local(**parts), *(("--episodes", 12) if command == "eval" else ()))
    assert done.returncode == 4
    assert done.stderr.endswith(f"\n{GL_HINT}\n"), done.stderr
    assert "Traceback" not in done.stderr


# Modules


def test_what_lies_beside_envhub_in_a_checkout_is_not_found(local):
    """`make demo` leaves `runs` there, and a benchmark that lacks such a module would work."""
    assert (ROOT / "tests" / "support").is_dir()
    done = run("info", local(head="import tests.support"))
    assert done.returncode == 4
    assert "No module named 'tests'" in done.stderr


# Caches


def test_caches_go_to_the_workers_own_directory(local):
    seen = look(local(), n_envs=3)
    for one in seen:
        for name in ("NUMBA_CACHE_DIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"):
            assert Path(one[name]).is_relative_to(one["HOME"])
    assert len({one["NUMBA_CACHE_DIR"] for one in seen}) == 3


# --env-var

QUICK = ("--episodes", 1, "--workers", 0)


def test_variables_are_let_through_to_every_worker(local, monkeypatch):
    monkeypatch.setenv("MY_DATA", "/another")
    chosen = {"MY_DATA": "/data", "HOME": "/home", "LD_PRELOAD": "", "MUJOCO_GL": "disable"}
    for seen in look(local(), n_envs=4, env_vars=chosen):
        assert {name: seen[name] for name in chosen} == chosen


@pytest.mark.parametrize("sandbox", [*SANDBOXES, "none"])
def test_variables_are_let_through_to_foreign_code(on_hub, sandbox):
    options = {"trust_remote_code": True, "sandbox": sandbox}
    [seen] = look(on_hub(), env_vars={"HF_TOKEN": "given=1"}, **options)
    assert seen["HF_TOKEN"] == "given=1"
    assert not any(name.startswith("ENVHUB") for name in seen)
    with pytest.raises(UsageError, match="--env-var LD_PRELOAD is refused"):
        look(on_hub(), env_vars={"LD_PRELOAD": "/x.so"}, **options)


def test_names_are_recorded_and_values_are_not(local, tmp_path):
    reads = "assert os.environ['API_KEY'] == 's3cr3t' and os.environ['MODE'] == 'a'"
    arguments = ("--env-var", "API_KEY", "--env-var", "MODE=a", "--episodes", 1, "--out", "out")
    done = run("eval", local(on_reset=reads), *arguments, API_KEY="s3cr3t")
    assert done.returncode == 0, done.stderr
    info = json.loads((tmp_path / "out" / "run.json").read_text())
    assert info["benchmark"]["env_vars"] == ["API_KEY", "MODE"]
    assert info["benchmark"]["env_var_hashes"] == {
        "API_KEY": "scrypt:aeef8b51b0cb042cc9c199ad16e8e40e",
        "MODE": "scrypt:be3dad8f9d98e0d13671a05c6bbfdf19",
    }
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or b"s3cr3t" not in file.read_bytes()


def test_a_run_is_continued_with_the_same_variables(local, tmp_path):
    ref = local(on_reset="os.environ['MODE']")
    question = ("eval", ref, *QUICK, "--out", "out", "--continue")
    assert run(*question, "--env-var", "MODE=a").returncode == 0
    done = run(*question)
    assert done.returncode == 2
    assert 'The --env-var that out was begun with is ["MODE"], and now it is []' in done.stderr
    done = run(*question, "--env-var", "MODE=b")
    assert done.returncode == 2
    assert "The --env-var value MODE that out was begun with is scrypt:" in done.stderr
    assert run(*question, "--env-var", "MODE=a").returncode == 0
    (tmp_path / "out" / "episodes.jsonl").write_text("")
    done = run("eval", "--resume", "out", "--workers", 0)
    assert done.returncode == 2
    assert "begun with --env-var MODE, whose value is not recorded" in done.stderr
    done = run("eval", "--resume", "out", "--workers", 0, "--env-var", "MODE=a")
    assert done.returncode == 0, done.stderr
    (tmp_path / "out" / "episodes.jsonl").write_text("")
    assert run("eval", "--resume", "out", "--workers", 0, MODE="a").returncode == 0
    done = run("eval", "--resume", "out", "--workers", 0, "--env-var", "OTHER=a", MODE="a")
    assert done.returncode == 2
    assert "--env-var" in done.stderr


def test_runs_with_other_values_are_not_compared(local, tmp_path):
    ref = local(on_reset="os.environ['MODE']")
    for name, value in (("a1", "a"), ("a2", "a"), ("b", "b")):
        done = run("eval", ref, *QUICK, "--out", name, "--env-var", f"MODE={value}")
        assert done.returncode == 0, done.stderr
    protocol = {
        name: json.loads((tmp_path / name / "run.json").read_text())["protocol"]
        for name in ("a1", "a2", "b")
    }
    assert protocol["a1"] == protocol["a2"] != protocol["b"]
    assert "differ" not in run("compare", "a1", "a2").stderr
    done = run("compare", "a1", "b")
    assert done.returncode == 2
    assert "The runs differ in --env-var value (MODE scrypt:" in done.stderr


def test_a_run_without_hashes_is_continued(local, tmp_path):
    """As those that were begun before values counted."""
    ref, place = local(on_reset="os.environ['MODE']"), tmp_path / "out"
    question = (
        "eval",
        ref,
        *QUICK,
        "--episodes",
        2,
        "--out",
        "out",
        "--continue",
        "--env-var",
        "MODE=a",
    )
    assert run(*question).returncode == 0
    info = json.loads((place / "run.json").read_text())
    hashes = info["benchmark"].pop("env_var_hashes")
    (place / "run.json").write_text(json.dumps(info))
    first, _ = (place / "episodes.jsonl").read_text().splitlines(keepends=True)
    (place / "episodes.jsonl").write_text(first)
    done = run(*question)
    assert done.returncode == 0, done.stderr
    info = json.loads((place / "run.json").read_text())
    assert info["benchmark"]["env_var_hashes"] == hashes


def test_a_stranger_verifies_with_values_of_their_own(local):
    ref = local(on_reset="os.environ['KEY']")
    done = run("eval", ref, *QUICK, "--out", "out", "--env-var", "KEY=theirs")
    assert done.returncode == 0, done.stderr
    done = run("verify", "out", "--env-var", "KEY=mine")
    assert done.returncode == 2
    assert "The --env-var value KEY that out was begun with" in done.stderr
    done = run("verify", "out", "--benchmark", ref, "--env-var", "KEY=mine")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--env-var", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE is not set here"),
        (("--env-var", "=x"), "'' is not the name of a variable"),
        (("--env-var", "A=1", "--env-var", "A=2"), "--env-var A is given twice"),
    ],
)
def test_variables_that_cannot_be_let_through(local, arguments, message):
    done = run("eval", local(), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# What errors in a sandbox say


RESOLVES = "urllib.request.urlopen('http://a.invalid/x')"
CONNECTS = "socket.create_connection(('127.0.0.1', 9), timeout=5)"
PROBLEMS = [
    pytest.param("eval", "open('log.txt', 'w')", FILES_HINT, "bubblewrap", marks=needs_bubblewrap),
    pytest.param("info", "open('/usr/x', 'w')", FILES_HINT, "landlock", marks=needs_landlock),
    pytest.param("try", RESOLVES, NETWORK_HINT, "bubblewrap", marks=needs_bubblewrap),
    pytest.param("info", CONNECTS, NETWORK_HINT, "bubblewrap", marks=needs_bubblewrap),
    pytest.param("eval", CONNECTS, NETWORK_HINT, "landlock", marks=needs_landlock),
]
"""Each is met by one of the commands; in `info` while the file is loaded, else at a reset."""


@pytest.mark.filterwarnings("ignore:1 of 1 episodes ended with an error:RuntimeWarning")
@pytest.mark.parametrize(("command", "code", "hint", "sandbox"), PROBLEMS)
def test_errors_in_a_sandbox_name_the_option(on_hub, command, code, hint, sandbox):
    ref = on_hub(head=code) if command == "info" else on_hub(on_reset=code)
    if command == "eval":
        options = {"trust_remote_code": True, "sandbox": sandbox}
        run_ = envhub.evaluate(ref, episodes=1, retries=0, workers=1, out="out", **options)
        [record] = run_.records()
        assert record.status == "env_error"
        assert record.error.message.endswith(f"\n{hint}"), record.error.message
        return
    done = run(command, ref, "--trust-remote-code", "--sandbox", sandbox)
    assert done.returncode == 4
    assert done.stderr.endswith(f"\n{hint}\n"), done.stderr


def test_errors_outside_of_a_sandbox_have_no_such_hint(local):
    done = run("try", local(on_reset="open('/proc/nowhere/x', 'w')"))
    assert done.returncode == 4
    assert "sandbox" not in done.stderr
