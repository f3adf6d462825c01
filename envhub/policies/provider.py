"""What a provider of policies is told, and what it answers.

A provider is an installed package that gives a meaning to `--policy SCHEME:REST`. Its entry point
in the group `envhub.policy_providers` has the scheme's name, and leads to a function that takes
REST and a `Wanted` and returns a `ProvidedPolicy`. EnvHub calls it once per run, in the host,
before any episode is planned: what needs the network happens there. The factory that it names is
loaded where the policy acts. On an interpreter that the user names (`--policy-python`), EnvHub puts
the provider's package on the path as it does its own, without the packages that it depends on.

This module imports little, so that a provider of one file can import it in both places.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envhub.options import Argument, Say
from envhub.run_info import ProvidedInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a provider is told besides the reference."""

    args: Mapping[str, Argument] = field(default_factory=dict)
    """The user's `--policy-arg`."""
    directory: Path = field(default_factory=Path.cwd)
    """Where relative paths begin."""
    private: bool = False
    """Whether the user lets their token be sent."""
    begun: ProvidedInfo | None = None
    """What the run recorded of the policy when it began, if it is continued: what was pinned then
    stays."""
    begun_about: Mapping[str, str] = field(default_factory=dict)
    """What the policy said of itself (`about`) when the run began, if it is continued."""
    message: Say = lambda _: None
    """Receives sentences that the user should know."""
    progress: Say = lambda _: None
    """Receives a line before something slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedPolicy:
    """What a provider answers."""

    place: str
    """The REST that means exactly this policy, from any directory: an absolute path, a commit."""
    factory: str
    """`package.module:name` of the function that makes the policy, where it acts."""
    factory_args: Mapping[str, Argument] = field(default_factory=dict)
    """Given to the factory after the benchmark and the two spaces."""
    args: Mapping[str, Argument] | None = None
    """The user's arguments as the run records them, with what was pinned; None: as given."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Hashes by name, `sha256:...`. A run is only continued if all of them are the same."""
    details: Mapping[str, Argument] = field(default_factory=dict)
    """What the run records besides."""
    requires: tuple[str, ...] = ()
    """What the policy's interpreter must have, such as `torch>=2.2`."""
