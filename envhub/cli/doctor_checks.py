"""The checks of `envhub doctor`. No check raises, and none imports the package that it checks."""

import errno
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib import import_module, metadata, util
from pathlib import Path

from packaging.requirements import Requirement

from envhub import process
from envhub.config import config_path, read_setting
from envhub.directories import RUNTIMES, all_built, size_of
from envhub.discovery import installed
from envhub.errors import NoScratchDirectory
from envhub.files import cache_home
from envhub.machine import gl, gl_choice, resources
from envhub.options import SandboxKind
from envhub.sandbox import landlock
from envhub.sandbox.choose import SANDBOXES, why_unavailable
from envhub.sandbox.differences import Conditions, conditions, differences
from envhub.scratch import scratch_directory

_TIMEOUT = 10.0
"""Seconds that a tool may take to print its version."""

_GB = 10**9

_LITTLE_DISK = 1 * _GB
"""With less free space, not even one runtime with a simulator fits."""
_LITTLE_SCRATCH = 16 * 2**20
"""With less, the caches of a few workers' simulators do not fit."""


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    MISSING = "missing"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check."""

    status: Status
    found: str
    fix: str | None = None
    """The command that fixes the problem; None if there is none."""
    notes: tuple[str, ...] = ()
    """What to know about a part that passed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the machine to check, and the features that need it."""

    name: str
    needed_for: str
    look: Callable[[], Finding]
    required: bool = field(default=False, kw_only=True)
    """Whether EnvHub cannot work without this part."""

    def run(self) -> Finding:
        """Run the check; if it raises, the exception is the finding."""
        try:
            return self.look()
        except Exception as exc:
            return Finding(Status.PROBLEM, f"the check failed with {type(exc).__name__}: {exc}")


def all_checks() -> tuple[Check, ...]:
    """Return every check, in the order in which they are shown."""
    return (*_machine(), *_packages(), *_tools(), *_rendering(), *_caches())


def _machine() -> tuple[Check, ...]:
    auto = "the number of workers that `--workers auto` starts"
    return (
        Check("platform", "everything: EnvHub runs on Linux only", _platform, required=True),
        Check("python", "everything", _python, required=True),
        Check("cores", auto, lambda: Finding(Status.OK, f"{resources.cores()} usable")),
        Check("memory", auto, lambda: Finding(Status.OK, f"{resources.memory_mb()} MB usable")),
    )


def _platform() -> Finding:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() == "Linux":
        return Finding(Status.OK, system)
    return Finding(Status.PROBLEM, system, "docker run -it python:3.11 bash")


def _python() -> Finding:
    return Finding(Status.OK, f"{platform.python_version()} at {sys.executable}")


def _packages() -> tuple[Check, ...]:
    core = ("envhub-core", "gymnasium", "numpy", "msgspec", "pluggy", "click")
    return (
        *(Check(name, "everything", partial(_core, name), required=True) for name in core),
        Check("torch", "policies that are torch networks", partial(_distribution, "torch")),
        Check("mujoco", "MuJoCo benchmarks in this interpreter", _mujoco),
        Check("metaworld", "Meta-World in this interpreter", _metaworld),
        Check("hf-libero", "LIBERO in this interpreter", _libero),
        Check("huggingface_hub", "benchmarks on the Hugging Face Hub", _hub),
    )


def _core(name: str) -> Finding:
    return _distribution(_declared(name))


def _mujoco() -> Finding:
    # mujoco 3.4 changes contacts: libero_spatial task 5 falls from 98 % to 12 % success.
    return _simulator("mujoco==3.3.*" if _version("hf-libero") else "mujoco")


def _metaworld() -> Finding:
    return _simulator("metaworld")


def _libero() -> Finding:
    # Its own requirements install gigabytes that it does not need; the plugin's are right.
    return _simulator("hf-libero", "pip install --no-deps hf-libero")


def _simulator(text: str, fix: str | None = None) -> Finding:
    """Check a simulator, which need not be here if a plugin's runtime brings it."""
    finding = _distribution(text, fix)
    runtime = _runtime_with(Requirement(text).name) if finding.status is Status.MISSING else None
    return Finding(Status.OK, f"not here, but in {runtime}") if runtime else finding


def _runtime_with(package: str) -> str | None:
    """Name a runtime of an installed plugin, and the version of a package that it pins."""
    pin = re.compile(rf"^{re.escape(package)}==([^\s;]+)", re.MULTILINE)
    for plugin in installed():
        spec = util.find_spec(plugin.module.partition(".")[0])  # of a package: imports nothing
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("runtime*.txt")):
                if found := pin.search(path.read_text(encoding="utf-8", errors="replace")):
                    return f"the isolated runtime of {plugin.name} ({found[1]})"
    return None


def _hub() -> Finding:
    return _distribution("huggingface_hub>=1.6,<3")


def _distribution(text: str, fix: str | None = None) -> Finding:
    requirement = Requirement(text)
    version = _version(requirement.name)
    fix = fix or f"pip install {shlex.quote(text)}"
    if version is None:
        return Finding(Status.MISSING, "not installed", fix)
    if not requirement.specifier.contains(version, prereleases=True):
        return Finding(Status.PROBLEM, f"{version}, but {requirement.specifier} is required", fix)
    return Finding(Status.OK, version)


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _declared(name: str) -> str:
    """Return the requirement on `name` that EnvHub declares, else the bare name."""
    try:
        declared = metadata.requires("envhub-core") or []
    except metadata.PackageNotFoundError:
        return name
    matching = (parsed for parsed in map(Requirement, declared) if parsed.name == name)
    return next((f"{name}{parsed.specifier}" for parsed in matching if not parsed.marker), name)


def _tools() -> tuple[Check, ...]:
    sandbox = "--sandbox, which confines the code of Hub benchmarks"
    return (
        Check("git", "verifying the files of Hub benchmarks against their commit", _git),
        Check("uv", "--runtime isolated: benchmarks that need packages missing here", _uv),
        Check("runtimes", "--runtime isolated; offline once they are built", _runtimes),
        Check("bubblewrap", f"{sandbox} (the stronger one)", _bubblewrap),
        Check("landlock", f"{sandbox} (where bubblewrap does not work)", _landlock),
        Check("sandbox", "code of Hub benchmarks, which is not run without one", _sandbox),
    )


def _git() -> Finding:
    return _tool("git", "apt-get install git")


def _uv() -> Finding:
    return _tool(_uv_binary(), "pip install uv")


def _uv_binary() -> str:
    try:
        return str(import_module("uv").find_uv_bin())
    except (ImportError, FileNotFoundError):
        return "uv"


def _runtimes() -> Finding:
    built = all_built(RUNTIMES)
    damaged = [runtime.key for runtime in built if not runtime.whole]
    size = sum(size_of(runtime.place) for runtime in built) / _GB
    summary = f"{len(built)} built, {size:.1f} GB" if built else "none built"
    if damaged:
        fix = f"envhub runtime remove {' '.join(damaged)}"
        return Finding(Status.PROBLEM, f"{summary}, damaged: {', '.join(damaged)}", fix)
    return Finding(Status.OK, summary)


def _tool(tool: str, fix: str) -> Finding:
    path = shutil.which(tool)
    if path is None:
        return Finding(Status.MISSING, "not on PATH", fix)
    done = process.run([path, "--version"], timeout=_TIMEOUT)
    if done is None:
        return Finding(
            Status.PROBLEM, f"{path} did not start, or did not finish within {_TIMEOUT:g} s", fix
        )
    if done.code:
        how = process.describe_exit(done.code)
        return Finding(Status.PROBLEM, f"{path} --version {how}", fix)
    return Finding(Status.OK, f"{done.stdout.strip()} at {path}")


def _bubblewrap() -> Finding:
    tool = _tool("bwrap", "apt-get install bubblewrap")
    if tool.status is not Status.OK:
        return tool
    problem = why_unavailable("bubblewrap")
    if problem is None:
        return tool
    text = f"{tool.found} cannot confine a process: {problem}"
    return Finding(Status.PROBLEM, text, _namespaces_fix())


def _namespaces_fix() -> str:
    """Return the command that allows user namespaces, as far as the kernel's settings show it."""
    for setting, forbids, allows in (
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
    ):
        file = Path("/proc/sys", setting.replace(".", "/"))
        if os.access(file, os.R_OK) and file.read_text().strip() == forbids:
            return f"sysctl -w {setting}={allows}"
    return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined ..."


def _landlock() -> Finding:
    return describe_landlock(*landlock.version())


def describe_landlock(abi: int, error: int) -> Finding:
    """Describe what a Landlock version can restrict; without one, what the error number means."""
    if abi >= 4:
        return Finding(Status.OK, f"Landlock ABI {abi}: files and TCP")
    if abi > 0:
        return Finding(Status.OK, f"Landlock ABI {abi}: files only, TCP needs Linux 6.7")
    if error == errno.EOPNOTSUPP:
        fix = "add landlock to lsm= on the kernel's command line, and reboot"
        return Finding(Status.MISSING, "disabled in this kernel", fix)
    fix = "boot Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK"
    return Finding(Status.MISSING, f"not in this kernel ({os.strerror(error)})", fix)


def _sandbox() -> Finding:
    """Name the sandbox that code from the Hub runs in, and how it differs from the other one."""
    problems = {sandbox: why_unavailable(sandbox) for sandbox in SANDBOXES}
    for sandbox, problem in problems.items():
        if problem is None:
            return describe_sandbox(sandbox, conditions())
    reasons = "; ".join(f"{sandbox}: {problem}" for sandbox, problem in problems.items())
    return Finding(Status.MISSING, f"none works ({reasons})", "apt-get install bubblewrap")


def describe_sandbox(sandbox: SandboxKind, here: Conditions) -> Finding:
    """Describe a sandbox, with one note per difference."""
    notes = tuple(map(str, differences(sandbox, here, network=False) or ()))
    compared = ", which unlike bubblewrap for an ordinary user" if notes else ""
    return Finding(Status.OK, f"--sandbox auto is {sandbox}{compared}", notes=notes)


def _rendering() -> tuple[Check, ...]:
    gl_choice.forget()  # workers get what is true now
    off_screen = "drawing frames with MUJOCO_GL={} (runs without pixels need no GL)"
    return (
        Check("GL egl", off_screen.format("egl, the fastest"), partial(_gl, "egl")),
        Check("GL osmesa", off_screen.format("osmesa, in software"), partial(_gl, "osmesa")),
        Check("GL glfw", "windows on a display with MUJOCO_GL=glfw", partial(_gl, "glfw")),
    )


_GL_FIX: dict[gl.Backend, str] = {
    "egl": "apt-get install libegl1 libgl1 libgles2",
    "osmesa": "apt-get install libosmesa6",
    "glfw": "apt-get install libglfw3 libgl1 xvfb && xvfb-run -a envhub doctor",
}


def _gl(backend: gl.Backend) -> Finding:
    match gl.probe_gl(backend):
        case gl.Renders(renderer):
            return Finding(Status.OK, f"draws with {renderer}")
        case gl.Missing(problem):
            return Finding(Status.MISSING, problem, _GL_FIX[backend])
        case gl.Fails(problem):
            return Finding(Status.PROBLEM, problem, _GL_FIX[backend])


def _settings() -> Finding:
    """Show the defaults of commands, and where each comes from."""
    path = config_path()
    notes: list[str] = []
    for name in ("workers", "out", "log"):
        one = read_setting(name)
        origin = one.origin if one.origin == "default" else f"from {one.origin}"
        notes.append(f"{name} = {_in_words(one.value)} ({origin})")
    notes.append(f"cache = {cache_home()} ({_cache_origin()})")
    found = str(path) if path.is_file() else f"{path}, which does not exist"
    return Finding(Status.OK, found, notes=tuple(notes))


def _in_words(value: object) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)


def _cache_origin() -> str:
    for variable in ("ENVHUB_CACHE_DIR", "ENVHUB_HOME"):
        if os.environ.get(variable):
            return f"from {variable}"
    found = read_setting("cache")
    if found.value is not None:
        return f"from {found.origin}"
    return "from XDG_CACHE_HOME" if os.environ.get("XDG_CACHE_HOME") else "default"


def _caches() -> tuple[Check, ...]:
    return (
        Check("configuration", "the defaults of commands", _settings, required=True),
        Check("temporary files", "the scratch directories of workers", _temporary, required=True),
        Check(
            "cache",
            "sources and runtimes",
            lambda: _directory(_cache_variable(), cache_home()),
            required=True,
        ),
        Check(
            "hugging face cache",
            "downloads from the Hugging Face Hub",
            lambda: _directory("HF_HOME", _hub_cache()),
        ),
    )


def _temporary() -> Finding:
    fix = "export TMPDIR=DIRECTORY  # writable, with free space"
    try:
        with scratch_directory() as scratch:
            free = shutil.disk_usage(scratch).free
    except NoScratchDirectory as exc:
        return Finding(Status.PROBLEM, f"{exc.directory}: {exc.problem}", fix)
    text = f"{scratch.parent}, {free / _GB:.1f} GB free"
    if free < _LITTLE_SCRATCH:
        return Finding(Status.PROBLEM, text, fix)
    return Finding(Status.OK, text)


def _cache_variable() -> str:
    """Return the variable that says where the cache is."""
    only_all = "ENVHUB_HOME" in os.environ and "ENVHUB_CACHE_DIR" not in os.environ
    return "ENVHUB_HOME" if only_all else "ENVHUB_CACHE_DIR"


def _hub_cache() -> Path:
    user_caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(os.environ.get("HF_HOME") or Path(user_caches, "huggingface"))
    return path.expanduser().absolute()


def _directory(variable: str, path: Path) -> Finding:
    """Check where a cache is or will be, without creating it."""
    # Unlike Path.exists, this returns False below a directory that may not be entered.
    nearest = next(parent for parent in (path, *path.parents) if os.access(parent, os.F_OK))
    fix = f"export {variable}=DIRECTORY  # writable, with free space"
    if not nearest.is_dir():
        return Finding(Status.PROBLEM, f"{path}: {nearest} is not a directory", fix)
    if nearest == path and os.access(path, os.R_OK | os.X_OK) and not os.access(path, os.W_OK):
        return Finding(Status.OK, f"{path}, read-only: used as it is, and nothing is added")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(Status.PROBLEM, f"{path}: {nearest} is not writable", fix)
    free = shutil.disk_usage(nearest).free
    state = "" if nearest == path else "not created yet, "
    text = f"{path}, {state}{free / _GB:.1f} GB free"
    return Finding(Status.PROBLEM, text, fix) if free < _LITTLE_DISK else Finding(Status.OK, text)
