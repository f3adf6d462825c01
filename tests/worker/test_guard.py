"""The guards of a worker, in real processes: whatever the worker does, nothing of it remains."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.needs import SANDBOXES, needs_bash
from support.processes import ROOT, alive, children, descendants, wait_for_end, wait_until
from support.run_tools import WALK
from support.sources import confined_spec

from envhub import evaluate
from envhub.errors import ContractError
from envhub.host.start import python_for, together
from envhub.host.worker import Worker
from envhub.options import Limits
from envhub.process import GUARDED, spawn
from envhub.types import HERE, Confinement, PluginSource, WorkerSpec
from envhub.worker.guard import SIGNALS

pytestmark = pytest.mark.timeout(60)

WORKER = """
import os, signal, sys, time
from pathlib import Path
from envhub.worker.guard import stand_guards
def message(text):
    os.write(1, text.encode() + b"\\n")  # at once, since several write here
host, scratch = sys.argv[1:]
marker = os.open(scratch + "/../marker", os.O_RDONLY)  # all that descends from here holds it
stand_guards(int(host) or os.getppid(), scratch, b"envhub-worker")
{body}
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    message(f"daemon {os.getpid()}")
    time.sleep(1000)
"""
READY_AND_SLEEP = "message('ready')\ntime.sleep(1000)"


@pytest.fixture
def guard(tmp_path):
    """Starts an outer guard whose worker runs some code."""
    (tmp_path / "marker").touch()
    started = []

    def start(body, host=0):
        (tmp_path / "scratch").mkdir()
        script = WORKER.format(body=body)
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", script, str(host), str(tmp_path / "scratch")],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": ROOT},
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=20)
    assert wait_for_end(tmp_path) == []


def read_line(process):
    return process.stdout.readline().split()


ENDINGS = {
    "pass": 0,
    "sys.exit(3)": 3,
    "os._exit(255)": 255,
    "os.kill(os.getpid(), signal.SIGKILL)": 128 + 9,
    "os.abort()": 128 + 6,
    "os.killpg(0, signal.SIGTERM)": 128 + 15,
    "os.kill(0, signal.SIGKILL)": 128 + 9,
    "os.kill(os.getpid(), signal.SIGRTMAX)": 128 + 64,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_worker_s_end_is_the_guard_s(ending, guard, tmp_path):
    process = guard(f"import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); {ending}")
    assert process.wait(20) == ENDINGS[ending]
    assert not (tmp_path / "scratch").exists()


def test_a_term_signal_ends_all(guard, tmp_path):
    process = guard("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DAEMON + READY_AND_SLEEP)
    assert {read_line(process)[0], read_line(process)[0]} == {"daemon", "ready"}
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert wait_for_end(tmp_path) == []
    assert not (tmp_path / "scratch").exists()


def test_when_the_worker_ends_what_it_left_has_ended_before_the_guard(guard):
    process = guard(DAEMON + "time.sleep(0.2)\nos._exit(5)")
    _, pid = read_line(process)
    assert process.wait(20) == 5
    assert not alive(int(pid))


def test_children_that_end_before_the_worker_are_reaped_and_change_nothing(guard):
    orphans = """
for _ in range(20):
    if os.fork() == 0:
        os.fork()
        os._exit(9)
while len(Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()) > 1:
    time.sleep(0.01)
message("alone")
os._exit(5)
"""
    process = guard(orphans)
    assert read_line(process) == ["alone"]
    assert process.wait(20) == 5


def test_one_that_keeps_forking_is_caught(guard, tmp_path):
    """Each lives just long enough to make the next; they stop by themselves after 20 s."""
    runaway = """
if os.fork() == 0:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
    os._exit(0)
time.sleep(0.2)
os._exit(5)
"""
    process = guard(runaway)
    assert process.wait(15) == 5
    assert wait_for_end(tmp_path) == []


def test_a_hundred_generations_end(guard, tmp_path):
    family = """
for _ in range(100):
    if os.fork() != 0:
        time.sleep(1000)
message("ready")
time.sleep(1000)
"""
    process = guard(family)
    assert read_line(process) == ["ready"]
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert wait_for_end(tmp_path) == []


def test_without_its_host_it_does_not_begin(guard, tmp_path):
    """The host died before the guard could ask for the signal."""
    process = guard("message('began')", host=2**22)
    assert process.communicate(timeout=20) == ("", None)
    assert process.returncode == 1
    assert not (tmp_path / "scratch").exists()


def test_when_the_host_is_killed_all_end(tmp_path):
    host = start_host(tmp_path, DAEMON + READY_AND_SLEEP)
    lines = {read_line(host)[0], read_line(host)[0]}
    host.kill()
    host.communicate(timeout=20)
    assert lines == {"daemon", "ready"}
    assert wait_for_end(tmp_path) == []
    wait_until(lambda: not (tmp_path / "scratch").exists())


def start_host(tmp_path, body):
    """A process between this one and the guards, whose worker runs some code."""
    (tmp_path / "marker").touch()
    (tmp_path / "scratch").mkdir()
    script = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {WORKER.format(body=body)!r}, "0",
                  {str(tmp_path / "scratch")!r}], start_new_session=True).wait()
"""
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


FAMILY = f"""
import subprocess
if os.fork() == 0:
    message("child")
    time.sleep(1000)
if os.fork() == 0:
    os.setpgid(0, 0)
    message("group")
    time.sleep(1000)
{DAEMON}
bare = "import time; print('bare', flush=True); time.sleep(1000)"
argv = [sys.executable, "-I", "-S", "-c", bare]
subprocess.Popen(argv, pass_fds=(marker,), start_new_session=True, env={{}}, cwd="/")
{READY_AND_SLEEP}
"""
"""A child, one in a group of its own, one that was abandoned, and one that has neither session, nor
directory, nor variables of the worker."""
SURVIVOR = "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)"
"""The worker no longer ends with its guard."""


@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("which", ["outer", "inner", "group"])
def test_when_a_guard_is_killed_everything_ends(which, survives, guard, tmp_path):
    process = guard((SURVIVOR if survives else "") + FAMILY)
    begun = {read_line(process)[0] for _ in range(5)}
    assert begun == {"child", "group", "daemon", "bare", "ready"}
    [inner] = children(process.pid)
    match which:
        case "outer":
            process.kill()
        case "inner":
            os.kill(inner, signal.SIGKILL)
        case "group":
            os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(20) == (128 + signal.SIGKILL if which == "inner" else -signal.SIGKILL)
    assert wait_for_end(tmp_path) == []
    wait_until(lambda: not (tmp_path / "scratch").exists())


def test_when_host_and_outer_guard_are_killed_together_everything_ends(tmp_path):
    host = start_host(tmp_path, SURVIVOR + FAMILY)
    begun = {read_line(host)[0] for _ in range(5)}
    [outer] = children(host.pid)
    for pid in (host.pid, outer):
        os.kill(pid, signal.SIGKILL)
    host.communicate(timeout=20)
    assert begun == {"child", "group", "daemon", "bare", "ready"}
    assert wait_for_end(tmp_path) == []
    wait_until(lambda: not (tmp_path / "scratch").exists())


@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.001, 0.002, 0.004])
def test_when_the_outer_guard_is_killed_while_it_ends_the_worker_everything_ends(
    delay, guard, tmp_path
):
    process = guard(SURVIVOR + FAMILY)
    for _ in range(5):
        read_line(process)
    process.terminate()
    time.sleep(delay)
    process.kill()
    process.wait(20)
    assert wait_for_end(tmp_path) == []
    wait_until(lambda: not (tmp_path / "scratch").exists())


def test_an_inner_guard_that_does_not_answer_is_killed(guard, tmp_path):
    process = guard(SURVIVOR + FAMILY)
    for _ in range(5):
        read_line(process)
    [inner] = children(process.pid)
    os.kill(inner, signal.SIGSTOP)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert wait_for_end(tmp_path) == []
    assert not (tmp_path / "scratch").exists()


def test_an_interrupt_is_the_host_s(guard):
    process = guard("message('ready')\ntime.sleep(0.5)\nos._exit(5)")
    assert read_line(process) == ["ready"]
    [inner] = children(process.pid)
    for pid in (process.pid, inner, *children(inner)):
        os.kill(pid, signal.SIGINT)
    assert process.wait(20) == 5


def test_they_hold_nothing_open(guard):
    """The host must see the worker's sockets and pipes end."""
    process = guard(READY_AND_SLEEP)
    assert read_line(process) == ["ready"]
    for pid in (process.pid, *children(process.pid)):
        wait_until(lambda pid=pid: not open_pipes(pid))
        assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_a_scratch_directory_that_is_gone_changes_nothing(guard):
    process = guard("os.rmdir(sys.argv[2])\nos._exit(5)")
    assert process.wait(20) == 5


@pytest.mark.parametrize("kind", SANDBOXES)
def test_when_the_guard_of_a_sandbox_is_killed_at_any_moment_the_worker_ends(kind):
    for delay in (0.0, 0.01, 0.02, 0.04, 0.08, 0.3):
        worker = Worker("env 0", confined_spec(Confinement(kind, network=False)))
        home = str(worker._scratch).encode()
        time.sleep(delay)
        os.kill(worker.child.pid, signal.SIGKILL)
        wait_until(lambda home=home: not living_in(home))
        worker.end()


def test_the_signals_that_it_waits_for_are_blocked_when_it_starts():
    assert set(SIGNALS) == set(GUARDED)


def test_the_guard_of_a_sandbox_imports_little():
    code = "import sys, envhub.worker.guard, envhub.sandbox.supervisor; print(*sys.modules)"
    command = [sys.executable, "-P", "-S", "-c", code]
    loaded = subprocess.run(command, env={"PYTHONPATH": ROOT}, capture_output=True, check=True)
    assert {b"pathlib", b"typing", b"re", b"dataclasses"}.isdisjoint(loaded.stdout.split())


@pytest.mark.parametrize(
    "shell", [("/bin/sh",), pytest.param(("bash", "--posix"), marks=needs_bash)]
)
@pytest.mark.parametrize("command", [["false"], ["sleep", "0.3"], ["/nonexistent/bwrap"]])
def test_any_shell_starts_a_worker_and_its_guard_and_the_guard_tells_how_it_ended(
    shell, command, tmp_path
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "output").open("wb") as output:
        guard = [*python_for(HERE, "envhub.worker.guard", "-S"), str(os.getpid()), str(scratch)]
        _, *words = together(command, [*guard, str(ours.fileno()), "", "bubblewrap"], scratch)
        fds = (ours.fileno(), theirs.fileno())
        child = spawn([*shell, *words], env={}, cwd=tmp_path, output=output.fileno(), pass_fds=fds)
    expected = {"false": 1, "sleep": 0, "/nonexistent/bwrap": 127}
    assert child.wait(20.0)
    # A shell may have reaped a worker that ended before the guard began; then it is 1.
    assert child.end() in {expected[command[0]], 1 if command[0] != "sleep" else 0}
    assert not scratch.exists()


def test_what_lost_its_parent_before_the_guard_could_adopt_it_ends_too(tmp_path):
    """As a process of bwrap does if the other one is killed at once."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    marker = tmp_path / "marker"
    script = f"sh -c 'exec sleep 1000 3>{marker}' & until [ -e {marker} ]; do :; done; kill -9 $$"
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "output").open("wb") as output:
        guard = [*python_for(HERE, "envhub.worker.guard", "-S"), str(os.getpid()), str(scratch)]
        words = together(
            ["sh", "-c", script], [*guard, str(ours.fileno()), "", "bubblewrap"], scratch
        )
        fds = (ours.fileno(), theirs.fileno())
        child = spawn(words, env={}, cwd=tmp_path, output=output.fileno(), pass_fds=fds)
    assert child.wait(20.0)
    child.end()
    assert wait_for_end(tmp_path) == []
    assert not scratch.exists()


def open_pipes(pid):
    targets = (os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir())
    return [target for target in targets if target.startswith(("pipe:", "socket:"))]


def living_in(home):
    """The processes whose home that is."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if b"HOME=" + home in (directory / "environ").read_bytes().split(b"\0"):
                found.append(directory.name)
        except OSError:  # it has ended
            continue
    return found


def names_above(pid: int) -> list[str]:
    """What `ps` calls a process and those above it, up to this one."""
    names = []
    while pid != os.getpid():
        names.append(Path(f"/proc/{pid}/comm").read_text().strip())
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(status.partition("\nPPid:")[2].split()[0])
    return names


@pytest.mark.parametrize("sandbox", [None, *SANDBOXES])
def test_processes_are_called_what_they_are(sandbox):
    spec = WorkerSpec(PluginSource("none"), {}, Limits())
    if sandbox is not None:
        spec = confined_spec(Confinement(sandbox, network=False))
    worker = Worker("env 0", spec)
    try:
        wait_until(lambda: any("envhub-worker" in names_above(p) for p in descendants(os.getpid())))
        found = [names_above(pid) for pid in descendants(os.getpid())]
        (names,) = (each for each in found if each[0] == "envhub-worker")
        assert set(names) <= {"envhub-worker", "envhub-guard", "bwrap"}
        assert "envhub-guard" in names
    finally:
        worker.end()


def test_a_policy_is_called_so(tmp_path):
    policy = tmp_path / "policy.py"
    policy.write_text(
        "from pathlib import Path\n"
        "def make_policy(*_):\n"
        "    raise ValueError(Path('/proc/self/comm').read_text())\n"
    )
    with pytest.raises(ContractError, match="ValueError: envhub-policy"):
        evaluate(str(WALK), str(policy), tasks="near", workers=1, out=tmp_path / "run")
