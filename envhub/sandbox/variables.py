"""The environment variables of a worker. All others are cleared."""

import os
import platform
import re
import site
from collections.abc import Mapping
from pathlib import Path

from envhub.machine.facts import cpu_flags

_ALLOWED = frozenset({
    "CUDA_VISIBLE_DEVICES", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LP_NUM_THREADS",
    "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH",
    "OPENBLAS_CORETYPE", "PYOPENGL_PLATFORM", "PYTHONPATH", "TZ",
})  # fmt: skip

_ALLOWED_PREFIXES = ("LC_", "MUJOCO_", "NVIDIA_", "__EGL_")

_SEARCHED = ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
"""Lists of directories. An empty or relative part would mean the directory of a process, which for
a worker is one that foreign code can write to."""
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL")

# One thread per worker, so that workers do not compete for the cores.
_THREADS = ("LP_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def worker_variables(
    scratch: Path, *, given: Mapping[str, str] | None = None, isolated: bool = False
) -> dict[str, str]:
    """Return the whole environment of a worker whose home and temporary directory is `scratch`.

    Args:
        scratch: An empty directory for this worker only.
        given: The variables to choose from; None: those of this process.
        isolated: Whether the worker runs in a runtime, which sees no packages of the host.
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
    fixed = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return chosen | fixed | scratch_variables(scratch)


def kernel_variables() -> dict[str, str]:
    """Return the variables that make the same wheels compute the same on every CPU.

    OpenBLAS chooses its kernels by the CPU, and they differ in the last bits. Haswell's run on
    every x86-64 CPU with AVX2, of 2013 and later; older ones keep their own.
    """
    common = platform.machine() in ("x86_64", "AMD64") and {"avx2", "fma"} <= {*cpu_flags()}
    return {"OPENBLAS_CORETYPE": "Haswell"} if common else {}


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


def scratch_variables(scratch: Path) -> dict[str, str]:
    """Return the variables that differ from worker to worker."""
    # Mesa looks for its cache in XDG_CACHE_HOME, but not in HOME.
    return dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))


def _absolute_parts(listed: str) -> str:
    return ":".join(part for part in listed.split(":") if part.startswith("/"))
