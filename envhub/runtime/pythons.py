"""Interpreters of this machine: what they are, what they have, and how one is found.

An interpreter is asked by running a script in it that imports nothing but the standard library.
"""

import json
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.specifiers import SpecifierSet

from envhub import process
from envhub.errors import RuntimeUnavailable, UsageError
from envhub.files import expand_home
from envhub.sandbox.variables import user_variables

OLDEST = "3.11"
"""The oldest Python that EnvHub's own code runs on."""
_ANSWER = 60.0
"""Seconds that an interpreter has to answer; on a network drive it may need many."""

_SCRIPT = Path(__file__).with_name("describe_python.py")


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter, as pins, runtimes and records need to know it."""

    executable: str
    markers: Mapping[str, str]
    """The values of the variables in markers, by PEP 508."""
    platform: str
    base: str
    """The executable that a virtual environment was made from."""
    tag: str
    """Of the names of its compiled modules, such as `cpython-312`."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The versions of all installed packages."""

    @property
    def version(self) -> str:
        """Such as `3.12.1`."""
        return self.markers["python_full_version"]

    @property
    def name(self) -> str:
        """Such as `CPython 3.12.1`."""
        return f"{self.markers['platform_python_implementation']} {self.version}"

    def meets(self, specifier: str | None) -> bool:
        """Whether it has a required version."""
        return specifier is None or SpecifierSet(specifier).contains(self.version, prereleases=True)


@cache
def this_python() -> Python:
    """Return the interpreter that EnvHub runs on, without its packages."""
    return Python(
        executable=sys.executable,
        markers={name: str(value) for name, value in default_environment().items()},
        platform=f"{sysconfig.get_platform()} {'-'.join(platform.libc_ver())}",
        base=os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
        tag=sys.implementation.cache_tag,
    )


def installed_here(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed beside EnvHub."""
    versions: dict[str, str] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def ask_python(path: str) -> Python:
    """Describe an interpreter by running it.

    Raises:
        RuntimeUnavailable: It is too old, or not an interpreter of Python.
    """
    variables = user_variables(isolated=True)
    # In the root directory, so that no file of the user's directory is imported.
    done = process.run([path, _SCRIPT], timeout=_ANSWER, env=variables, cwd=Path("/"))
    try:
        answer = json.loads(done.stdout.splitlines()[-1]) if done and not done.code else {}
        markers = {str(key): str(value) for key, value in answer["markers"].items()}
    except (ValueError, LookupError, AttributeError, TypeError) as exc:
        raise RuntimeUnavailable(
            f"{path} is not a Python interpreter, or does not start.",
            "Name another one with --policy-python.",
        ) from exc
    version = markers["python_full_version"]
    if not SpecifierSet(f">={OLDEST}").contains(version, prereleases=True):
        raise RuntimeUnavailable(
            f"{path} is Python {version}; a policy's process needs {OLDEST} or newer.",
            "Name another interpreter with --policy-python.",
            requirement=f"Python >={OLDEST}",
        )
    return Python(
        path, markers, answer["platform"], answer["base"], answer["tag"], answer["packages"]
    )


def locate_python(text: str) -> str:
    """Return the absolute path of an interpreter, given by its path or as a command.

    Raises:
        UsageError: It does not exist, or cannot be executed.
    """
    if not text.strip():
        raise UsageError("--policy-python is empty: name an interpreter, such as .venv/bin/python.")
    path = expand_home(text) if text.startswith("~") else Path(text)
    if "/" not in text:
        found = shutil.which(text)
        if found is None:
            raise UsageError(f"--policy-python {text}: there is no such command.")
        path = Path(found)
    if path.is_dir():
        inner = path / "bin/python"
        advice = f" Name {inner}." if inner.exists() else " Name the interpreter in it."
        raise UsageError(f"--policy-python {text} is a directory.{advice}")
    if not path.exists():
        raise UsageError(f"--policy-python {text} does not exist. Check the path.")
    if not os.access(path, os.X_OK):
        raise UsageError(f"--policy-python {text} cannot be executed.")
    # Not resolved: the link in a virtual environment is what makes it one.
    return os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps `..`


def find_python(specifier: str, name: str) -> Python:
    """Return an installed interpreter of a required version; none is downloaded.

    Args:
        specifier: The versions, such as `>=3.12`.
        name: Of the file that requires it.

    Raises:
        RuntimeUnavailable: None is installed.
    """
    from envhub.runtime.uv import find_uv  # few runs look for another Python
    from envhub.runtime.uv_settings import uv_variables

    command = [str(find_uv()), "python", "find", "--no-project", "--system", specifier]
    done = process.run(command, timeout=_ANSWER, env=uv_variables(), cwd=Path("/"))
    path = done.stdout.strip() if done and not done.code else ""
    if not path:
        raise RuntimeUnavailable(
            f"{name} requires Python {specifier}; this is {platform.python_version()}, and no "
            "other one that fits is installed.",
            "Install one, or name an interpreter with --policy-python.",
            requirement=f"Python {specifier}",
        )
    return ask_python(path)
