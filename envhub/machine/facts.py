"""What a run records about the machine, since it can change the last bits of what is computed."""

import ctypes
import os
import platform
import re
from functools import cache
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")
_FLAGS = ("avx2", "avx512f", "fma")
_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)


def describe_host() -> dict[str, object]:
    """Return the architecture, the CPU with some of its flags, and the C library."""
    return {
        "arch": platform.machine(),
        "cpu": _field(_cpu_info(), "model name") or None,
        "flags": list(cpu_flags()),
        "libc": " ".join(platform.libc_ver()).strip() or None,
    }


def cpu_flags() -> tuple[str, ...]:
    """Return those instruction sets of the CPU by which numerical libraries choose their code."""
    flags = set(_field(_cpu_info(), "flags").split())
    return tuple(flag for flag in _FLAGS if flag in flags)


def describe_process() -> dict[str, str]:
    """Return what a worker computes and draws with: OpenBLAS's kernels and the GL backend.

    What is unknown is left out.
    """
    known = {"openblas": _openblas_kernel(), "gl": os.environ.get("MUJOCO_GL")}
    return {name: value for name, value in known.items() if value}


@cache
def _cpu_info() -> str:
    return _CPU_INFO.read_text(errors="replace") if _CPU_INFO.exists() else ""


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{name}\s*: (.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _openblas_kernel() -> str | None:
    """Ask the OpenBLAS that this process has loaded for the kernels that it uses."""
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:  # a sandbox may hide it
        return None
    for path in dict.fromkeys(re.findall(r"^[^/\n]*(/.*openblas[^/\n]*)$", maps, re.MULTILINE)):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name in _CORE_NAMES:
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = ctypes.c_char_p
                return str(function().decode(errors="replace"))
    return None
