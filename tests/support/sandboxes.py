"""Programs in real sandboxes: what they try, and what came of it.

Each program runs as a worker would: a launcher, which stands for the guard, starts an interpreter
by `command`, limits and supervises it; inside, the process confines itself by `confine` and only
then runs the program. As root everything is tried as an ordinary user too.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import envhub
from envhub.sandbox import landlock
from envhub.sandbox.inside import Protection
from support.needs import ME, needs_bubblewrap, needs_landlock, system_python
from support.processes import ending

ROOT = Path(envhub.__file__).parent.parent
NOBODY = 65534
MEMORY_MB = 1024

LAUNCH = """if True:
    import ctypes, json, os, select, signal, socket, subprocess, sys, threading
    from pathlib import Path
    asked = json.loads(sys.argv[1])
    sys.path.append(asked["root"])
    from envhub.sandbox import filesystem, supervisor
    from envhub.sandbox.inside import Protection
    from envhub.sandbox.choose import command
    from envhub.sandbox.variables import worker_variables

    protection = Protection(**asked["protection"])
    scratch = Path(asked["scratch"])
    readable = [*filesystem.interpreter_paths(), *map(Path, asked["readable"])]
    ours, theirs = socket.socketpair()
    inner = asked | {"supervisor": theirs.fileno(), "readable": [str(path) for path in readable]}
    argv = [sys.executable, "-P", "-S", "-c", asked["inside"], json.dumps(inner)]
    child = subprocess.Popen(
        command(protection, argv, scratch=scratch, readable=readable),
        env=worker_variables(scratch),
        cwd=scratch,
        pass_fds=(theirs.fileno(), *asked["descriptors"]),
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    me = os.getpid()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # what is orphaned comes to this process
    threading.Thread(target=supervisor.supervise, args=(ours, me), daemon=True).start()
    ended = select.poll()
    ended.register(os.pidfd_open(child.pid))
    status = None
    while status is None:
        if ended.poll(100):
            status = child.wait()
        elif supervisor.too_much_memory(me, protection.memory_mb):
            status = 99
    while True:
        for pid in map(int, Path(f"/proc/self/task/{me}/children").read_text().split()):
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(status)
"""

INSIDE = """if True:
    import json, sys
    from pathlib import Path
    asked = json.loads(sys.argv[1])
    sys.path.append(asked["root"])
    from envhub.sandbox.inside import Protection, confine
    from time import perf_counter

    begin = perf_counter()
    confine(
        Protection(**asked["protection"]),
        scratch=Path(asked["scratch"]),
        readable=[Path(path) for path in asked["readable"]],
        supervisor=asked["supervisor"],
        abi=asked["abi"],
    )
    seconds = perf_counter() - begin
    import os, site
    site.main()

    def attempt(act, *arguments):
        try:
            return act(*arguments)
        except BaseException as exc:
            return type(exc).__name__

    scope = {"attempt": attempt, "given": asked["given"], "seconds": seconds, "result": None}
    try:
        exec(asked["program"], scope)
        answer = scope["result"]
    except BaseException as exc:
        answer = type(exc).__name__
        if asked["debug"]:
            import traceback
            traceback.print_exc()
    sys.stdout.flush()
    print()
    print(json.dumps(answer), flush=True)
    os._exit(0)
"""


class Sandbox:
    """Runs programs in one kind of sandbox, as one user."""

    def __init__(self, kind: str, python: str, user: int | None, directory: Path) -> None:
        self.kind = kind
        self.user = user
        self.python = python
        self.home = directory / "home"
        self.shown = directory / "shown"
        self.scratch = directory / "scratch"
        for path in (self.home, self.shown, self.scratch):
            path.mkdir()
            self.give(path)

    def give(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user, self.user)

    def file(self, path: Path, text: str) -> Path:
        """A file of the user who runs the sandbox."""
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700)
            self.give(path.parent)
        path.write_text(text)
        self.give(path)
        return path

    def as_user(self, *argv: str) -> list[str]:
        if self.user is None:
            return list(argv)
        ids = (f"--reuid={self.user}", f"--regid={self.user}")
        return ["setpriv", *ids, "--clear-groups", *argv]

    @contextmanager
    def bystander(self):
        """Another process of the same user."""
        with ending(subprocess.Popen(self.as_user("sleep", "1000"))) as process:
            yield process
            assert process.poll() is None, "it was killed"

    def run(
        self,
        program: str,
        *,
        given=None,
        network: bool = False,
        memory_mb: int = MEMORY_MB,
        abi: int = landlock.NEWEST,
        descriptors=(),
        debug: bool = False,
    ):
        """What the program left in `result`, or the name of what it raised."""
        protection = Protection(self.kind, network, memory_mb)
        asked = {
            "root": str(ROOT), "inside": INSIDE, "program": program, "given": given, "abi": abi,
            "scratch": str(self.scratch), "readable": [str(self.shown)], "debug": debug,
            "descriptors": list(descriptors), "protection": protection.to_json(),
        }  # fmt: skip
        done = subprocess.run(
            self.as_user(self.python, "-c", LAUNCH, json.dumps(asked)),
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "HOME": str(self.home),
                "HF_TOKEN": "hf_secret",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=descriptors,
            text=True,
            timeout=60,
        )
        if done.returncode:
            return f"ended with {done.returncode}: {done.stderr[-2000:]}"
        assert debug or not done.stderr, done.stderr
        if debug:
            print(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


def make_sandbox(kind: str, user: str, directory: Path) -> Sandbox:
    os.chmod(directory, 0o755)
    if user == ME:
        return Sandbox(kind, sys.executable, None, directory)
    return Sandbox(kind, system_python(), NOBODY, directory)


def abis(*older: int):
    """Both kinds, and Landlock as older kernels have it too."""
    cases = [
        pytest.param("bubblewrap", landlock.NEWEST, marks=needs_bubblewrap),
        *(pytest.param("landlock", abi, marks=needs_landlock) for abi in (landlock.NEWEST, *older)),
    ]
    return pytest.mark.parametrize(("kind", "abi"), cases)


def processes_of(sandbox: Sandbox) -> list[int]:
    """The processes whose directory is the scratch directory, as only those inside have it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if os.readlink(entry / "cwd").startswith(str(sandbox.scratch)):
                    found.append(int(entry.name))
    return found


def fake_tool(directory: Path, script: str) -> str:
    tool = directory / "bwrap"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return str(directory)


def choose_elsewhere(wanted: str, path: str) -> list[str]:
    """What is chosen with other tools, in a process of its own: answers are kept."""
    code = f"""if True:
        from envhub.errors import SandboxUnavailable
        from envhub.sandbox.choose import choose
        try:
            print(choose({wanted!r}), choose({wanted!r}))
        except SandboxUnavailable as exc:
            print(exc.exit_code, exc.choice, sorted(exc.problems))
            print(exc)
    """
    variables = {**os.environ, "PATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()
