"""Find the installed plugins by their packages' metadata. Nothing of a plugin is imported."""

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envhub.errors import PluginError, UnknownName

if TYPE_CHECKING:
    from importlib import metadata

GROUP = "envhub"
"""The entry-point group of benchmarks: name = benchmark, value = light module with hooks."""
FINDERS = ("__editable__", "_editable_impl_")
"""How modules begin that setuptools or hatchling install to find an editable package."""
PERTURBATIONS = "envhub.perturbations"
"""The group of perturbations: name = what `--perturb` names, value = light module with hooks."""
_OWN_PERTURBATIONS = ("action", "blur", "camera", "instruction", "light", "noise", "occlusion")
"""Those of EnvHub's own plugin, which need not be installed."""
LIMIT_VARIABLE = "ENVHUB_PLUGINS"
"""A comma-separated list of the plugins to use; unset: all that are installed."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin as its package's metadata describes it."""

    name: str
    module: str
    distribution: str
    version: str


def installed() -> tuple[Installed, ...]:
    """Return all plugins, sorted by name, without importing any."""
    names = chosen()
    plugins = {
        Installed(point.name, point.value, *name_and_version(point.dist))
        for point in entry_points(GROUP)
        if point.dist is not None and (names is None or point.name in names)
    }
    return tuple(sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution)))


def chosen() -> tuple[str, ...] | None:
    """Return the plugins that `ENVHUB_PLUGINS` names, or None if it is not set."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return None
    return tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))


def find(name: str) -> Installed:
    """Return the installed plugin of this name.

    Raises:
        UnknownName: No such plugin is installed.
        PluginError: Two packages claim the name, or the name is not valid.
    """
    from envhub.declarations import NAME  # imported here: a list does not need it

    plugins = installed()
    claims = [plugin for plugin in plugins if plugin.name == name]
    if not claims:
        advice = "Write ./NAME for a local benchmark, owner/repo@<commit> for one on the Hub."
        names = {plugin.name for plugin in plugins}
        raise UnknownName("installed benchmark", name, names, advice=advice)
    if len(claims) > 1:
        owners = " and ".join(plugin.distribution for plugin in claims)
        raise PluginError(name, f"is claimed by {owners}: uninstall one of them.")
    if not NAME.fullmatch(name):
        raise PluginError(name, "does not have a valid name for a benchmark.")
    return claims[0]


def installed_perturbations() -> tuple[Installed, ...]:
    """Return the perturbations of all packages, sorted by name, without importing any."""
    found = {
        Installed(point.name, point.value, *name_and_version(point.dist))
        for point in entry_points(PERTURBATIONS)
        if point.dist is not None
    }
    return tuple(sorted(found, key=lambda each: (each.name, each.distribution)))


def find_perturbation(name: str) -> Installed:
    """Return the installed perturbation of this name.

    Raises:
        UnknownName: There is none.
        PluginError: Two packages claim the name.
    """
    every = installed_perturbations()
    claims = [each for each in every if each.name == name]
    if not claims:
        advice = "envhub eval --perturb list shows them."
        if name in _OWN_PERTURBATIONS:
            advice = (
                "It is one of the plugin envhub-perturbations, which is not installed. In a clone "
                "of EnvHub, run: pip install ./plugins/perturbations"
            )
        raise UnknownName("installed perturbation", name, [e.name for e in every], advice=advice)
    if len(claims) > 1:
        owners = " and ".join(each.distribution for each in claims)
        raise PluginError(name, f"is claimed by {owners}: uninstall one of them.")
    return claims[0]


def name_and_version(distribution: "metadata.Distribution") -> tuple[str, str]:
    """Read only the name and the version: parsing all metadata takes a millisecond or two."""
    head, _, _ = (distribution.read_text("METADATA") or "").partition("\n\n")
    fields = dict(re.findall(r"^(Name|Version): *(\S+)$", head, re.MULTILINE))
    about = fields if len(fields) == 2 else distribution.metadata
    return about["Name"], about["Version"]


def entry_points(group: str) -> "metadata.EntryPoints":
    """Return the entry points of a group, of all installed packages."""
    # Imported here: a worker that loads an env file does not need it, and it takes 12 ms.
    from importlib import metadata

    return metadata.entry_points(group=group)
