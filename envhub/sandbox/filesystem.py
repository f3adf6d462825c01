"""The files of this machine that a sandbox shows: the system, an interpreter, the GPUs. No home."""

import os
import pwd
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOTS = tuple(
    path
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store", "gnu/store")
    if (path := Path("/", name)).exists()
)
"""The system's programs and libraries."""

# No files that only root may read: a worker that runs as root could read them.
_ETC = (
    "alternatives", "drirc", "fonts", "glvnd", "group", "ld.so.cache", "localtime", "nsswitch.conf",
    "nvidia", "OpenCL", "os-release", "passwd", "vulkan",
)  # fmt: skip

_ETC_FOR_NETWORK = (
    "ca-certificates", "gai.conf", "host.conf", "hosts", "pki/ca-trust/extracted",
    "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols", "resolv.conf",
    "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
)  # fmt: skip

_SYS = (Path("/sys/devices/system"), Path("/sys/kernel/mm"), Path("/run/opengl-driver"))

_SYS_FOR_GPUS = tuple(
    Path("/sys", name) for name in ("bus/pci", "class/drm", "class/kfd", "dev", "devices", "module")
)

_PACKAGES = ("site-packages", "dist-packages")

_WORKER_PACKAGES = ("gymnasium", "msgspec", "numpy", "pluggy")
"""Packages that a worker imports; `pip install --target` puts them into directories of any name."""

PROC = tuple(
    Path("/proc", name)
    for name in (
        "self", "cpuinfo", "devices", "driver", "filesystems", "loadavg", "meminfo", "modules",
        "stat", "sys", "uptime", "version", "vmstat",
    )
)  # fmt: skip
"""Files about the process itself and the machine, but not about other processes."""

DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom"))


def interpreter_paths(python: Path | None = None) -> tuple[Path, ...]:
    """Return the paths that an interpreter needs to run a worker, and nothing else beside them.

    Args:
        python: The interpreter; None: the running one.
    """
    executable = python or Path(sys.executable)
    own_prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    prefixes = _prefixes(python) if python else map(Path, own_prefixes)
    packages = [] if python else [path for path in map(Path, sys.path) if _has_packages(path)]
    libraries = map(Path, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    paths = (
        *(part for prefix in prefixes for part in _parts(prefix)),
        *(path for path in (*packages, *libraries) if path.is_absolute() and not holds_home(path)),
        *_links(executable),
        Path(__file__).parent.parent,
    )
    return tuple(apart(path for path in paths if path.exists()))


def _has_packages(path: Path) -> bool:
    return path.name in _PACKAGES or any((path / name).is_dir() for name in _WORKER_PACKAGES)


def _prefixes(executable: Path) -> Iterator[Path]:
    """Yield the directories of an interpreter's packages and of its standard library."""
    config = executable.parent.parent / "pyvenv.cfg"
    if not config.is_file():
        yield executable.resolve().parent.parent
        return
    yield config.parent
    for line in config.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            yield Path(value.strip()).parent


def _parts(prefix: Path) -> Iterator[Path]:
    """Yield the whole prefix; if it contains the user's home, only the parts that are Python's."""
    if not holds_home(prefix):
        yield prefix
        return
    yield prefix / "pyvenv.cfg"
    yield from prefix.glob("lib*/python*")


def _links(path: Path) -> Iterator[Path]:
    """Yield a path and everything that it links to, one link after the other."""
    while path.is_symlink():
        yield path
        path = Path(os.path.normpath(path.parent / path.readlink()))
    yield path


def holds_home(path: Path) -> bool:
    """Whether a directory is or contains the user's home, as spelled or as resolved."""
    spellings = {path, path.resolve()}
    homes = _homes(os.environ.get("HOME", ""), os.getuid())
    return any(home.is_relative_to(spelling) for home in homes for spelling in spellings)


@cache
def _homes(variable: str, user: int) -> frozenset[Path]:
    homes = {Path(variable)} if variable else set()
    with suppress(KeyError):  # a user without an entry in passwd, as in containers
        homes.add(Path(pwd.getpwuid(user).pw_dir))
    return frozenset(homes | {home.resolve() for home in homes})


def apart(paths: Iterable[Path]) -> list[Path]:
    """Return each path as spelled and as resolved, without those inside another or inside /usr."""
    spellings = {spelling for path in paths for spelling in (path.absolute(), path.resolve())}
    kept: list[Path] = []
    for path in sorted(spellings, key=lambda spelling: len(spelling.parts)):
        if not any(path.is_relative_to(above) for above in (*ROOTS, *kept)):
            kept.append(path)
    return kept


def system_files(*, network: bool) -> Iterator[Path]:
    """Yield the paths that programs read besides `ROOTS`; some may not exist."""
    yield from (Path("/etc", name) for name in _ETC)
    yield from (Path("/etc", name) for name in _ETC_FOR_NETWORK if network)
    yield from _SYS
    yield from _SYS_FOR_GPUS if gpus() else ()


def gpus() -> list[Path]:
    """Return the device nodes of GPUs, of any make."""
    nodes = (Path("/dev").glob(pattern) for pattern in ("dri", "kfd", "dxg", "nvidia*"))
    return sorted(path for paths in nodes for path in paths)
