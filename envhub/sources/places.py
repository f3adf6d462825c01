"""Where EnvHub keeps things."""

import os
from pathlib import Path


def cache_home() -> Path:
    """What can be fetched or built again: `$ENVHUB_HOME`, else the user's cache directory."""
    chosen = os.environ.get("ENVHUB_HOME")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "envhub"


def config_home() -> Path:
    """What the user has decided: `$ENVHUB_HOME`, else the user's configuration directory."""
    chosen = os.environ.get("ENVHUB_HOME")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "envhub"
