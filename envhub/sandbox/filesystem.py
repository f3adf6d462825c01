"""The files of this machine that a sandbox shows: the system, an interpreter, the GPUs. No home."""

import os
import pwd
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from envhub.types import THIS_PYTHON


def shown_of_system(root: Path) -> Iterator[Path]:
    """The whole of a directory of programs; its parts where settings lie beside them.

    In `/usr/local`, the prefix of the interpreter in many containers, that may be a `pip.conf` with
    the password of a package index.
    """
    local = root / "local"
    if not any(_is_setting(path) for path in (*_entries(root), *_entries(local))):
        yield root
        return
    entries = (path for path in (*_entries(root), *_entries(local)) if path != local)
    yield from _own(path for path in entries if not _is_setting(path))


def _own(paths: Iterable[Path]) -> list[Path]:
    """Without links that lead out of these paths: showing one would show where it leads to."""
    listed = [(path, path.is_symlink()) for path in paths]
    inside = tuple(f"{path.resolve()}/" for path, link in listed if not link)
    return [p for p, link in listed if not link or f"{p.resolve()}/".startswith(inside)]


def _is_setting(path: Path) -> bool:
    if path.name == "etc":
        return any(_entries(path))
    return path.name.startswith(".") or not path.is_dir()


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:  # it does not exist
        return []


_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store", "gnu/store")

ROOTS = tuple(
    path
    for name in _SYSTEM
    for path in (shown_of_system(Path("/usr")) if name == "usr" else (Path("/", name),))
    if path.exists()
)
"""The system's programs and libraries."""

_OF_INTERPRETERS = frozenset({
    "pyvenv.cfg", "bin", "include", "lib", "lib32", "lib64", "libexec", "share",
    "nvvm", "targets", "plugins", "qml",  # of conda's packages of CUDA and Qt, as those below
})  # fmt: skip
"""The parts of an interpreter's directory that are shown, with `<machine>-linux-gnu`. Beside them
lie settings that may hold passwords (`pip.conf`, `uv.toml`, `.condarc`), other environments, or the
project that the environment was made in."""

_DEEPER = {
    "etc": ("fonts", "glvnd", "OpenCL", "vulkan"),
    "ssl": ("cacert.pem", "cert.pem", "certs", "openssl.cnf"),
}

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
    executable = python or Path(THIS_PYTHON)
    own_prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    prefixes = _prefixes(python) if python else map(Path, dict.fromkeys(own_prefixes))
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
    """Yield the interpreter's parts; if the prefix contains the user's home, only Python's own."""
    if holds_home(prefix):
        yield prefix / "pyvenv.cfg"
        yield from prefix.glob("lib*/python*")
        return
    yield from _own(_of_interpreter(prefix))


def _of_interpreter(prefix: Path) -> Iterator[Path]:
    for path in _entries(prefix):
        if path.name in _OF_INTERPRETERS or path.name.endswith("-linux-gnu"):
            yield path
        yield from (path / name for name in _DEEPER.get(path.name, ()))


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
    """Return each path as spelled and as resolved, without those inside another or inside /usr.

    A spelling with `..` is left out: the directory before it need not be there in a sandbox.
    """
    both = {spelling for path in paths for spelling in (path.absolute(), path.resolve())}
    spellings = {path for path in both if ".." not in path.parts}
    kept: list[Path] = []
    above = tuple(f"{root}/" for root in ROOTS)
    for path in sorted(spellings, key=lambda each: len(each.parts)):
        if not f"{path}/".startswith(above):
            kept.append(path)
            above = (*above, f"{path}/")
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
