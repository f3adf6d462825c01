"""bubblewrap: what it is told, what it leaves inside, and what is remembered of it."""

import os
import shutil
import subprocess
import sys

from support.needs import ME, needs_bubblewrap
from support.sandboxes import choose_elsewhere, fake_tool, make_sandbox
from support.sources import confined_spec

from envhub.errors import WorkerDied
from envhub.host.worker import Worker
from envhub.types import Confinement
from envhub.wire.messages import Call


@needs_bubblewrap
def test_the_process_that_bubblewrap_leaves_inside(user, directory):
    """It has no filter, so nobody may write into its memory."""
    sandbox = make_sandbox("bubblewrap", user, directory)
    program = 'result = [attempt(open, "/proc/1/mem", mode) for mode in ("r+b", "wb")]'
    assert set(sandbox.run(program)) <= {"OSError", "PermissionError"}


@needs_bubblewrap
def test_the_common_directories_of_bubblewrap(directory):
    sandbox = make_sandbox("bubblewrap", ME, directory)
    program = """if True:
        import os
        result = [os.statvfs(path).f_blocks * os.statvfs(path).f_frsize for path in given]
    """
    assert sandbox.run(program, given=["/tmp", "/dev/shm"]) == [256 * 2**20] * 2


@needs_bubblewrap
def test_what_has_worked_is_not_tried_again(directory, monkeypatch):
    """Until something changes, here the tool itself."""
    monkeypatch.setenv("ENVHUB_HOME", str(directory / "home"))
    calls, real = directory / "calls", shutil.which("bwrap")
    path = fake_tool(directory, f'echo >> "{calls}"\nexec {real} "$@"')
    for count in (2, 2):  # its help, and a trial
        assert choose_elsewhere("auto", path) == ["bubblewrap bubblewrap"]
        assert len(calls.read_text().splitlines()) == count
    fake_tool(directory, f'echo >> "{calls}"\nexec {real} "$@"\n')
    assert choose_elsewhere("auto", path) == ["bubblewrap bubblewrap"]
    assert len(calls.read_text().splitlines()) == 4
    fake_tool(directory, "exit 1")
    assert choose_elsewhere("auto", path)[0].startswith(("landlock", "2 auto"))


@needs_bubblewrap
def test_what_works_no_more_is_tried_again(directory, monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(directory / "home"))
    assert choose_elsewhere("bubblewrap", os.environ["PATH"]) == ["bubblewrap bubblewrap"]
    (kept,) = (directory / "home").iterdir()
    worker = Worker("", confined_spec(Confinement("bubblewrap", False, ("/nowhere",))))
    worker.ask(Call(1, "x", [], {}), 10.0, "call")
    assert isinstance(worker.wait(), WorkerDied)
    assert not kept.exists()


def test_an_old_bubblewrap(directory):
    """Without bounds on their size, common directories stay read-only."""
    code = """if True:
        from pathlib import Path
        from envhub.sandbox.bubblewrap import wrap
        print(*wrap(["x"], scratch=Path("/s"), readable=[], network=True))
    """
    path = fake_tool(directory, "echo --unshare-user")
    variables = {**os.environ, "PATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert "--dir /tmp --dir /dev/shm" in done.stdout
    for option in ("--size", "--tmpfs", "--disable-userns", "--unshare-net"):
        assert option not in done.stdout
