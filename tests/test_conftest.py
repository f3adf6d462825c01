"""What conftest.py does for every test, seen from outside: real runs of pytest."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from support.needs import ME
from support.paths import ROOT, TESTS
from support.processes import alive


@pytest.fixture
def run(tmp_path):
    """Runs tests of its own with this conftest.py."""

    def run(text: str, *options: str, ignored=(), **variables: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(textwrap.dedent(text))
        settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path))
        plugins = ("-p", "conftest", "-p", "no:cacheprovider")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *settings, *plugins, *options, "test_it.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(TESTS), "ENVHUB_REQUIRE_ALL": "0", **variables},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: [signal.signal(each, signal.SIG_IGN) for each in ignored],
        )
        return done.returncode, done.stdout + done.stderr

    return run


LEAVING = """
    import os
    from pathlib import Path
    from support import leftovers
    from support.processes import wait_until

    leftovers.GRACE = 1.0

    def test_leaves():
        script = "sleep 1000 & echo $$ $! > pids.new; mv pids.new pids; wait"
        os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)
        wait_until(Path("pids").exists)

    def test_after():
        pass
"""


@pytest.mark.timeout(60)
def test_a_process_that_a_test_leaves_is_its_error_and_ends(run, tmp_path):
    code, shown = run(LEAVING)
    assert code == 1
    assert "2 passed, 1 error" in shown
    assert "ERROR at teardown of test_leaves" in shown
    assert "Processes were left behind, and ended:" in shown
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    for pid in pids:
        assert f"{pid} s" in shown  # sh, sleep
        assert not alive(int(pid))


def test_a_test_that_reaches_its_limit_takes_its_processes_with_it(run):
    """Its own end waits for them."""
    text = """
    import subprocess

    def test_waits():
        with subprocess.Popen(["sleep", "1000"]) as process:
            process.wait()

    def test_after():
        pass
    """
    code, shown = run(text, "--timeout=3")
    assert code == 1
    assert "1 failed, 1 passed" in shown
    assert "Timeout (>3.0s)" in shown


def test_processes_of_a_module_live_longer_than_a_test(run):
    text = """
    import subprocess
    import pytest

    @pytest.fixture(scope="module")
    def process():
        with subprocess.Popen(["sleep", "1000"]) as process:
            yield process
            process.kill()

    @pytest.mark.parametrize("number", [1, 2])
    def test_it(process, number):
        assert process.poll() is None
    """
    code, shown = run(text)
    assert code == 0, shown
    assert "2 passed" in shown


def test_in_the_background_children_can_be_interrupted(run):
    """There a shell ignores SIGINT, and nohup SIGHUP, and whoever they start inherits that."""
    text = """
    import pytest, signal, subprocess

    @pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGHUP])
    def test_it(sent):
        with subprocess.Popen(["sleep", "1000"]) as process:
            process.send_signal(sent)
        assert process.returncode == -sent
    """
    ignored = (signal.SIGINT, signal.SIGHUP)
    code, shown = run(text, "-n", "2", "--timeout=30", ignored=ignored)
    assert code == 0, shown


NEEDING = """
    import pytest
    from support.needs import needs_bubblewrap, needs_git, needs_root

    @needs_git
    @pytest.mark.parametrize("number", [1, 2])
    def test_with_git(number):
        raise AssertionError("it ran")

    def test_with_a_hub(local_hub):
        raise AssertionError("it ran")

    @needs_bubblewrap
    def test_with_bubblewrap():
        raise AssertionError("it ran")

    @needs_root
    def test_as_root():
        pass
"""


def test_what_is_missing_is_named_with_the_line_that_installs_it(run, tmp_path):
    code, shown = run(NEEDING, PATH=str(tmp_path))
    assert code == 0, shown
    assert ("1 passed, 4 skipped" if ME == "root" else "5 skipped") in shown.splitlines()[-1]
    for line in (
        "3 tests were skipped because git is not installed: apt-get install git",
        "1 test was skipped because bubblewrap is not installed: apt-get install bubblewrap",
        "To run them too: apt-get install bubblewrap git",
    ):
        assert line in shown.splitlines()


def test_where_nothing_may_be_missing_a_skip_is_a_failure(run, tmp_path):
    code, shown = run(NEEDING, PATH=str(tmp_path), ENVHUB_REQUIRE_ALL="1")
    assert code == 1
    root = "1 passed" if ME == "root" else "1 deselected"  # which `make test-root` runs
    assert f"{root}, 4 errors" in shown.splitlines()[-1]
    assert "ENVHUB_REQUIRE_ALL=1 forbids skipping: Skipped: git is not installed" in shown
