"""Each difference between the sandboxes is there where it is stated, and nowhere else."""

import os
import re
import socket
from dataclasses import replace

import pytest
from support.paths import DOCS
from support.sandboxes import abis

from envhub.sandbox import landlock
from envhub.sandbox.differences import (
    LANDLOCK,
    Conditions,
    Difference,
    conditions,
    differences,
)

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


def named(*found) -> set[str]:
    return {f"{each.effect} {each.name}" for each in found}


def test_each_has_a_test():
    assert named(*LANDLOCK) == {*PROGRAMS}


@abis(1)
@pytest.mark.parametrize("network", [False, True])
def test_what_is_exposed_and_what_is_forbidden(sandbox, abi, network):
    root = sandbox.user is None and os.getuid() == 0
    here = replace(conditions(), abi=min(abi, landlock.version()[0]), root=root)
    stated = named(*differences(sandbox.kind, here, network=network))
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
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (exposes|forbids) ([^|]+) \| ([^|]+) \| ([^|]*) \|$", text, re.M)
    assert rows == [(each.effect, each.name, each.text, condition(each)) for each in LANDLOCK]


def condition(difference: Difference) -> str:
    if difference.before_abi is not None:
        return f"before ABI {difference.before_abi}"
    return "without the network" if difference.offline_only else "always"
