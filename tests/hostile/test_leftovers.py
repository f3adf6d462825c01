"""Attacks on the guards: an env whose processes are to outlive the worker, whoever is killed.

The processes are harmless: they sleep, and end by themselves after two minutes.
"""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.attacks import env_file, envhub
from support.guards import taken_away, takes_away
from support.processes import alive, children, kill, survivors, wait_for_end, wait_until
from support.sources import ORIGIN

from envhub.errors import WorkerDied
from envhub.host.remote import RemoteEnv
from envhub.options import Limits
from envhub.types import Confinement, FileSource, WorkerSpec

pytestmark = pytest.mark.timeout(120)

LIMITS = Limits(start=60, reset=60, step=60, close=20)
LITTER = """
import ctypes, os, signal, subprocess, sys, time

ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # the worker no longer ends with its parent
held = os.open({marker!r}, os.O_RDONLY)  # all that descends from here holds it

def stay():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(120)
    os._exit(0)

if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setpgid(0, 0)
    os.fork()
    stay()
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir("/")
    stay()
argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(120)"]
subprocess.Popen(argv, pass_fds=(held,), start_new_session=True, env={{}}, cwd="/")
"""
LITTERERS = 6
"""The worker and the processes that it starts, without those that end at once."""


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """Where scratch directories are made."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


@pytest.fixture
def load(sandbox, tmp_path, scratch):
    """Starts a worker that loads some code; after the test nothing of it is left."""
    directory = tmp_path / "shown"
    directory.mkdir()
    (directory / "marker").touch()
    started: list[RemoteEnv] = []

    def start(code: str) -> RemoteEnv:
        (directory / "env.py").write_text(env_file(top=code))
        confinement = Confinement(sandbox, network=False, readable=(str(directory),))
        source = FileSource(str(directory), "env.py", "litter", "litter", ORIGIN, confinement)
        started.append(RemoteEnv("env 0", WorkerSpec(source, {}, LIMITS)))
        started[-1].load()
        return started[-1]

    yield start
    for env in started:
        env.worker.end()
    assert wait_for_end(tmp_path) == []
    wait_until(lambda: os.listdir(scratch) == [])


def holders(directory: Path) -> int:
    """How many processes hold the marker."""
    marker = str(directory / "shown/marker")
    count = 0
    for pid, _ in survivors(directory):
        try:
            links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:  # it has ended
            continue
        count += marker in links
    return count


@pytest.mark.parametrize("moment", [0.0, 0.1, None])
@pytest.mark.parametrize("depth", [0, 1])
def test_whichever_guard_is_killed_everything_ends(load, depth, moment, tmp_path):
    """The host's child or the child of that, some seconds after the start or when all run."""
    env = load(LITTER.format(marker=str(tmp_path / "shown/marker")))
    if moment is None:
        wait_until(lambda: holders(tmp_path) >= LITTERERS)
    else:
        time.sleep(moment)
    outer = env.worker.child.pid
    for pid in children(outer) if depth else [outer]:
        kill(pid)
    env.worker.wait()  # an answer that was sent before counts


@takes_away("second-guard")
def test_without_the_second_guard_they_stay(load, tmp_path):
    """With it, the test above says what happens."""
    with taken_away("second-guard"):
        env = load(LITTER.format(marker=str(tmp_path / "shown/marker")))
        wait_until(lambda: holders(tmp_path) >= LITTERERS)
        kill(env.worker.child.pid)
        env.worker.wait()
    time.sleep(0.5)
    left = [pid for pid, _ in survivors(tmp_path)]
    for pid in left:
        with suppress(ProcessLookupError):  # bwrap takes its processes along
            os.kill(pid, signal.SIGKILL)
    assert len(left) >= LITTERERS - 1


DIRECTORIES = """
import os
from pathlib import Path

home = Path(os.environ["HOME"])
for name in ("closed", "deep"):
    (home / name).mkdir()
    (home / name / "file").touch()
(home / "link").symlink_to({kept!r})
inner = home / "deep"
for _ in range(50):
    inner = inner / "a"
    inner.mkdir()
os.mkdir(inner / "none", 0)
os.mkdir(home / "closed/inner", 0)
os.chmod(home / "closed", 0)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_directories_that_cannot_be_entered(load, killed, scratch, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    env = load(DIRECTORIES.format(kept=str(kept)))
    assert not isinstance(env.worker.wait(), WorkerDied)
    outer = env.worker.child.pid
    if killed:
        os.kill(outer, signal.SIGKILL)
    env.worker.end()
    assert not alive(outer)
    wait_until(lambda: os.listdir(scratch) == [])
    assert os.listdir(kept) == ["file"]


SIGNALLING = """
import json, os, signal

def attempt(send, *arguments):
    try:
        send(*arguments)
    except OSError as exc:
        return type(exc).__name__
    return "sent"

guard = os.getppid()
FACTS = json.dumps({
    "kill": attempt(os.kill, guard, signal.SIGKILL),
    "killpg": attempt(os.killpg, guard, signal.SIGKILL),
    "pidfd": attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(guard), signal.SIGKILL)),
    "memory": attempt(open, f"/proc/{guard}/mem", "rb"),
    "directory": attempt(os.listdir, f"/proc/{guard}/cwd/"),
    "still": os.getppid() == guard,
})
"""


def test_a_worker_cannot_reach_its_inner_guard(publish, sandbox):
    ref = publish(env_file(top=SIGNALLING).replace('"attack", 5', "FACTS, 5"))
    done = envhub("info", ref, "--trust-remote-code", "--json", "--sandbox", sandbox)
    assert done.returncode == 0, done.stderr
    [task] = json.loads(done.stdout)["suites"]["attack"]
    facts = json.loads(task["description"])
    assert facts.pop("still")
    if sandbox == "landlock":
        assert set(facts.values()) == {"PermissionError"}
