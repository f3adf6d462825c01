"""Collect the user's settings of indexes, proxies and certificates as variables for uv.

uv's own settings, in variables or in its configuration, come first. If they name no index, those of
pip are used (`index-url`, `extra-index-url`): in its configuration files and, with priority, its
variables; its certificates (`cert`) likewise. Nothing else is passed on: no tokens of other tools,
and nothing that would make uv build or install something else.
"""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from configparser import Error, RawConfigParser
from pathlib import Path

from envhub.offline import is_offline

_SYSTEM = Path("/etc")
_KEPT = frozenset({
    "DBUS_SESSION_BUS_ADDRESS", "HOME", "LANG", "LD_LIBRARY_PATH", "NETRC", "PATH", "TMPDIR",
    "SSL_CERT_DIR", "SSL_CERT_FILE", "SSL_CLIENT_CERT", "UV_ALLOW_INSECURE_HOST", "UV_CACHE_DIR",
    "UV_CONFIG_FILE", "UV_CREDENTIALS_DIR", "UV_DEFAULT_INDEX", "UV_EXCLUDE_NEWER",
    "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS", "UV_NO_CACHE", "UV_NO_CONFIG", "UV_NO_INDEX", "UV_OFFLINE", "UV_PRERELEASE",
    "UV_REQUEST_TIMEOUT", "UV_SYSTEM_CERTS", "UV_TORCH_BACKEND", "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
})  # fmt: skip

# UV_INDEX_* are also the names and passwords of indexes.
_KEPT_PREFIXES = ("LC_", "UV_CONCURRENT_", "UV_HTTP_", "UV_INDEX")
_PROXIES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_INDEX_VARIABLES = (
    "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_URL",
    "UV_NO_INDEX",
)  # fmt: skip

_INDEX_KEYS = frozenset({"extra-index-url", "find-links", "index", "index-url", "no-index"})
"""The keys in uv's configuration that name an index."""
# uv runs in a directory of ours, so relative paths must become absolute.
_PATHS = (
    "NETRC", "SSL_CERT_DIR", "SSL_CERT_FILE", "SSL_CLIENT_CERT", "UV_CACHE_DIR", "UV_CONFIG_FILE",
    "UV_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL",
)  # fmt: skip


def uv_variables(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of uv.

    Args:
        given: The variables to choose from; None: those of this process.
    """
    source = os.environ if given is None else given
    chosen = {
        name: value
        for name, value in source.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES) or name.upper() in _PROXIES
    }
    pip = _pip_settings(source)
    if not _has_indexes(chosen):
        chosen = _indexes(pip) | chosen
    if pip.get("cert"):
        chosen.setdefault("SSL_CERT_FILE", pip["cert"])
    for name in _PATHS:
        if name in chosen:
            chosen[name] = _absolute(chosen[name], "," if name == "UV_FIND_LINKS" else " ")
    return chosen | {
        **({"UV_OFFLINE": "1"} if is_offline() else {}),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
    }


def _has_indexes(variables: Mapping[str, str]) -> bool:
    """Whether uv's own settings name an index."""
    if any(variables.get(name) for name in _INDEX_VARIABLES):
        return True
    for path in _uv_files(variables):
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # uv itself reports the problem
        if _INDEX_KEYS & (content.keys() | content.get("pip", {}).keys()):
            return True
    return False


def _uv_files(variables: Mapping[str, str]) -> Iterator[Path]:
    if variables.get("UV_CONFIG_FILE"):
        yield Path(variables["UV_CONFIG_FILE"])
    if variables.get("UV_NO_CONFIG"):
        return
    yield _config_home(variables) / "uv/uv.toml"
    yield from (directory / "uv/uv.toml" for directory in _config_dirs(variables))
    yield _SYSTEM / "uv/uv.toml"


def _pip_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that pip would use, by the names of its long options."""
    settings: dict[str, str] = {}
    for path in _pip_files(variables):
        parser = RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (Error, OSError, UnicodeDecodeError):
            continue  # pip cannot read the file either
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    prefix = "PIP_"
    for name, value in variables.items():
        if name.startswith(prefix) and value:
            settings[name.removeprefix(prefix).lower().replace("_", "-")] = value
    return settings


def _pip_files(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield pip's configuration files in its own order: later files override earlier ones."""
    own = variables.get("PIP_CONFIG_FILE")
    if own == os.devnull:
        return
    yield from (directory / "pip/pip.conf" for directory in _config_dirs(variables))
    yield _SYSTEM / "pip.conf"
    yield _home(variables) / ".pip/pip.conf"
    yield _config_home(variables) / "pip/pip.conf"
    yield Path(sys.prefix, "pip.conf")
    if own:
        yield Path(own)


def _indexes(pip: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    if pip.get("index-url"):
        variables["UV_DEFAULT_INDEX"] = pip["index-url"]
    if pip.get("extra-index-url"):
        variables["UV_INDEX"] = " ".join(pip["extra-index-url"].split())
        # pip takes the best version of all indexes; uv would take that of the first index.
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return variables


def _absolute(value: str, separator: str) -> str:
    """Make the parts absolute that are existing paths; leave URLs as they are."""
    parts = value.split(separator)
    paths = {p for p in parts if p and os.path.exists(p)}  # noqa: PTH110 - Path's raises for some
    return separator.join(str(Path(p).absolute()) if p in paths else p for p in parts)


def _home(variables: Mapping[str, str]) -> Path:
    return Path(variables["HOME"]) if variables.get("HOME") else Path.home()


def _config_dirs(variables: Mapping[str, str]) -> list[Path]:
    paths = variables.get("XDG_CONFIG_DIRS")
    return [Path(path) for path in paths.split(":")] if paths else [_SYSTEM / "xdg"]


def _config_home(variables: Mapping[str, str]) -> Path:
    path = variables.get("XDG_CONFIG_HOME")
    return Path(path) if path else _home(variables) / ".config"
