"""Puts the templates into the wheel; an editable installation finds those of its checkout."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TemplatesHook(BuildHookInterface[Any]):
    """Adds `templates/` to `envhub/`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Choose the files of the wheel."""
        if version == "standard":
            build_data["force_include"]["templates"] = "envhub/templates"
