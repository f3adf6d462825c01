"""`envhub.load_lerobot_policy`, which is the plugin's; without the plugin, calling it says so."""

from importlib import import_module, util
from typing import Any

from envhub.policies.providers import PLUGINS, missing_plugin


def _refuse(*_: object, **__: object) -> Any:
    """Load a checkpoint of LeRobot, which needs the plugin.

    Raises:
        UsageError: The plugin is not installed.
    """
    raise missing_plugin("load_lerobot_policy", PLUGINS["lerobot"])


_installed = util.find_spec("envhub_lerobot") is not None
load_lerobot_policy = (
    import_module("envhub_lerobot.program").load_lerobot_policy if _installed else _refuse
)
