"""The installed providers of policies: found by their packages' metadata, asked by their scheme."""

from dataclasses import dataclass
from importlib import metadata

import msgspec

from envhub.discovery import entry_points, name_and_version
from envhub.errors import EnvHubError, PluginError, UsageError
from envhub.policies.provider import ProvidedPolicy, Wanted
from envhub.run_info import ProvidedInfo

GROUP = "envhub.policy_providers"
"""The entry-point group: name = scheme, value = a function as `policies.provider` says."""
_SERVERS = (
    *("ws", "wss", "openpi+ws", "openpi+wss", "roboarena+ws", "roboarena+wss", "vllm+ws"),
    *("vllm+wss", "vla-eval+ws", "vla-eval+wss", "gr00t+tcp"),
)
PLUGINS = {"lerobot": "envhub-lerobot", **dict.fromkeys(_SERVERS, "envhub-servers")}
"""The providers of EnvHub's own plugins, which need not be installed."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An installed provider. Nothing of it is imported until it is asked."""

    point: metadata.EntryPoint
    distribution: str
    version: str


def is_scheme(name: str) -> bool:
    """Whether a text before a colon is the scheme of a provider, installed or not."""
    return name in PLUGINS or any(point.name == name for point in entry_points(GROUP))


def find_provider(scheme: str) -> Provider:
    """Return the provider of a scheme.

    Raises:
        UsageError: It is a plugin of EnvHub that is not installed.
        PluginError: Two packages claim the scheme.
    """
    claims = {
        name_and_version(point.dist): point
        for point in entry_points(GROUP)
        if point.name == scheme and point.dist is not None
    }
    if not claims:
        raise missing_plugin(f"{scheme}:", PLUGINS[scheme])
    if len(claims) > 1:
        owners = " and ".join(name for name, _ in sorted(claims))
        raise PluginError(scheme, f"is claimed by {owners}: uninstall one of them.")
    (((distribution, version), point),) = claims.items()
    return Provider(point, distribution, version)


def ask_provider(scheme: str, rest: str, wanted: Wanted) -> ProvidedPolicy:
    """Let a provider obtain a policy.

    Args:
        scheme: Of the reference.
        rest: What follows the colon.
        wanted: What else the provider is told.

    Raises:
        EnvHubError: The provider says what is wrong.
        PluginError: The provider fails otherwise.
    """
    provider = find_provider(scheme)
    owner = provider.distribution
    try:
        answer = provider.point.load()(rest, wanted)
    except EnvHubError:
        raise
    except Exception as exc:
        problem = f"could not provide {scheme}:{rest}: {type(exc).__name__}: {exc}"
        raise PluginError(scheme, problem, distribution=owner) from exc
    if not isinstance(answer, ProvidedPolicy):
        problem = f"returned a {type(answer).__name__} for {scheme}:{rest}, not a ProvidedPolicy."
        raise PluginError(scheme, problem, distribution=owner)
    _check(answer, scheme, owner)
    return answer


def missing_plugin(subject: str, distribution: str) -> UsageError:
    """Return the error that a plugin of EnvHub is not installed.

    Args:
        subject: What needs it.
        distribution: The plugin's distribution.
    """
    folder = distribution.removeprefix("envhub-")
    return UsageError(
        f"{subject} needs the plugin {distribution}, which is not installed. In a clone of EnvHub, "
        f"run: pip install ./plugins/{folder}"
    )


def _check(answer: ProvidedPolicy, scheme: str, owner: str) -> None:
    """Refuse an answer that a run could not record, or whose factory is no name."""
    recorded = {
        "scheme": scheme,
        "package": owner,
        "version": "",
        "files": dict(answer.files),
        "details": dict(answer.details),
    }
    try:
        msgspec.json.encode([recorded, dict(answer.args or {})])
        msgspec.convert(recorded, ProvidedInfo)
    except (TypeError, ValueError) as exc:
        problem = f"returned something that cannot be recorded: {exc}."
        raise PluginError(scheme, problem, distribution=owner) from exc
    module, _, name = answer.factory.partition(":")
    if not (module and name.isidentifier()):
        problem = f"names the factory {answer.factory!r}: write package.module:name."
        raise PluginError(scheme, problem, distribution=owner)
