"""The environment variables of a worker. All others are cleared."""

import os
import platform
import re
import site
from collections.abc import Iterable, Mapping
from pathlib import Path

from envhub.errors import UsageError
from envhub.machine.facts import cpu_flags

_ALLOWED = frozenset({
    "CUDA_VISIBLE_DEVICES", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LP_NUM_THREADS",
    "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH",
    "OPENBLAS_CORETYPE", "PYOPENGL_PLATFORM", "PYTHONPATH", "TZ",
})  # fmt: skip

_ALLOWED_PREFIXES = ("LC_", "MUJOCO_", "NVIDIA_", "__EGL_")

_DISPLAY = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY")

_SEARCHED = ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
"""Lists of directories. An empty or relative part would mean the directory of a process, which for
a worker is one that foreign code can write to."""
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL")

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,199}")
_MAX_VALUE = 100_000
"""Characters; Linux allows 128 KiB."""
_STARTING = re.compile(
    "(LD_|DYLD_|PYTHON|BASH|ENVHUB_|GLIBC_|MALLOC_)[A-Z0-9_]*|SHELLOPTS|PS4|ENV|IFS|PATH|"
    "GCONV_PATH|LOCPATH|NLSPATH|OPENSSL_(CONF|ENGINES|MODULES)",
    re.IGNORECASE,
)
"""Variables that loaders, shells and interpreters obey before any code of a benchmark runs."""
DEFERRED = "ENVHUB_DEFERRED_"

# One thread per worker, so that workers do not compete for the cores.
_THREADS = ("LP_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def worker_variables(
    scratch: Path,
    *,
    given: Mapping[str, str] | None = None,
    isolated: bool = False,
    local: bool = False,
) -> dict[str, str]:
    """Return the whole environment of a worker whose home and temporary directory is `scratch`.

    Args:
        scratch: An empty directory for this worker only.
        given: The variables to choose from; None: those of this process.
        isolated: Whether the worker runs in a runtime, which sees no packages of the host.
        local: Whether it runs the user's own code, which may open windows.
    """
    source = os.environ if given is None else given
    chosen = {
        name: value
        for name, value in source.items()
        if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)) and not _SECRET.search(name)
    }
    for name in _SEARCHED:
        if name in chosen:
            chosen[name] = _absolute_parts(chosen[name])
    for name in _THREADS:
        chosen.setdefault(name, "1")
    for name, value in kernel_variables().items():
        chosen.setdefault(name, value)
    if isolated:
        chosen.pop("PYTHONPATH", None)
    elif site.ENABLE_USER_SITE:
        # With another HOME the interpreter would not find packages installed with --user.
        chosen["PYTHONUSERBASE"] = site.getuserbase()
    if local:
        chosen |= _display(source)
    fixed = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return chosen | fixed | _scratch_variables(scratch)


def kernel_variables() -> dict[str, str]:
    """Return the variables that make the same wheels compute the same on every CPU.

    OpenBLAS chooses its kernels by the CPU, and they differ in the last bits. Haswell's run on
    every x86-64 CPU with AVX2, of 2013 and later; older ones keep their own.
    """
    common = platform.machine() in ("x86_64", "AMD64") and {"avx2", "fma"} <= {*cpu_flags()}
    return {"OPENBLAS_CORETYPE": "Haswell"} if common else {}


def chosen_variables(env_vars: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables of `--env-var` with their values.

    Args:
        env_vars: The values by name; None: the value in this process.

    Raises:
        UsageError: A name or a value cannot be that of a variable, or there is no value.
    """
    chosen: dict[str, str] = {}
    for name, given in env_vars.items():
        value = os.environ.get(name) if given is None else given
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"--env-var {name!a} is not the name of a variable.")
        if value is None:
            raise UsageError(
                f"--env-var {name}: {name} is not set here. Set it, or write {name}=VALUE."
            )
        if not isinstance(value, str) or "\0" in value or len(value) > _MAX_VALUE:
            raise UsageError(
                f"--env-var {name}: its value must be text of at most {_MAX_VALUE:,} characters."
            )
        chosen[name] = value
    return chosen


def check_variables(names: Iterable[str], *, confined: bool = True) -> None:
    """Refuse variables that could lead code around its confinement.

    Args:
        names: The variables of `--env-var`.
        confined: Whether the code is foreign. The user's own code may have any variable.

    Raises:
        UsageError: One of them decides which code a process starts with.
    """
    for name in sorted(names) if confined else ():
        if _STARTING.fullmatch(name):
            raise UsageError(
                f"--env-var {name} is refused for code from the Hub: it decides which code a "
                "process starts with. Leave it out."
            )


def defer_variables(env_vars: Mapping[str, str]) -> dict[str, str]:
    """Return variables that mean nothing to a shell, a loader or an interpreter.

    A worker in a sandbox calls `set_deferred` once it is confined.
    """
    pairs = enumerate(env_vars.items())
    return {f"{DEFERRED}{number}": f"{name}={value}" for number, (name, value) in pairs}


def set_deferred() -> None:
    """Set the variables that were deferred, in this process."""
    for name in [name for name in os.environ if name.startswith(DEFERRED)]:
        chosen, _, value = os.environ.pop(name).partition("=")
        os.environ[chosen] = value


def guard_variables() -> dict[str, str]:
    """The whole environment of a guard: what the interpreter may need to be loaded."""
    libraries = _absolute_parts(os.environ.get("LD_LIBRARY_PATH", ""))
    return {"LD_LIBRARY_PATH": libraries} if libraries else {}


def user_variables(*, isolated: bool) -> dict[str, str]:
    """Return the user's variables; for a runtime without those that add the host's packages."""
    left_out = ("PYTHONPATH", "PYTHONHOME") if isolated else ()
    own = {name: value for name, value in os.environ.items() if name not in left_out}
    # Unbuffered, so that what it printed before a crash is not lost.
    return {"PYTHONUNBUFFERED": "1"} | kernel_variables() | own


def _scratch_variables(scratch: Path) -> dict[str, str]:
    """Return the variables that differ from worker to worker."""
    # Mesa looks for its cache in XDG_CACHE_HOME, but not in HOME.
    own = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))
    # Numba writes beside the code that it compiles, if it can; Matplotlib complains if it cannot.
    return own | {"NUMBA_CACHE_DIR": f"{scratch}/numba", "MPLCONFIGDIR": f"{scratch}/matplotlib"}


def _display(source: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user's display, complete without the user's home."""
    chosen = {name: source[name] for name in _DISPLAY if source.get(name)}
    cookies = Path(source.get("HOME", ""), ".Xauthority")
    if "DISPLAY" in chosen and cookies.is_absolute() and cookies.is_file():
        chosen.setdefault("XAUTHORITY", str(cookies))
    socket = Path(source.get("XDG_RUNTIME_DIR", ""), chosen.get("WAYLAND_DISPLAY", ""))
    if "WAYLAND_DISPLAY" in chosen and socket.is_absolute() and socket.exists():
        chosen["WAYLAND_DISPLAY"] = str(socket)
    return chosen


def _absolute_parts(listed: str) -> str:
    return ":".join(part for part in listed.split(":") if part.startswith("/"))
