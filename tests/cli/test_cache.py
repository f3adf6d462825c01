"""`envhub cache`, as a process."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from envhub_localhub import Large, faults
from support.looking import install
from support.wheels import make_wheel, stand_ins

from envhub.sources.trust import Ledger

ENVHUB = [sys.executable, "-c", "from envhub.cli import main; main()"]
MONTHS_AGO = (time.time() - 100 * 86400,) * 2
ENV = """# /// script
# dependencies = ["gadget"]
# ///
import time, gymnasium, numpy as np
class Env(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))
    def reset(self, seed=None, options=None): return np.zeros(1, np.float32), {}
    def step(self, action):
        time.sleep(0.05)
        return np.zeros(1, np.float32), 0.0, False, False, {}
def make_env(n_envs=1, use_async_envs=False): return {"gadgets": {"turn": Env()}}
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    place = tmp_path_factory.mktemp("index")
    stand_ins(place)
    make_wheel(place, "gadget", "1.0", {"gadget_data/x.txt": "x"})
    return place


@pytest.fixture
def home(index, only_index, local_hub, monkeypatch, tmp_path):
    """A cache with a runtime, EnvHub's copy for it, two commits, a set of assets and uv's files."""
    only_index(index)
    install(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.chdir(tmp_path)
    Path("env").mkdir()
    Path("env/env.py").write_text(ENV)
    local_hub.create("owner/meshes", kind="dataset")
    meshes = {"red.stl": Large(bytes(50_000)), "table.xml": "x"}
    local_hub.commit("owner/meshes", meshes, kind="dataset")
    local_hub.create("me/env")
    return tmp_path / "home"


def envhub(*arguments, code=0):
    done = subprocess.run([*ENVHUB, *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def listed(*kinds):
    content = json.loads(envhub("cache", "list", *kinds, "--json")[0])
    assert content["bytes"] == sum(item["bytes"] for item in content["items"])
    return {item["name"]: item for item in content["items"]}


def kinds_of(items):
    return sorted(item["kind"] for item in items.values())


def test_listing_pruning_and_cleaning(home, local_hub, tmp_path, monkeypatch):
    assert "Nothing is in" in envhub("cache", "list", "runtimes", "sources")[0]
    key = envhub("runtime", "build", "./env")[0].split()[0]
    envhub("assets", "fetch", "looking")
    first, second = (local_hub.commit("me/env", {"env.py": f"# {k}\n"}) for k in range(2))
    for commit in (first, second):
        envhub("trust", f"me/env@{commit}", code=3)  # fetched, and not agreed to: no terminal
    Ledger().add(local_hub.endpoint, "me/env", second)
    items = listed()
    assert kinds_of(items) == ["assets", "packages", "runtimes", "sources", "sources", "uv"]
    [copy] = [item for item in items.values() if item["kind"] == "packages"]
    [meshes] = [item for item in items.values() if item["kind"] == "assets"]
    old, agreed = items[f"me/env@{first}"], items[f"me/env@{second}"]
    assert items[key]["needed_by"] == f"{tmp_path}/env/env.py"
    assert copy["needed_by"] == "envhub-core"
    assert meshes["needed_by"] == "envhub assets"
    assert (old["needed_by"], agreed["needed_by"]) == (None, "your consent")
    assert meshes["bytes"] > 50_000
    assert items[key]["last_used"] > "2026"
    assert not any(item["in_use"] for item in items.values())
    monkeypatch.setenv("COLUMNS", "200")
    text = envhub("cache", "list")[0]
    assert f"needed by {tmp_path}/env/env.py" in text
    assert f"me/env@{first[:12]}  " in text
    monkeypatch.setenv("COLUMNS", "60")
    narrow = envhub("cache", "list")[0]
    assert narrow.split() == text.split()
    wide = [line for line in narrow.splitlines() if len(line) > 60]
    assert all(str(tmp_path) in line for line in wide)  # a path is not broken

    # Nothing is old enough; then all is, and what is needed stays.
    assert envhub("cache", "prune", "--yes")[0] == "Nothing to remove.\n"
    for place in home.rglob(".*.used"):
        os.utime(place, MONTHS_AGO)
    out, _ = envhub("cache", "prune", "--dry-run")
    assert out.startswith(f"Would remove me/env@{first} (")
    assert first in str(listed())
    refused = envhub("cache", "prune", code=2)[1]
    assert refused.startswith("envhub: 1 thing with ")
    assert "Give --yes, or --dry-run to see what." in refused
    assert envhub("cache", "prune", "--yes")[0].startswith(f"Removed me/env@{first} (")
    Path("env/env.py").unlink()  # then nobody needs the runtime, and its last use is long ago
    pruned = json.loads(envhub("cache", "prune", "--yes", "--json")[0])
    assert [item["name"] for item in pruned["removed"]] == [key]
    assert list((home / "numba").iterdir()) == list((home / "resolved").iterdir()) == []

    out = envhub("cache", "clean", f"me/env@{second[:12]}", "assets", "--yes")[0]
    assert [line.split(" (")[0] for line in out.splitlines()[:2]] == [
        f"Removed me/env@{second}",
        f"Removed {meshes['name']}",
    ]
    assert kinds_of(listed()) == ["packages", "uv"]
    assert [p.name for p in (home / "sources").iterdir() if p.is_dir()] == []
    # The commit is still kept, so that the same files come again.
    assert envhub("assets", "fetch", "looking")[0].startswith(meshes["name"])
    envhub("cache", "clean", "--all", "--yes")
    assert kinds_of(listed()) == ["uv"]  # which is not only EnvHub's
    envhub("cache", "clean", "uv", "--yes")
    assert not list(tmp_path.glob("uv/archive-v*"))


def test_what_a_run_uses_stays(home, tmp_path):
    key = envhub("runtime", "build", "./env", "--quiet")[0].split()[0]
    argv = [*ENVHUB, "runtime", "build", "./env"]
    script = "from envhub.runtime.provision import build, file_requirements\n"
    script += "from pathlib import Path\n"
    script += "build(*file_requirements(Path('env/env.py')), name='env', line='x')\n"
    script += "print('ready', flush=True); input()\n"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as using:
        using.stdout.readline()
        items = listed("runtimes", "packages")
        assert [item["in_use"] for item in items.values()] == [True, True]
        assert ", in use" not in envhub("cache", "list", "uv")[0]
        dry = json.loads(envhub("cache", "clean", key, "--dry-run", "--json", code=1)[0])
        assert (dry["removed"], dry["in_use"][0]["name"]) == ([], key)
        out, err = envhub("cache", "clean", "--all", "--yes", code=1)
        assert (out, err.count("A running process uses")) == ("Nothing to remove.\n", 2)
        assert envhub("runtime", "remove", key, code=1)[1].startswith("A running process uses")
        assert envhub("cache", "prune", "--unused-for", "0", "--yes")[0] == "Nothing to remove.\n"
        os.kill(using.pid, signal.SIGKILL)
    assert subprocess.run(argv, capture_output=True, text=True).stderr == ""  # as it was
    assert key in envhub("runtime", "remove", key)[0]


def test_a_fetch_that_was_cut_is_listed_and_removed(home, local_hub):
    with local_hub.fault(faults.Status(503, "/large-files/")):
        envhub("assets", "fetch", "looking", code=6)
    [(name, item)] = listed("assets").items()
    assert name == f"owner/meshes@{local_hub.commit_of('owner/meshes', kind='dataset')}"
    assert (item["whole"], item["needed_by"], item["in_use"]) == (False, None, False)
    assert "unfinished" in envhub("cache", "list")[0]
    assert envhub("cache", "prune", "--unused-for", "0", "--yes")[0].startswith(f"Removed {name}")
    assert listed("assets") == {}


def test_asking(home, monkeypatch):
    """On a terminal it says what it would remove; anything but yes removes nothing."""
    script = shutil.which("script")
    if script is None:
        pytest.skip("needs script, which gives a command a terminal")
    key = envhub("runtime", "build", "./env")[0].split()[0]
    line = f"{shlex.quote(sys.executable)} -m envhub cache clean runtimes"
    for answer, left in (("n\n", {key}), ("y\n", set())):
        done = subprocess.run([script, "-qec", line, "/dev/null"], input=answer, text=True,
                              capture_output=True)  # fmt: skip
        assert "Remove this (" in done.stdout
        assert set(listed("runtimes")) == left
        assert done.returncode == (130 if left else 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "runtime"), "No kind of the cache is called 'runtime'. Did you mean 'runtimes'?"),
        (("clean",), "Name what to remove, or give --all. See envhub cache list."),
        (("clean", "uv", "--all"), "Name what to remove, or give --all. See envhub cache list."),
        (("clean", "checkpoint"), "No thing in the cache is called 'checkpoint'"),
        (("clean", ""), "No thing in the cache is called ''"),
        (("prune", "--unused-for", "-1"), "Invalid value for '--unused-for'"),
        (("prune", "--unused-for", "nan"), "Invalid value for '--unused-for'"),
    ],
)
def test_wrong_words(home, arguments, said):
    assert said in envhub("cache", *arguments, code=2)[1]
