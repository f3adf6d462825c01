"""The only module that talks to Ray: nodes, actors, and bytes to and from them."""

import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from envhub.errors import UsageError
from envhub_cluster import actor

_CONNECT = 5.0
"""Seconds that the head may take to accept a connection."""
_MISSING = (
    "--cluster needs the package ray, which is not installed. In a clone of EnvHub, run: pip "
    "install './plugins/cluster[ray]'"
)


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node of the cluster that is alive."""

    id: str
    name: str
    cores: int
    gpus: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A node no longer answers."""

    reason: str
    began: bool
    """Whether its actor could be made."""


class RayCluster:
    """A connection to a Ray cluster."""

    def __init__(self, address: str) -> None:
        """Connect.

        Args:
            address: `auto`, for the cluster of this machine; or the head's `HOST:PORT`.

        Raises:
            UsageError: Ray is not installed, or there is no such cluster.
        """
        self._ray = _connect(address)
        self._names: dict[str, str] = {}

    def nodes(self) -> list[RayNode]:
        """Return the nodes that have cores to play on."""
        found = []
        for node in self._ray.nodes():
            resources = node["Resources"]
            cores = int(resources.get("CPU", 0))
            if node["Alive"] and cores >= 1:
                name = self._name(node)
                found.append(RayNode(node["NodeID"], name, cores, resources.get("GPU", 0.0)))
        return found

    def share(self, content: bytes) -> Any:
        """Return a reference to bytes that several nodes are to read."""
        return self._ray.put(content)

    def start(self, node: RayNode, begin: Any, cores: int) -> Any:
        """Start an actor on a node, which takes so many of its cores and all of its GPUs."""
        options = self._options(node, cores)
        return self._ray.remote(actor.NodeActor).options(**options).remote(begin, node.cores)

    def ask(self, started: Any, message: bytes) -> Any:
        """Send a message to an actor; returns what `answers` takes."""
        return started.exchange.remote(message)

    def probe(self, node: RayNode) -> Any:
        """Ask a node what it has; returns what `answers` takes."""
        options = {"scheduling_strategy": self._place(node), "max_retries": 0, "num_cpus": 0}
        return self._ray.remote(actor.probe).options(**options).remote()

    def answers(self, asked: Sequence[Any], wait: float) -> Iterator[tuple[Any, object]]:
        """Wait for one of the answers at least; yields each that has come, or `Lost`."""
        ready, rest = self._ray.wait(list(asked), num_returns=1, timeout=wait)
        if ready and rest:
            more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0)
            ready += more
        for each in ready:
            try:
                yield each, self._ray.get(each)
            except self._ray.exceptions.RayError as exc:
                yield each, _lost(exc)

    def end(self, started: Any) -> None:
        """End an actor."""
        self._ray.kill(started)

    def _options(self, node: RayNode, cores: int) -> dict[str, Any]:
        return {
            "scheduling_strategy": self._place(node),
            "num_cpus": cores,
            "num_gpus": node.gpus,
            "max_restarts": 0,
            "max_task_retries": 0,
        }

    def _place(self, node: RayNode) -> Any:
        strategies = self._ray.util.scheduling_strategies
        return strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)

    def _name(self, node: dict[str, Any]) -> str:
        """Return a node's own name, or its host's; with its id where that is taken."""
        key = node["NodeID"]
        if key not in self._names:
            given = node.get("NodeName") or ""
            host = given if given != node["NodeManagerAddress"] else node["NodeManagerHostname"]
            taken = (host or key)[:200] in self._names.values()
            self._names[key] = f"{host[:200]}-{key[:6]}" if taken else (host or key)[:200]
        return self._names[key]


def _connect(address: str) -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as exc:
        raise UsageError(_MISSING) from exc
    if ray.is_initialized():
        return ray
    if address != "auto":
        _check_address(address)
    try:
        with _own_signals():
            ray.init(
                address=address,
                configure_logging=False,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False,
            )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as exc:
        reason = _last_line(exc)
        if isinstance(exc, ConnectionError) and address == "auto":
            reason = "no Ray runs on this machine"
        raise UsageError(
            f"--cluster {address}: {reason.rstrip('.')}. Run this command on a machine of the "
            "cluster; `ray start --head` begins one, and `ray start --address HOST:PORT` joins it."
        ) from exc
    return ray


def _check_address(address: str) -> None:
    """Refuse what is no address, and where nobody listens: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"--cluster takes auto or HOST:PORT, found {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except (OSError, OverflowError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        raise UsageError(
            f"--cluster {address}: no cluster answers there ({reason}). `ray start --head` on that "
            "machine begins one, and says its address."
        ) from exc


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this program's handlers: Ray sets one of its own, which exits at once."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lost(exc: Exception) -> Lost:
    text = str(exc)
    began = "creation task" not in text and "ModuleNotFoundError" not in text
    if "No module named 'envhub" in text:
        return Lost("it has no envhub-cluster: install EnvHub and plugins/cluster there", began)
    return Lost(_last_line(exc), began)


def _last_line(exc: Exception) -> str:
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return (lines[-1] if lines else type(exc).__name__)[:300]
