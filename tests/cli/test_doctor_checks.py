"""The checks of `envhub doctor`, against this machine and against one made worse by hand."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import needs_bubblewrap, needs_egl, needs_osmesa, needs_sandbox

from envhub.cli.doctor_checks import (
    Check,
    Finding,
    Status,
    all_checks,
    describe_landlock,
    describe_sandbox,
)
from envhub.machine.gl import Fails, Renders, probe_gl
from envhub.sandbox.choose import choose
from envhub.sandbox.differences import Conditions, conditions


def look(name: str) -> Finding:
    """What the check of that name sees."""
    return next(check for check in all_checks() if check.name == name).run()


def test_a_check_that_raises_is_a_line_of_its_own():
    def look() -> Finding:
        raise OSError("the disk is on fire")

    seen = Check("disk", "files", look).run()
    assert seen == Finding(Status.PROBLEM, "the check failed with OSError: the disk is on fire")


class TestPackages:
    def test_a_version_is_read_without_importing(self, distributions):
        distributions("torch", "9.9.1")
        assert look("torch") == Finding(Status.OK, "9.9.1")

    def test_a_version_that_envhub_does_not_declare(self, distributions):
        distributions("envhub-core", "0.1.0", "gymnasium>=1.1", 'gymnasium>=7; extra == "new"')
        distributions("gymnasium", "0.29.1")
        assert look("gymnasium") == Finding(
            Status.PROBLEM, "0.29.1, but >=1.1 is required", "pip install 'gymnasium>=1.1'"
        )

    @pytest.mark.parametrize(
        ("name", "fix"),
        [
            ("numpy", "pip install numpy"),
            ("torch", "pip install torch"),
            ("mujoco", "pip install mujoco"),
            ("metaworld", "pip install metaworld"),
            ("hf-libero", "pip install --no-deps hf-libero"),
            ("huggingface_hub", "pip install 'huggingface_hub>=1.6,<3'"),
        ],
    )
    def test_missing(self, no_distributions, name, fix):
        assert look(name) == Finding(Status.MISSING, "not installed", fix)

    def test_a_simulator_that_a_runtime_brings_is_not_missing(
        self, no_distributions, tmp_path, monkeypatch
    ):
        package, info = tmp_path / "sim_plugin", tmp_path / "sim_plugin-1.dist-info"
        for folder in (package, info):
            folder.mkdir()
        (package / "__init__.py").write_text("raise OSError('doctor must not import this')\n")
        (package / "runtime-old.txt").write_text("hf-libero==0.1.4 \\\n    --hash=sha256:0\n")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sim-plugin\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[envhub]\nsim = sim_plugin\n")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.delenv("ENVHUB_PLUGINS", raising=False)
        assert look("hf-libero") == Finding(
            Status.OK, "not here, but in the isolated runtime of sim (0.1.4)"
        )
        assert look("metaworld") == Finding(
            Status.MISSING, "not installed", "pip install metaworld"
        )

    def test_mujoco_that_breaks_libero(self, distributions):
        distributions("mujoco", "3.4.0")
        assert look("mujoco").status is Status.OK
        distributions("hf-libero", "0.1.4")
        assert look("mujoco") == Finding(
            Status.PROBLEM, "3.4.0, but ==3.3.* is required", "pip install 'mujoco==3.3.*'"
        )

    def test_a_hub_client_that_is_too_old(self, distributions):
        distributions("huggingface_hub", "0.34.0")
        assert look("huggingface_hub").status is Status.PROBLEM


class TestTools:
    def test_git(self, tools):
        path = tools("git", "echo git version 2.39.5")
        assert look("git") == Finding(Status.OK, f"git version 2.39.5 at {path}")

    def test_missing(self, tools, no_distributions):
        assert look("git") == Finding(Status.MISSING, "not on PATH", "apt-get install git")
        assert look("uv") == Finding(Status.MISSING, "not on PATH", "pip install uv")
        assert look("bubblewrap") == Finding(
            Status.MISSING, "not on PATH", "apt-get install bubblewrap"
        )

    @pytest.mark.parametrize(
        ("script", "how"),
        [("exit 3", "ended with exit code 3"), ("kill -SEGV $$", "was killed by SIGSEGV")],
    )
    def test_broken(self, tools, script, how):
        path = tools("git", script)
        assert look("git") == Finding(
            Status.PROBLEM, f"{path} --version {how}", "apt-get install git"
        )

    def test_one_that_cannot_be_started(self, tools):
        path = tools("git", "")
        with open(path, "w") as file:
            file.write("#!/nonexistent/interpreter\n")
        seen = look("git")
        assert seen.status is Status.PROBLEM
        assert seen.found.startswith(f"{path} did not start, or did not finish within ")

    def test_uv_on_the_path(self, tools, no_distributions):
        path = tools("uv", "echo uv 0.13.7")
        assert look("uv") == Finding(Status.OK, f"uv 0.13.7 at {path}")

    def test_uv_of_the_package_needs_no_path(self, tools):
        assert look("uv").status is Status.OK
        assert look("uv").found.startswith("uv ")

    def test_bubblewrap_that_may_not_make_namespaces(self, tools):
        path = tools(
            "bwrap",
            '[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\n'
            "echo bwrap: No permissions to create new namespace >&2\nexit 1",
        )
        seen = look("bubblewrap")
        assert seen.status is Status.PROBLEM
        assert seen.found == (
            f"bubblewrap 0.8.0 at {path} cannot confine a process: "
            "bwrap: No permissions to create new namespace"
        )
        assert seen.fix is not None
        assert seen.fix.startswith(("sysctl -w ", "docker run --security-opt "))

    @needs_bubblewrap
    def test_bubblewrap_of_this_machine(self):
        argv = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
        works = subprocess.run(argv, capture_output=True).returncode == 0
        assert look("bubblewrap").status is (Status.OK if works else Status.PROBLEM)

    def test_landlock(self):
        seen = look("landlock")
        if seen.status is Status.OK:
            assert seen.found.startswith("Landlock ABI ")
        else:
            assert seen.status is Status.MISSING
            assert "kernel" in seen.found

    @pytest.mark.parametrize(
        ("abi", "error", "status", "found"),
        [
            (7, 0, Status.OK, "Landlock ABI 7: files and TCP"),
            (3, 0, Status.OK, "Landlock ABI 3: files only, TCP needs Linux 6.7"),
            (-1, errno.EOPNOTSUPP, Status.MISSING, "disabled in this kernel"),
            (-1, errno.ENOSYS, Status.MISSING, "not in this kernel (Function not implemented)"),
        ],
    )
    def test_landlock_of_other_kernels(self, abi, error, status, found):
        seen = describe_landlock(abi, error)
        assert (seen.status, seen.found) == (status, found)
        assert (seen.fix is None) == (status is Status.OK)

    @needs_sandbox
    def test_the_sandbox_of_this_machine(self):
        sandbox = choose("auto")
        seen = look("sandbox")
        assert seen.status is Status.OK
        assert seen == describe_sandbox(sandbox, conditions())
        assert seen.found.startswith(f"--sandbox auto is {sandbox}")

    def test_bubblewrap_is_what_others_are_compared_with(self):
        here = Conditions(7, root=False, sized=True)
        seen = describe_sandbox("bubblewrap", here)
        assert seen == Finding(Status.OK, "--sandbox auto is bubblewrap")
        seen = describe_sandbox("landlock", here)
        assert seen.found == (
            "--sandbox auto is landlock, which unlike bubblewrap for an ordinary user"
        )
        assert seen.notes[0] == (
            "exposes file names: names, sizes and modes of all files, not their contents"
        )

    def test_no_sandbox_works(self, tools, monkeypatch):
        uname = os.uname_result(("Linux", "here", "6", "#1", "riscv64"))
        monkeypatch.setattr(os, "uname", lambda: uname)
        seen = look("sandbox")
        assert (seen.status, seen.fix) == (Status.MISSING, "apt-get install bubblewrap")
        assert seen.found.startswith("none works (bubblewrap: ")
        assert "; landlock: " in seen.found


class TestRendering:
    @needs_egl
    def test_egl(self):
        answer = probe_gl("egl")
        assert isinstance(answer, Renders), answer
        assert look("GL egl") == Finding(Status.OK, f"draws with {answer.renderer}")

    @needs_osmesa
    def test_osmesa(self):
        assert isinstance(probe_gl("osmesa"), Renders)
        assert look("GL osmesa").status is Status.OK

    @needs_egl
    def test_egl_without_a_driver(self, monkeypatch):
        monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/nonexistent.json")
        assert probe_gl("egl") == Fails("EGL found no device")
        assert look("GL egl") == Finding(
            Status.PROBLEM, "EGL found no device", "apt-get install libegl1 libgl1 libgles2"
        )

    def test_glfw_without_a_display(self, monkeypatch):
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        seen = look("GL glfw")
        assert seen.status is Status.MISSING
        assert seen.fix == "apt-get install libglfw3 libgl1 xvfb && xvfb-run -a envhub doctor"


class TestCaches:
    @pytest.mark.parametrize(
        ("name", "variable", "folder"),
        [
            ("cache", "ENVHUB_HOME", "envhub"),
            ("hugging face cache", "HF_HOME", "huggingface"),
        ],
    )
    def test_where(self, tmp_path, monkeypatch, name, variable, folder):
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.delenv(variable, raising=False)
        assert look(name).found.startswith(f"{tmp_path}/home/.cache/{folder}, not created yet, ")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert look(name).found.startswith(f"{tmp_path}/xdg/{folder}, not created yet, ")
        monkeypatch.setenv(variable, "~/mine")
        assert look(name).found.startswith(f"{tmp_path}/home/mine, not created yet, ")
        assert list(tmp_path.iterdir()) == []

    def test_one_that_is_there(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
        seen = look("cache")
        assert seen.found.startswith(f"{tmp_path}, ")
        assert seen.found.endswith(" GB free")
        assert "not there yet" not in seen.found

    def test_below_a_file(self, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "file" / "cache"))
        assert look("cache") == Finding(
            Status.PROBLEM,
            f"{tmp_path}/file/cache: {tmp_path}/file is not a directory",
            "export ENVHUB_HOME=DIRECTORY  # writable, with free space",
        )

    def test_one_that_is_read_only_is_not_broken(self, monkeypatch):
        """A file system that is mounted read-only: root may not write there either."""
        place = next(
            (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()
             if "ro" in line.split()[3].split(",") and os.access(line.split()[1], os.R_OK | os.X_OK)
             and Path(line.split()[1]).is_dir()),
            None,
        )  # fmt: skip
        if place is None and os.getuid() == 0:
            pytest.skip("nothing is mounted read-only")
        monkeypatch.setenv("ENVHUB_HOME", place or "/usr")
        assert look("cache") == Finding(
            Status.OK, f"{place or '/usr'}, read-only: used as it is, and nothing is added"
        )

    @pytest.mark.parametrize("mode", [0o500, 0o600, 0o000])
    def test_below_a_directory_that_is_closed(self, tmp_path, monkeypatch, mode):
        closed = tmp_path / "closed"
        closed.mkdir(mode=mode)
        monkeypatch.setenv("HF_HOME", str(closed / "a" / "b"))
        seen = look("hugging face cache")
        if os.getuid() == 0:  # root may write wherever it likes
            assert "is not writable" not in seen.found
        else:
            assert seen.status is Status.PROBLEM
            assert seen.found == f"{closed}/a/b: {closed} is not writable"


class TestTemporaryFiles:
    def test_where_they_are(self, monkeypatch, tmp_path):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        assert re.fullmatch(rf"{tmp_path}, [0-9.]+ GB free", look("temporary files").found)
        assert list(tmp_path.iterdir()) == []

    def test_a_directory_that_does_not_exist(self, monkeypatch, tmp_path):
        monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
        assert look("temporary files") == Finding(
            Status.PROBLEM,
            f"{tmp_path}/nowhere: No such file or directory",
            "export TMPDIR=DIRECTORY  # writable, with free space",
        )
