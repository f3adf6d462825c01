"""`envhub runtime`, as a process."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.attacks import envhub
from support.disks import SmallDisk
from support.needs import needs_own_mount
from support.wheels import make_sdist, make_wheel, stand_ins

ENVHUB = [sys.executable, "-c", "from envhub.cli import main; main()"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """What workers need is empty here: nothing is run, and building takes no time."""
    place = tmp_path_factory.mktemp("small")
    stand_ins(place)
    make_wheel(place, "gadget", "1.0", {"gadget_data/x.txt": "x", "evil.pth": EVIL})
    return place


EVIL = "import os; open(os.environ.get('TRACE', '/dev/null'), 'w').write('ran')\n"


@pytest.fixture(autouse=True)
def home(index, only_index, monkeypatch, tmp_path):
    only_index(index)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    write("env", "gadget")
    return tmp_path / "home"


def write(name: str, *packages: str) -> None:
    Path(name).mkdir(exist_ok=True)
    block = f"# /// script\n# dependencies = {json.dumps(packages)}\n# ///\n"
    Path(name, "env.py").write_text(block + "raise RuntimeError('nothing is run')\n")


def start(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*ENVHUB, *arguments], stdout=pipe, stderr=pipe, text=True)


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    done = envhub(*arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def listed() -> list[dict[str, object]]:
    return json.loads(run("runtime", "list", "--json")[0])["runtimes"]


def test_building_listing_removing(home):
    assert run("runtime", "list")[0] == "No runtimes are built.\n"
    out, err = run("runtime", "build", "./env")
    key, python = out.split()
    assert python == str(home / f"runtimes/{key}/venv/bin/python")
    assert err.startswith("Building the runtime of env (5 packages) ...\nBuilt the runtime of env")
    assert run("runtime", "build", "./env", "--quiet") == (out, "")
    (facts,) = listed()
    assert (facts["key"], facts["for"], facts["state"]) == (key, "env", "whole")
    assert facts["packages"]["gadget"] == "1.0"
    (line,) = run("runtime", "list")[0].splitlines()
    assert line.startswith(key)
    assert "5 packages  whole  env" in line
    assert f"Removed {key}" in run("runtime", "remove", key)[0]
    assert listed() == []
    assert list((home / "resolved").iterdir()) == []
    _, err = run("runtime", "remove", key, code=2)
    assert f"No runtime is called '{key}'" in err


def test_removing_all(home):
    run("runtime", "build", "./env")
    write("other")
    run("runtime", "build", "./other")
    assert len(run("runtime", "remove", "--all")[0].splitlines()) == 2
    assert listed() == []
    assert [p.name for p in (home / "packages").iterdir() if not p.name.startswith(".")] == []
    assert "Name the runtimes to remove" in run("runtime", "remove", code=2)[1]


def test_nothing_of_a_package_runs_when_it_is_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    python = run("runtime", "build", "./env")[0].split()[1]
    assert list(Path(python).parents[1].rglob("__pycache__/gadget.*.pyc"))
    assert not (tmp_path / "trace").exists()
    subprocess.run([python, "-c", ""], check=True)
    assert (tmp_path / "trace").exists()


@pytest.mark.parametrize("file", ["data/pyvenv.cfg", "data/bin/python3.99", "scripts/python"])
def test_a_package_that_replaces_the_interpreter_is_refused(index, file, tmp_path):
    name = "evil" + re.sub(r"\W", "", file)
    make_wheel(index, name, "1.0", {f"{name}-1.0.data/{file}": "#!python\nhome = /tmp\n"})
    write("env", name)
    _, err = run("runtime", "build", "./env", code=5)
    assert "replaces files of its interpreter" in err or "reserved name" in err
    assert listed() == []


def test_four_processes_build_once():
    running = [start("runtime", "build", "./env") for _ in range(4)]
    ended = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert len({out for out, _ in ended}) == 1
    assert sum("Building the runtime" in err for _, err in ended) == 1


def test_a_builder_that_is_killed(home):
    building = start("runtime", "build", "./env")
    while not list(home.glob("runtimes/.*/venv/pyvenv.cfg")):
        assert building.poll() is None
        time.sleep(0.002)
    os.kill(building.pid, signal.SIGKILL)
    building.communicate()
    assert listed() == []
    run("runtime", "build", "./env")
    assert [facts["state"] for facts in listed()] == ["whole"]
    assert [p.name for p in (home / "runtimes").iterdir() if p.is_dir()] == [listed()[0]["key"]]


def test_a_damaged_one_is_told_and_built_again():
    python = Path(run("runtime", "build", "./env")[0].split()[1])
    module = next(python.parents[1].rglob("gadget.py"))
    module.chmod(0o644)
    module.write_text("VERSION = 'another'\n")
    assert [facts["state"] for facts in listed()] == ["damaged"]
    done = subprocess.run([*ENVHUB, "doctor"], capture_output=True, text=True, check=False)
    assert "damaged" in done.stdout
    assert f"fix: envhub runtime remove {python.parents[2].name}" in done.stdout
    assert "is damaged: rebuilding it." in run("runtime", "build", "./env")[1]
    assert module.read_text() == "VERSION = '1.0'\n"


@pytest.mark.parametrize("command", [("eval",), ("info",), ("list",), ("runtime", "build")])
def test_what_cannot_be_had_is_exit_code_5(command):
    write("env", "absent-thing>=3")
    out, err = run(*command, "./env", code=5)
    assert out == ""
    assert "envhub: The runtime of env cannot be built: absent-thing>=3.\nuv said:\n" in err
    assert f"and run: envhub runtime build {Path.cwd()}/env/env.py" in err
    assert list(Path().glob("runs/*")) == []


@needs_own_mount
def test_a_full_disk_is_no_matter_of_the_requirement(tmp_path):
    (place := tmp_path / "disk").mkdir()
    disk = SmallDisk(place, "40k")
    command = [*disk.enter(tmp_path), *ENVHUB, "runtime", "build", "./env"]
    variables = os.environ | {"UV_CACHE_DIR": str(place / "cache")}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
    finally:
        disk.close()
    assert done.returncode == 5
    assert "The runtime of env cannot be built: No space left on device." in done.stderr
    assert "Free some space, or set ENVHUB_CACHE_DIR and UV_CACHE_DIR" in done.stderr
    assert "Correct the requirement" not in done.stderr


def test_offline_and_not_built_is_exit_code_5(monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    write("env", "gadget")
    _, err = run("eval", "./env", code=5)
    assert f"When online, run: envhub runtime build {Path.cwd()}/env/env.py" in err


def test_a_reference_on_the_hub_needs_no_consent(local_hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    local_hub.create("me/env")
    commit = local_hub.commit("me/env", {"env.py": Path("env/env.py").read_bytes()})
    key = run("runtime", "build", f"me/env@{commit}")[0].split()[0]
    out, err = run("runtime", "build", "me/env@main")
    assert out.split()[0] == key
    assert f"me/env@main:env.py is currently me/env@{commit}:env.py." in err
    assert "--locked needs envhub.lock" in run("runtime", "build", f"me/env@{commit}", "--locked",
                                               code=2)[1]  # fmt: skip
    run("lock", f"me/env@{commit}")
    assert run("runtime", "build", f"me/env@{commit}", "--locked")[0].split()[0] == key


def test_a_plugins_lock_may_have_something_built(index, tmp_path, monkeypatch):
    raw = make_sdist(index, "rawthing", "1.0")
    needs = stand_ins(index)
    package, info = tmp_path / "site/envhub_raw", tmp_path / "site/envhub_raw-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: envhub-raw\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[envhub]\nraw = envhub_raw\n")
    (package / "__init__.py").write_text(
        "from envhub import Benchmark, Task, hookimpl\n\n\n@hookimpl\ndef envhub_benchmarks():\n"
        "    tasks = (Task('t', 'd', 1),)\n"
        "    yield Benchmark('raw', 'x:y', {'a': tasks}, runtime='envhub_raw:runtime.txt')\n"
    )
    lock = package / "runtime.txt"
    lock.write_text("\n".join([raw, *needs]) + "\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    _, err = run("runtime", "build", "raw", code=5)
    assert "rawthing==1.0" in err
    assert "and run: envhub runtime build raw" in err
    lock.write_text("# envhub: build rawthing\n" + lock.read_text())
    python = Path(run("runtime", "build", "raw")[0].split()[1])
    assert next(python.parents[1].rglob("rawthing.py")).read_text() == "VERSION = '1.0'\n"
