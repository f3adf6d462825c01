"""Whoever can write to the cache, as to that of a CI or of a shared disk, runs nothing there.

The state directory is the user's own. Every change is made as cleverly as it can be: with a record
that agrees with it. What is planted writes a marker below a temporary directory, and nothing else.
"""

import importlib.util
import json
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.attacks import envhub, python
from support.guards import takes_away
from support.paths import TESTS
from support.wheels import make_wheel

from envhub import directories
from envhub.files import set_writable
from envhub.runtime.compiled import compiled_functions

ENV = """
# /// script
# dependencies = ["gadget"]
# ///
import os, pickle
from pathlib import Path

import gadget
import gymnasium as gym
import numpy as np

for file in Path(os.environ["NUMBA_CACHE_DIR"]).glob("*.nbi"):
    pickle.loads(file.read_bytes())  # as Numba does


class Env(gym.Env):
    _max_episode_steps = 2
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    task_description = gadget.VERSION

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {"is_success": False}


def make_env(n_envs=1, use_async_envs=False):
    return Env()
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, uv_cache, real_index) -> Iterator[tuple[Path, dict[str, str]]]:
    """A cache with a runtime, its user's state directory, and what a command needs to use them."""
    top = tmp_path_factory.mktemp("caches")
    (top / "bench").mkdir()
    (top / "bench/env.py").write_text(ENV)
    variables = {
        "XDG_CACHE_HOME": str(top / "cache"),
        "XDG_STATE_HOME": str(top / "state"),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_CACHE_DIR": str(uv_cache),
        "UV_DEFAULT_INDEX": f"{real_index.as_uri()}/simple",
    }
    done = envhub("runtime", "build", top / "bench", **variables)
    assert done.returncode == 0, done.stderr
    yield top, variables
    set_writable(top, writable=True)


@pytest.fixture
def place(prepared, tmp_path, monkeypatch) -> Path:
    """A copy of them for one test, which the command uses."""
    top, variables = prepared
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace(f"{top}/cache", f"{tmp_path}/cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("cache", "state", "bench"):
        shutil.copytree(top / name, tmp_path / name, symlinks=True)
    return tmp_path


def evaluate(place: Path):
    out = place / f"run-{len(list(place.glob('run-*')))}"
    return envhub("eval", place / "bench", "--episodes", "1", "--workers", "1", "--out", out)


def writes(marker: Path) -> str:
    return f"\nopen({str(marker)!r}, 'w').close()\n"


def plant(directory: Path, module: str, marker: Path, *, compiled: bool) -> None:
    """Change a module in a built directory, and its record so that it agrees."""
    set_writable(directory, writable=True)
    [source] = directory.rglob(module)
    code = source.read_text() + writes(marker)
    if compiled:  # Python takes it if it has the time and the size of the source
        status = source.stat()
        data = bytearray(importlib._bootstrap_external._code_to_timestamp_pyc(
            compile(code, str(source), "exec"), int(status.st_mtime), status.st_size
        ))  # fmt: skip
        Path(importlib.util.cache_from_source(str(source))).write_bytes(data)
    else:
        source.write_text(code)
    set_writable(directory, writable=False)
    directory.chmod(0o755)
    record = json.loads((directory / "envhub.json").read_text())
    record["content"] = directories._digest_tree(directory, record["tag"], directories._content)
    (directory / "envhub.json").chmod(0o644)
    (directory / "envhub.json").write_text(json.dumps(record))
    directory.chmod(0o555)


@pytest.mark.parametrize(
    ("folder", "module", "compiled"),
    [
        ("packages", "envhub/__init__.py", False),
        ("packages", "envhub/__init__.py", True),
        ("runtimes", "gadget.py", True),
    ],
)
def test_what_is_planted_in_a_built_directory_is_not_executed(place, folder, module, compiled):
    marker = place / "marker"
    [directory] = (p for p in (place / "cache/envhub" / folder).iterdir() if p.is_dir())
    plant(directory, module, marker, compiled=compiled)
    done = evaluate(place)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    assert done.stderr.count(f"{directory} is damaged: rebuilding it.") == 1


UNCHECKED = """
from support.guards import taken_away
from envhub.cli import main

with taken_away("caches"):
    main()
"""


@takes_away("caches")
def test_without_the_check_it_is(place):
    """With it, the test above says what happens."""
    marker = place / "marker"
    [directory] = (p for p in (place / "cache/envhub/runtimes").iterdir() if p.is_dir())
    plant(directory, "gadget.py", marker, compiled=False)
    asked = ("eval", place / "bench", "--episodes", "1", "--workers", "1", "--out", place / "run")
    done = python(UNCHECKED, *asked, PYTHONPATH=str(TESTS))
    assert done.returncode == 0, done.stderr
    assert marker.exists()


def test_what_somebody_else_has_built_is_not_executed(place):
    """A cache that comes without the user's state, as to a fresh machine of a CI."""
    shutil.rmtree(place / "state")
    marker = place / "marker"
    [runtime] = (p for p in (place / "cache/envhub/runtimes").iterdir() if p.is_dir())
    [package] = (p for p in (place / "cache/envhub/packages").iterdir() if p.is_dir())
    plant(runtime, "gadget.py", marker, compiled=False)
    plant(package, "envhub/__init__.py", marker, compiled=False)
    done = evaluate(place)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    for directory in (runtime, package):
        assert done.stderr.count(f"{directory} was not built by you: rebuilding it.") == 1


def test_planted_pins_are_not_installed(place, real_index, monkeypatch):
    marker = place / "marker"
    files = {"gadget.py": f"VERSION = '9.9'\n{writes(marker)}"}
    shutil.copytree(real_index, place / "index")
    planted = make_wheel(place / "index", "gadget", "9.9", files)
    caches = [place / "cache/envhub", place / "state/envhub"]
    [kept] = (path for cache in caches for path in cache.glob("resolved/*.txt"))
    lines = [
        planted if line.startswith("gadget==") else line for line in kept.read_text().split("\n")
    ]
    (place / "cache/envhub/resolved").mkdir(exist_ok=True)
    (place / "cache/envhub/resolved" / kept.name).write_text("\n".join(lines))
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{(place / 'index').as_uri()}/simple")
    done = evaluate(place)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()


class _Opens:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def test_planted_compiled_functions_are_not_loaded(place):
    marker = place / "marker"
    [runtime] = (p for p in (place / "cache/envhub/runtimes").iterdir() if p.is_dir())
    in_cache = place / "cache/envhub/numba" / runtime.name
    in_cache.mkdir(parents=True)
    (in_cache / "planted.nbi").write_bytes(pickle.dumps(_Opens(marker)))
    assert evaluate(place).returncode == 0
    assert not marker.exists()


# Only root can give a directory to somebody else.
@pytest.mark.parametrize("how", ["mode", "link", *(["owner"] if os.getuid() == 0 else [])])
def test_compiled_functions_of_somebody_else_are_not_loaded(place, how):
    """A state directory that others can write to after all."""
    marker = place / "marker"
    [runtime] = (p for p in (place / "cache/envhub/runtimes").iterdir() if p.is_dir())
    mine, theirs = compiled_functions(runtime.name), place / "theirs"
    match how:
        case "mode":
            mine.chmod(0o777)
        case "link":
            mine.rmdir()
            theirs.mkdir()
            mine.symlink_to(theirs)
        case "owner":
            os.chown(mine, 12345, 12345)
    (mine / "planted.nbi").write_bytes(pickle.dumps(_Opens(marker)))
    done = evaluate(place)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    assert done.stderr.count(f"Somebody else could write to {mine}: removing it.") == 1
    assert mine.stat().st_mode & 0o777 == 0o700


def test_the_compiled_functions_of_the_user_are_kept(place):
    """Otherwise the tests above would pass with a directory that nothing reads."""
    marker = place / "marker"
    [runtime] = (p for p in (place / "cache/envhub/runtimes").iterdir() if p.is_dir())
    own = compiled_functions(runtime.name) / "own.nbi"
    own.write_bytes(pickle.dumps(_Opens(marker)))
    assert evaluate(place).returncode == 0
    assert marker.exists()
