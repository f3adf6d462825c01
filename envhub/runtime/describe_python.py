"""Describe the interpreter that runs this script, as one line of JSON.

Run by its path, in interpreters that have no EnvHub and may be of any version: it must start in
Python 2, and imports the standard library only.
"""

# mypy: ignore-errors
# ruff: noqa: ANN201, UP036
import json
import os
import platform
import sys


def describe():
    """Return the values of markers, and more if the version is one that EnvHub runs on."""
    version = platform.python_version()
    answer = {
        "markers": {
            "implementation_name": platform.python_implementation().lower(),
            "implementation_version": version,
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": version,
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "sys_platform": sys.platform,
        }
    }
    if sys.version_info < (3, 11):
        return answer
    import sysconfig
    from importlib import metadata

    base = getattr(sys, "_base_executable", None) or sys.executable
    answer["platform"] = sysconfig.get_platform() + " " + "-".join(platform.libc_ver())
    answer["base"] = os.path.realpath(base)
    answer["tag"] = sys.implementation.cache_tag
    # The first one on sys.path is the one that is imported.
    found = [(d.metadata["Name"], d.version) for d in metadata.distributions()]
    answer["packages"] = {
        name.lower().replace("_", "-"): version for name, version in reversed(found) if name
    }
    return answer


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()) + "\n")
