"""What `envhub doctor --policy URL` sees: a server's handshake, and how long it takes.

The client runs in a policy's process here too, so that the host receives nothing of the server's.
"""

import time
from typing import Any

from envhub.declarations import Benchmark, Task
from envhub.errors import EnvHubError
from envhub.host.remote import RemotePolicy
from envhub.host.waiting import close_workers
from envhub.options import Limits
from envhub.policies.find import read_policy
from envhub.policies.kinds import Provided
from envhub.policies.provider import Wanted
from envhub.types import PolicySource, PolicySpec
from envhub.wire.messages import PolicyLoaded
from envhub.wire.policy_contract import Context
from envhub_servers.address import read_address
from envhub_servers.policy import DIALECTS, Servers, said_text

_SECONDS = 10.0


class Probe:
    """A policy that has only connected."""

    def __init__(self, about: dict[str, str]) -> None:
        self.about = about

    def act(self, obs: Any, episodes: list[Context]) -> Any:
        """Never called."""
        raise NotImplementedError


def make_probe(
    benchmark: Benchmark, observation_space: Any, action_space: Any, **args: Any
) -> Probe:
    """Connect twice: the second time shows what a connection costs, with the handshake."""
    address = read_address(args["transport"], args["place"], 0)
    dialect = DIALECTS[args["dialect"]](address.url)
    times = []
    said: dict[str, Any] = {}
    for _ in range(2):
        servers = Servers(address, dialect, float(args.get("connect", _SECONDS)))
        began = time.monotonic()
        try:
            said = servers.first()
            times.append(1000 * (time.monotonic() - began))
            began = time.monotonic()
            trip = servers.ping()
        finally:
            servers.close()
    shown = {"connect and handshake": f"{times[-1]:.1f} ms"}
    if trip is not None:
        shown["round trip"] = f"{trip:.2f} ms"
    return Probe({"dialect": dialect.name, **shown, "metadata": said_text(said)})


def probe_server(policy: str) -> dict[str, str]:
    """Connect to a policy server, and return what it says of itself.

    Args:
        policy: As for `--policy`, with the scheme of a server.

    Raises:
        EnvHubError: It is no server's, or the server is not there or of another kind.
    """
    from gymnasium import spaces

    obtained = read_policy(policy).obtain(Wanted())
    assert isinstance(obtained, Provided)
    assert obtained.answer is not None
    args = obtained.answer.factory_args
    limits = Limits(start=3 * _SECONDS)
    remote = RemotePolicy(PolicySpec(limits), name="its own process")
    try:
        empty = spaces.Box(0, 1, (1,))
        source = PolicySource(__name__, "make_probe", dict(args))
        task = Task("probe", "none", 1)
        remote.load(source, Benchmark("probe", ":make", {"probe": (task,)}), (empty, empty), 1)
        outcome = remote.worker.wait()
        if isinstance(outcome, EnvHubError):
            raise outcome
        assert isinstance(outcome, PolicyLoaded)
        return dict(outcome.facts.about)
    finally:
        close_workers([remote.worker], limit=limits.close)
