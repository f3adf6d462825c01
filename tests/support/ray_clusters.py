"""A Ray cluster on this machine: head and nodes are processes of their own, by `ray start`."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.needs import cluster_python
from support.paths import ASSETS
from support.processes import alive, descendants
from support.run_tools import Answer, ended, variables

_SECONDS = 120.0
_LIFE = 3600
"""Seconds after which a node ends by itself, whatever became of the tests."""
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}


@dataclass(frozen=True)
class Place:
    """A node in a network namespace, at an address there."""

    name: str
    namespace: str
    address: str


class RayNodes:
    """The processes of a cluster. They are no children of this one, for Ray starts more of them."""

    def __init__(self, place: Path, at: Place | None = None, **more: str) -> None:
        """Start the head, which plays nothing."""
        self.place = place
        python = cluster_python()
        if " " in str(python):  # Ray puts it into a line of the shell as it is
            (place / "venv").symlink_to(python.parent.parent)
            python = place / "venv/bin" / python.name
        self._python = str(python)
        self._pids: dict[str, int] = {}
        self._starts: dict[str, Callable[[], None]] = {}
        head = ("--head", "--port", "0", "--include-dashboard", "false", "--num-cpus", "0")
        self._start(at or "head", *head, "--temp-dir", str(place / "ray"), **more)
        self.address = self._wait_for("head", r"--address='([^']+)'")

    def join(
        self, *names: str | Place, cpus: int = 1, within: Sequence[str] = (), **more: str
    ) -> None:
        """Start nodes, perhaps by another command, and wait until they have joined."""
        options = ("--address", self.address, "--num-cpus", str(cpus))
        for name in names:
            self._start(name, *options, within=within, **more)
        for name in names:
            self._wait_for(getattr(name, "name", name), r"(Ray runtime started)")

    def kill(self, name: str) -> None:
        """Kill a node with all its processes, as when a machine loses its power."""
        pid = self._pids.pop(name)
        for each in (pid, *descendants(pid)):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def kill_actor(self, name: str) -> bool:
        """Kill only the process that plays on a node; returns whether there was one."""
        for pid, (_, line) in descendants(self._pids[name]).items():
            if "NodeActor" in line:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def end(self) -> None:
        """Kill all of it."""
        for name in list(self._pids):
            self.kill(name)

    def processes(self, name: str) -> dict[int, str]:
        """The processes of a node, with their command lines."""
        return {pid: line for pid, (_, line) in descendants(self._pids[name]).items()}

    def _start(
        self, at: str | Place, *options: str, within: Sequence[str] = (), **more: str
    ) -> None:
        name = at if isinstance(at, str) else at.name
        self._starts[name] = lambda: self._start(at, *options, within=within, **more)
        if isinstance(at, Place):
            options = (*options, "--node-ip-address", at.address)
        argv = [
            *within,
            *(("ip", "netns", "exec", at.namespace) if isinstance(at, Place) else ()),
            *("timeout", "--signal=KILL", str(_LIFE), self._python, "-m", "ray.scripts.scripts"),
            *("start", "--node-name", name, "--disable-usage-stats", "--block"),
            *("--include-log-monitor", "false", "--object-store-memory", "80000000", *options),
        ]
        # The shell ends at once, and leaves its child to init.
        shell = 'log=$1; shift; setsid "$@" > "$log" 2>&1 < /dev/null & echo $!'
        done = subprocess.run(
            ["sh", "-c", shell, "sh", str(self._log(name)), *argv],
            env={**variables(**_QUIET), **more},
            cwd=self.place,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        self._pids[name] = int(done.stdout)

    def _wait_for(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            said = self._log(name).read_text()
            if found := re.search(pattern, said):
                return found[1]
            if not alive(self._pids[name]):
                assert "timed out" in said, said
                self._starts[name]()  # Ray gives itself 30 s, which a busy machine may need
            time.sleep(0.05)
        raise AssertionError(
            f"{self._log(name).read_text()}\nhead: {alive(self._pids['head'])}\n"
            f"{self._log('head').read_text()}"
        )

    def _log(self, name: str) -> Path:
        return self.place / f"{name}.log"


@contextmanager
def ray_cluster(
    *names: str | Place, cpus: int = 1, head: Place | None = None, **more: str
) -> Iterator[RayNodes]:
    """Start a cluster with these nodes, once no other process of the tests has one."""
    place = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets need a short path
    lock = (Path(tempfile.gettempdir()) / f"envhub-ray-{os.getuid()}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        nodes = RayNodes(place, head, **more)
        try:
            nodes.join(*names, cpus=cpus, **more)
            yield nodes
        finally:
            nodes.end()
    finally:
        shutil.rmtree(place, ignore_errors=True)
        lock.close()


@contextmanager
def two_machines() -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Two network namespaces with a wire between them: their names, and their addresses."""
    names = [f"envhub-{os.getpid()}-{side}" for side in "ab"]
    places = list(zip(names, ("10.77.0.1", "10.77.0.2"), strict=True))
    try:
        for name in names:
            _ip("netns", "add", name)
        wire = ("link", "add", "wire", "type", "veth", "peer", "wire", "netns", names[1])
        _ip("-n", names[0], *wire)
        for name, address in places:
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "wire")
            _ip("-n", name, "link", "set", "wire", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield places[0], places[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def start_here(
    *arguments: object,
    cwd: Path = ASSETS,
    more: Mapping[str, str] | None = None,
    inside: str | None = None,
    within: Sequence[str] = (),
) -> "subprocess.Popen[str]":
    """Start the command with the interpreter that has Ray, perhaps in a network namespace."""
    enter = within if inside is None else ("ip", "netns", "exec", inside)
    return subprocess.Popen(
        [*enter, str(cluster_python()), "-m", "envhub", *map(str, arguments)],
        cwd=cwd,
        env={**variables(**_QUIET), **(more or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def envhub_here(
    *arguments: object, cwd: Path = ASSETS, more: Mapping[str, str] | None = None
) -> Answer:
    """Run the command with the interpreter that has Ray."""
    return ended(start_here(*arguments, cwd=cwd, more=more))
