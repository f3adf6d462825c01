"""The user's configuration file, which sets defaults of commands and never what they run or trust.

    ~/.config/envhub/config.toml     or the file that ENVHUB_CONFIG names

    workers = 8                      a number, or "auto"
    out = "~/runs"                   where the directories of new runs are made
    cache = "/scratch/me/envhub"     an absolute path
    log = ["tensorboard"]

The command line comes before a variable, and this before the file. Nothing else is read: no file of
the working directory, of a benchmark or of a run.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from envhub.errors import UsageError

VARIABLE = "ENVHUB_CONFIG"
VARIABLES = {"workers": "ENVHUB_WORKERS", "out": "ENVHUB_OUT", "log": "ENVHUB_LOG"}
"""The variable that says the same as a setting; that of `cache` is in `files.cache_home`."""
MOST_WORKERS = 4096
_MOST_BYTES = 2**20
_DEFAULTS: Mapping[str, Any] = {"workers": "auto", "out": "runs", "log": (), "cache": None}
_SAID_EACH_TIME = frozenset(
    {
        *("allow_unpinned", "baselines", "benchmark", "benchmarks", "env_arg", "env_args"),
        *("env_var", "env_vars", "episodes", "ignore_conventions", "instructions", "latency"),
        *("locked", "max_steps", "options", "policies", "policy", "policy_arg", "policy_args"),
        *("perturb", "policy_python", "private", "protocol", "ref", "runtime", "sandbox"),
        *("sandbox_allow_network", "seed", "seeding", "seeds", "shard", "suite", "suites", "task"),
        *("tasks", "trust", "trust_remote_code", "trusted"),
    }
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it comes from."""

    value: Any
    origin: str


def home_of(own: str, shared: str, default: str) -> Path:
    """Return a directory of EnvHub's; `$ENVHUB_HOME` is all of them in one.

    Args:
        own: The variable that names it.
        shared: The variable that names the directory that it is in.
        default: Of that directory, below the user's home.
    """
    chosen = os.environ.get(own) or os.environ.get("ENVHUB_HOME")
    if chosen:
        place = (Path.home() / chosen[2:] if chosen.startswith("~/") else Path(chosen)).absolute()
    else:
        base = os.environ.get(shared)
        place = (Path(base) if base else Path.home() / default) / "envhub"
    return place.resolve() if ".." in place.parts else place  # sandboxes have no place before `..`


def config_home() -> Path:
    """What the user has decided: `$ENVHUB_STATE_DIR`, else the user's configuration directory."""
    return home_of("ENVHUB_STATE_DIR", "XDG_CONFIG_HOME", ".config")


def config_path() -> Path:
    """Return where the file is, or would be."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else config_home() / "config.toml"


def read_setting(name: str) -> Setting:
    """Return the value of a setting, apart from what the command line says.

    Args:
        name: `workers`, `out`, `cache` or `log`.

    Raises:
        UsageError: The variable or the file says something else than it can.
    """
    variable = VARIABLES.get(name)
    if variable and (text := os.environ.get(variable, "").strip()):
        try:
            return Setting(_CHECKS[name](_from_text(name, text)), variable)
        except ValueError as exc:
            raise UsageError(f"{variable}: {exc}.") from exc
    path = config_path()
    found = read_file(path)
    if name in found:
        return Setting(found[name], str(path))
    return Setting(_DEFAULTS[name], "default")


def read_file(path: Path) -> Mapping[str, Any]:
    """Return the settings of a file; a file that is not there has none.

    Raises:
        UsageError: It is not TOML, or sets what it cannot; names the line.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if os.environ.get(VARIABLE):
            raise UsageError(f"{VARIABLE} names {path}, which does not exist.") from None
        return {}
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}.") from exc
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int, size: int) -> Mapping[str, Any]:
    if not path.is_file() or size > _MOST_BYTES:
        raise UsageError(f"{path} is no configuration: it must be a file of TOML.")
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}.") from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{path} is not TOML: {str(exc)[:200]}.") from exc
    return {name: _checked(path, text, name, value) for name, value in content.items()}


def _checked(path: Path, text: str, name: str, value: object) -> Any:
    try:
        if name not in _CHECKS:
            raise ValueError(_unknown(name))
        return _CHECKS[name](value)
    except ValueError as exc:
        line = _find_line(text, name)
        at = f", line {line}" if line else ""
        raise UsageError(f"{path}{at}: {exc}.") from exc


def _unknown(name: str) -> str:
    if name.replace("-", "_") in _SAID_EACH_TIME:
        return (
            f"{name} cannot be set in a file: what is evaluated, and what is trusted, is said to "
            "each command"
        )
    from difflib import get_close_matches  # commands must start fast

    near = get_close_matches(name, list(_CHECKS), 1, 0.6)
    meant = f"did you mean {near[0]!r}" if near else f"there are {', '.join(sorted(_CHECKS))}"
    return f"no setting is called {name!r}: {meant}"


def _find_line(text: str, name: str) -> int | None:
    """Return the number of the line that sets a key, or begins its table."""
    key = rf"\s*\[*\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]"
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if re.match(key, line)), None)


def _from_text(name: str, text: str) -> object:
    """Return the value that a variable says."""
    if name == "log":
        return [part.strip() for part in text.split(",") if part.strip()]
    return int(text) if name == "workers" and text.isdecimal() else text


def _check_workers(value: object) -> object:
    if value == "auto" or (type(value) is int and 1 <= value <= MOST_WORKERS):
        return value
    raise ValueError(f'workers must be "auto" or 1 to {MOST_WORKERS}, found {_shown(value)}')


def _check_out(value: object) -> str:
    return str(_path("out", value))


def _check_cache(value: object) -> str:
    path = _path("cache", value)
    if not path.is_absolute():
        raise ValueError(f"cache must be an absolute path, found {_shown(value)}")
    return str(path)


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{name} must be a path, found {_shown(value)}")
    try:
        return Path(value).expanduser()
    except RuntimeError as exc:
        raise ValueError(f"{name} is in the home of somebody unknown: {_shown(value)}") from exc


def _check_log(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(n, str) and n.strip() for n in names):
        raise ValueError(f"log must be the name of a logger or a list, found {_shown(value)}")
    return tuple(names)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_CHECKS: Mapping[str, Callable[[object], Any]] = {
    "workers": _check_workers,
    "out": _check_out,
    "cache": _check_cache,
    "log": _check_log,
}
