"""Each difference between the sandboxes is there where it is stated, and nowhere else."""

import os
import re
import signal
import socket
from contextlib import suppress
from dataclasses import replace

import pytest
from support.attacks import env_file
from support.needs import SANDBOXES
from support.paths import DOCS
from support.processes import alive, descendants, wait_until
from support.sandboxes import abis
from support.sources import ORIGIN

from envhub.host.remote import RemoteEnv
from envhub.sandbox import landlock
from envhub.sandbox.differences import (
    LANDLOCK,
    Conditions,
    Difference,
    conditions,
    differences,
)
from envhub.types import Confinement, FileSource, Limits, WorkerSpec

PROGRAMS = {
    "exposes file names": "import os; os.stat(given['file'])",
    "exposes process numbers": "import os; os.stat(f\"/proc/{given['pid']}\")",
    "exposes host name": "import os; assert os.uname().nodename == given['host']",
    "exposes mounts": "assert open('/proc/self/mounts').read().split() == given['mounts']",
    "exposes connections": "assert given['port'] in open('/proc/self/net/tcp').read()",
    "forbids temporary directory": "open('/tmp/envhub-test-differences', 'w')",
    "forbids shared memory": "import multiprocessing; multiprocessing.Lock()",
    "forbids named sockets": "import socket; socket.socket(socket.AF_UNIX).bind('name')",
    "forbids loopback": "import socket; socket.create_server(('127.0.0.1', 0))",
    "forbids file modes": """if True:
        import os
        open("file", "w").close()
        os.chmod("file", 0o700)
        assert os.stat("file").st_mode & 0o777 == 0o700
    """,
    "forbids process files": """if True:
        import subprocess
        subprocess.run(["cat", "/proc/self/status"], check=True, capture_output=True)
    """,
    "forbids signals": """if True:
        import subprocess
        child = subprocess.Popen(["sleep", "5"])
        child.terminate()
        child.wait()
    """,
    "forbids renames": """if True:
        import os
        os.mkdir("there")
        open("file", "w").close()
        os.rename("file", "there/file")
    """,
}
"""A program per difference: it succeeds if something is exposed, and fails if it is forbidden."""

KILLED = "leaves processes"
"""The difference that only a real guard shows."""


def named(*found) -> set[str]:
    return {f"{each.effect} {each.name}" for each in found}


def test_each_has_a_test():
    assert named(*LANDLOCK) == {*PROGRAMS, KILLED}


@abis(1)
@pytest.mark.parametrize("network", [False, True])
def test_what_is_exposed_and_what_is_forbidden(sandbox, abi, network):
    root = sandbox.user is None and os.getuid() == 0
    here = replace(conditions(), abi=min(abi, landlock.version()[0]), root=root)
    stated = named(*differences(sandbox.kind, here, network=network)) - {KILLED}
    file = sandbox.file(sandbox.home / "key", "secret")
    with sandbox.bystander() as process, socket.create_server(("127.0.0.1", 0)) as server:
        with open("/proc/self/mounts") as mounts:
            given = {
                "file": str(file), "pid": process.pid, "host": os.uname().nodename,
                "port": f"{server.getsockname()[1]:04X}", "mounts": mounts.read().split(),
            }  # fmt: skip
        program = "result = {}\n" + "".join(
            f"result[{name!r}] = attempt(exec, {code!r}, {{'given': given}})\n"
            for name, code in PROGRAMS.items()
        )
        answers = sandbox.run(program, given=given, abi=abi, network=network)
    shared = {each for each in LANDLOCK if network and each.offline_only}
    # With the machine's network both show its connections, and neither allows named sockets.
    found = {
        name
        for name, answer in answers.items()
        if (answer is None) == name.startswith("exposes") and name not in named(*shared)
    }
    assert found == stated, answers


TOP = """
import subprocess, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
open("started", "w")
time.sleep(300)
"""


@pytest.mark.parametrize("kind", SANDBOXES)
def test_what_is_left_when_the_guard_is_killed(kind, tmp_path):
    (tmp_path / "env.py").write_text(env_file(top=TOP))
    confinement = Confinement(kind, network=False, readable=(str(tmp_path),))
    source = FileSource(str(tmp_path), "env.py", "attack", "attack", ORIGIN, confinement)
    remote = RemoteEnv("env 0", WorkerSpec(source, {}, Limits()))
    remote.load()
    wait_until((remote.worker._scratch / "started").exists)
    processes = descendants(remote.worker.child.pid)
    [started] = [pid for pid, (_, command) in processes.items() if "sleep" in command]
    try:
        os.kill(remote.worker.child.pid, signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in processes if pid != started))
        if KILLED in named(*differences(kind, conditions(), network=False)):
            assert alive(started)
        else:
            wait_until(lambda: not alive(started))
    finally:
        with suppress(ProcessLookupError):
            os.kill(started, signal.SIGKILL)
        remote.worker.end()


HERE = Conditions(landlock.NEWEST, root=False, sized=True)


def test_bubblewrap_is_what_the_other_is_compared_with():
    assert differences("bubblewrap", HERE, network=False) == ()
    root = differences("bubblewrap", replace(HERE, root=True), network=False)
    assert named(*root) == {"forbids file modes"}
    old = differences("bubblewrap", replace(HERE, sized=False), network=False)
    assert named(*old) == {"forbids temporary directory", "forbids shared memory"}


def test_without_a_sandbox_there_is_nothing_to_compare():
    assert differences("none", HERE, network=False) is None


def test_the_page_has_the_same_table():
    text = (DOCS / "sandbox.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (exposes|leaves|forbids) ([^|]+) \| ([^|]+) \| ([^|]*) \|$", text, re.M)
    assert rows == [(each.effect, each.name, each.text, condition(each)) for each in LANDLOCK]


def condition(difference: Difference) -> str:
    if difference.before_abi is not None:
        return f"before ABI {difference.before_abi}"
    return "without the network" if difference.offline_only else "always"
