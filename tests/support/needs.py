"""What tests need of the machine beyond Python's packages, and how to install it.

The only place that decides whether a test is skipped. A test says what it needs with a mark:
`@needs_git`, `pytest.param("bubblewrap", marks=needs_bubblewrap)`, `pytestmark = needs_sandbox`.
conftest.py tries each need once per process and skips with the reason, which ends with the command
that installs what is missing; at the end of a run the commands are printed once more, as one line.

Root is a need with a mark of its own, `needs_root`: CI runs the tests as an ordinary user, without
those, and then those alone as root (`make test-root`).
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from envhub.machine.gl import Renders, probe_gl
from envhub.sandbox.choose import why_unavailable

APT = "apt-get install "
LEROBOT = ".venv-lerobot"
LOGGERS = ".venv-loggers"
CLUSTER = ".venv-cluster"
NEWEST_LEROBOT = ".venv-lerobot-06"


@dataclass(frozen=True)
class Need:
    """Something that a machine may lack."""

    trouble: Callable[[], str | None]
    """Try it; returns what is wrong, None if nothing is."""
    install: str = ""
    """The command that installs it; empty if no command can."""

    def reason(self) -> str | None:
        """Why tests that need it are skipped here; None if they are not."""
        problem = self.trouble()
        return f"{problem}: {self.install}" if problem and self.install else problem


def _program(*names: str) -> Callable[[], str | None]:
    def look() -> str | None:
        missing = [name for name in names if shutil.which(name) is None]
        return f"{missing[0]} is not installed" if missing else None

    return look


def _package(name: str) -> Callable[[], str | None]:
    def look() -> str | None:
        return None if importlib.util.find_spec(name) else f"{name} is not installed"

    return look


def _gl(backend: str, library: str) -> Callable[[], str | None]:
    def look() -> str | None:
        if find_library(library) is None:
            return f"lib{library} is not installed"
        answer = probe_gl(backend)
        return None if isinstance(answer, Renders) else f"{backend} does not draw here ({answer})"

    return look


def _glfw() -> str | None:
    """Only the library: a test machine has no display."""
    return "libglfw is not installed" if find_library("glfw") is None else None


def _bubblewrap() -> str | None:
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    problem = why_unavailable("bubblewrap")
    return f"bubblewrap does not work here ({problem})" if problem else None


def _landlock() -> str | None:
    problem = why_unavailable("landlock")
    return f"Landlock does not work here ({problem})" if problem else None


def _sandbox() -> str | None:
    return _bubblewrap() if _landlock() else None


HEADERS = (
    Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    Path("/usr/include/asm-generic/unistd.h"),
)
"""The kernel's numbers of system calls: of x86_64, of aarch64 and younger machines."""


def _headers() -> str | None:
    there = any(file.exists() for file in HEADERS)
    return None if there else "the kernel's headers are not installed"


def _index() -> str | None:
    """Whether packages can be downloaded that are not installed here."""
    with tempfile.TemporaryDirectory() as place:
        command = ["download", "--quiet", "--no-deps", "--dest", place, "wheel"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *command], capture_output=True, check=False, timeout=300
        )
    return "no package index can be reached" if done.returncode else None


def _libero() -> str | None:
    """Its meshes are not on a package index, and its packages not beside EnvHub."""
    named = os.environ.get("ENVHUB_TEST_LIBERO")
    project = Path(__file__).parent.parent.parent
    archive = Path(named) if named else project.parent / "shared" / "libero-assets.tar.xz"
    if not archive.is_file():
        return f"LIBERO's meshes are not in {archive}; ENVHUB_TEST_LIBERO may name their archive"
    return _index()


def lerobot_python() -> Path:
    """The interpreter of an environment with LeRobot, which cannot share EnvHub's."""
    named = os.environ.get("ENVHUB_TEST_LEROBOT")
    return Path(named) if named else Path(__file__).parent.parent.parent / LEROBOT / "bin/python"


def newest_lerobot_python() -> Path:
    """The interpreter of an environment with LeRobot 0.6.1, SmolVLA and Diffusion: gigabytes."""
    named = os.environ.get("ENVHUB_TEST_LEROBOT_06")
    project = Path(__file__).parent.parent.parent
    return Path(named) if named else project / NEWEST_LEROBOT / "bin/python"


def _newest_lerobot() -> str | None:
    there = newest_lerobot_python().exists()
    return None if there else f"there is no {NEWEST_LEROBOT} with LeRobot 0.6.1"


def loggers_python() -> Path:
    """The interpreter of an environment with EnvHub's loggers and all of their tools."""
    named = os.environ.get("ENVHUB_TEST_LOGGERS")
    return Path(named) if named else Path(__file__).parent.parent.parent / LOGGERS / "bin/python"


def cluster_python() -> Path:
    """The interpreter of an environment with Ray, which takes all else from EnvHub's."""
    named = os.environ.get("ENVHUB_TEST_CLUSTER")
    return Path(named) if named else Path(__file__).parent.parent.parent / CLUSTER / "bin/python"


def _cluster() -> str | None:
    return None if cluster_python().exists() else f"there is no {CLUSTER} with Ray"


def _loggers() -> str | None:
    return None if loggers_python().exists() else f"there is no {LOGGERS} with the loggers' tools"


def _tensorboard() -> str | None:
    found = all(importlib.util.find_spec(name) for name in ("envhub_loggers", "tensorboard"))
    return None if found else "TensorBoard is not installed"


def _lerobot() -> str | None:
    return None if lerobot_python().exists() else f"there is no {LEROBOT} with LeRobot"


def _root() -> str | None:
    return None if os.geteuid() == 0 else "they need root"


def _own_mount() -> str | None:
    """Mounting in a namespace of its own, which an ordinary user may do on most machines."""
    if problem := _program("unshare", "nsenter", "mount")():
        return problem
    mount = "mount -t tmpfs tmpfs /mnt"
    argv = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"unshare does not work here ({done.stderr.strip()})" if done.returncode else None


def _own_network() -> str | None:
    """A network namespace with nothing in it, not even a loopback that is up."""
    if problem := _program("unshare")():
        return problem
    argv = ["unshare", "--map-root-user", "--net", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"unshare does not work here ({done.stderr.strip()})" if done.returncode else None


def _netns() -> str | None:
    """Network namespaces with names, and wires between them, which root may make."""
    if problem := _program("ip")():
        return problem
    name = f"envhub-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return "ip netns does not work here" if done.returncode else None


def system_python() -> str | None:
    """An interpreter that another user can run: this one may lie in a home."""
    newest_first = [f"python3.{minor}" for minor in range(sys.version_info.minor + 3, 10, -1)]
    found = (shutil.which(name, path="/usr/bin:/usr/local/bin") for name in newest_first)
    return next(filter(None, found), None)


def _other_user() -> str | None:
    if problem := _program("setpriv")():
        return problem
    return None if system_python() else "no system Python is installed"


_AXE = Path(__file__).parents[2] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def axe_script() -> str:
    """The script that checks how accessible a page is."""
    return _axe_file().read_text(encoding="utf-8")


def _axe_file() -> Path:
    named = os.environ.get("ENVHUB_TEST_AXE")
    return Path(named) if named else _AXE


def _axe() -> str | None:
    return None if _axe_file().is_file() else "axe-core is not installed"


NEEDS = {
    "axe": Need(_axe, "make .venv/.axe"),
    "bash": Need(_program("bash"), f"{APT}bash"),
    "bubblewrap": Need(_bubblewrap, f"{APT}bubblewrap"),
    "chromium": Need(_program("chromium"), f"{APT}chromium"),
    "cluster": Need(_cluster, f"make {CLUSTER}/.ready"),
    "egl": Need(_gl("egl", "EGL"), f"{APT}libegl1 libgl1 libgles2"),
    "git": Need(_program("git"), f"{APT}git"),
    "glfw": Need(_glfw, f"{APT}libglfw3"),
    "headers": Need(_headers, f"{APT}linux-libc-dev"),
    "index": Need(_index),
    "landlock": Need(_landlock),
    "lerobot": Need(_lerobot, f"make {LEROBOT}/.ready"),
    "libero": Need(_libero),
    "loggers_plugin": Need(_package("envhub_loggers"), "make .venv/.base"),
    "loggers": Need(_loggers, f"make {LOGGERS}/.ready"),
    "metaworld": Need(_package("metaworld"), "make .venv/.sim"),
    "mujoco": Need(_package("mujoco"), "make .venv/.sim"),
    "netns": Need(_netns, f"{APT}iproute2"),
    "newest_lerobot": Need(_newest_lerobot, f"make {NEWEST_LEROBOT}/.ready"),
    "osmesa": Need(_gl("osmesa", "OSMesa"), f"{APT}libosmesa6"),
    "other_user": Need(_other_user, f"{APT}python3 util-linux"),
    "own_mount": Need(_own_mount, f"{APT}mount util-linux"),
    "own_network": Need(_own_network, f"{APT}util-linux"),
    "prlimit": Need(_program("prlimit"), f"{APT}util-linux"),
    "root": Need(_root),
    "sandbox": Need(_sandbox, f"{APT}bubblewrap"),
    "ssh_keygen": Need(_program("ssh-keygen"), f"{APT}openssh-client"),
    "tensorboard": Need(_tensorboard, "make .venv/.tensorboard"),
    "torch": Need(_package("torch"), "make .venv/.torch"),
}

needs_axe = pytest.mark.needs("axe")
needs_bash = pytest.mark.needs("bash")
needs_bubblewrap = pytest.mark.needs("bubblewrap")
needs_chromium = pytest.mark.needs("chromium")
needs_cluster = pytest.mark.needs("cluster")
needs_egl = pytest.mark.needs("egl")
needs_git = pytest.mark.needs("git")
needs_glfw = pytest.mark.needs("glfw")
needs_headers = pytest.mark.needs("headers")
needs_index = pytest.mark.needs("index")
needs_landlock = pytest.mark.needs("landlock")
needs_lerobot = pytest.mark.needs("lerobot")
needs_libero = pytest.mark.needs("libero")
needs_loggers_plugin = pytest.mark.needs("loggers_plugin")
needs_loggers = pytest.mark.needs("loggers")
needs_metaworld = pytest.mark.needs("metaworld")
needs_mujoco = pytest.mark.needs("mujoco")
needs_netns = pytest.mark.needs("netns")
needs_newest_lerobot = pytest.mark.needs("newest_lerobot")
needs_osmesa = pytest.mark.needs("osmesa")
needs_other_user = pytest.mark.needs("other_user")
needs_own_mount = pytest.mark.needs("own_mount")
needs_own_network = pytest.mark.needs("own_network")
needs_prlimit = pytest.mark.needs("prlimit")
needs_root = pytest.mark.needs_root
needs_sandbox = pytest.mark.needs("sandbox")
needs_ssh_keygen = pytest.mark.needs("ssh_keygen")
needs_tensorboard = pytest.mark.needs("tensorboard")
needs_torch = pytest.mark.needs("torch")

SANDBOXES = (
    pytest.param("bubblewrap", marks=needs_bubblewrap),
    pytest.param("landlock", marks=needs_landlock),
)
"""For `parametrize`: every kind of sandbox."""

ME = "root" if os.getuid() == 0 else "ordinary"
"""Which of `USERS` runs the tests."""

USERS = (
    pytest.param("ordinary", marks=needs_other_user if ME == "root" else ()),
    pytest.param("root", marks=needs_root),
)
"""For `parametrize`: an ordinary user, which is whoever runs the tests unless that is root."""


def needs_of(item: pytest.Item) -> list[str]:
    """What a test says that it needs."""
    named = [name for mark in item.iter_markers("needs") for name in mark.args]
    return [*named, *(["root"] if item.get_closest_marker("needs_root") else [])]


@cache
def reason_to_skip(name: str) -> str | None:
    """Why tests with that need are skipped here; tried once."""
    return NEEDS[name].reason()


def commands(reasons: list[str]) -> list[str]:
    """The commands that install what skipped tests lack: one of apt-get, one of make."""
    lacking = {need.install for need in NEEDS.values() if need.install}
    installs = [text for text in sorted(lacking) if any(r.endswith(f": {text}") for r in reasons)]
    merged = []
    for tool in (APT, "make "):
        words = [w for text in installs if text.startswith(tool) for w in text[len(tool) :].split()]
        if words:
            merged.append(tool + " ".join(dict.fromkeys(words)))
    return merged
