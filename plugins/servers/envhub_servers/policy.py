"""A policy server as a policy: made in the policy's process, which talks to the server."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envhub.conventions import Conventions, check_conventions, read_conventions
from envhub.declarations import Benchmark
from envhub.errors import ContractError
from envhub.wire.policy_contract import Context
from envhub.wire.spaces import leaves
from envhub.wire.values import Array
from envhub_servers.address import Address, read_address
from envhub_servers.dialects import Answer, OpenPi, RoboArena, VlaEval, Vllm
from envhub_servers.gr00t import Gr00t, ZeroMq
from envhub_servers.keys import (
    INSTRUCTION,
    PRESETS,
    Request,
    name_leaves,
    read_keys,
    read_targets,
)
from envhub_servers.links import Link, ServerFailed, WebSocket, quote, reach
from envhub_servers.timings import Timings

CONTEXT = "envhub"
"""The key of a request, and of a server's metadata, under which EnvHub's own ends speak."""
_SAID = 20_000
"""Characters of a server's metadata that a run records."""
_CONNECT = 60.0
"""Seconds until a server has to say what it is, and that a run waits for one to come back."""
DIALECTS: Mapping[str, type[OpenPi]] = {
    kind.name: kind for kind in (OpenPi, RoboArena, Vllm, VlaEval, Gr00t)
}
"""How servers are spoken to, by name."""

Episode = tuple[str, str, int]


def make_policy(
    benchmark: Benchmark,
    observation_space: Any,
    action_space: Any,
    *,
    dialect: str,
    transport: str,
    place: str,
    said_before: str | None = None,
    keys: str | None = None,
    actions: str = "actions",
    n_action_steps: int | None = None,
    size: int | None = None,
    conventions: Any = None,
    connect: float = _CONNECT,
) -> "ServedPolicy":
    """Connect to a server, and compare what it reads with what the benchmark has.

    Args:
        benchmark: The benchmark.
        observation_space: Of one env.
        action_space: Of one env.
        dialect: How the server is spoken to.
        transport: How it is reached.
        place: Where it is.
        said_before: What the server said of itself when the run began, if it is continued.
        keys: A preset, or `ours=theirs,...`.
        actions: The key of the answer that holds the actions.
        n_action_steps: Actions per look; None: those of the preset, or all that the server sends.
        size: Width and height of pictures; None: those of the preset, or as they are.
        conventions: What the server's policy was trained with.
        connect: Seconds until the server has to be there.

    Raises:
        ContractError: The server is not there, is another one, or does not fit.
    """
    address = read_address(transport, place, 0)
    spoken = DIALECTS[dialect](address.url, actions)
    servers = Servers(address, spoken, connect)
    said = servers.first()
    try:
        _check_same(address, said, said_before)
        found = said.get(CONTEXT)
        own: dict[str, Any] = found if isinstance(found, dict) else {}
        given = {**_conventions_of(own, address), **read_conventions(conventions or {})}
        preset = PRESETS.get(keys or "")
        if preset is not None and preset.images is not None:
            given.setdefault("images", preset.images)
        steps = n_action_steps or (preset.steps if preset else None)
        converted = own.get("format") == "converted" and benchmark.lerobot is not None
        ours = benchmark.conventions_for("converted" if converted else "raw")
        turned = {given.get("images"), ours.get("images")} == {"upright", "upside_down"}
        text = _keys_text(keys, preset.keys if preset else None, own, observation_space, benchmark)
        sized = (size, size) if size else preset.size if preset else None
        entries = read_keys(text) if converted else name_leaves(read_keys(text), observation_space)
        request = Request(entries, sized, turned=turned)
        if not converted:  # else the space is known once envs convert
            request.check(observation_space, benchmark.name)
        # The pictures are turned here, so on the benchmark's side both agree.
        agreed = {**given, "images": ours["images"]} if turned else given
        return ServedPolicy(
            servers,
            request,
            action_space.shape or (),
            benchmark.name,
            said=said,
            own=own,
            steps=steps,
            conventions=check_conventions("--policy-arg", agreed),
            sent={"keys": text, "turned": turned, "size": sized},
            converted=converted,
        )
    except BaseException:
        servers.close()
        raise


class Servers:
    """Connections to one server: one for each episode under way, and those that are free."""

    def __init__(self, address: Address, dialect: OpenPi, seconds: float) -> None:
        self.address = address
        self.dialect = dialect
        self._seconds = seconds
        self._free: list[Link] = []
        self._used: dict[Episode, tuple[Link, str]] = {}
        self._said: dict[str, Any] = {}

    def first(self) -> dict[str, Any]:
        """Connect for the first time; returns what the server says of itself."""
        link = self._link()
        self._said = self.dialect.greet(link, self._seconds)
        self._free.append(link)
        return self._said

    def shared(self) -> Link:
        """Return the one connection of a dialect whose requests hold all rows."""
        if not (self._free and self._free[0].open):
            self._free = [reach(self._connect, self._seconds)]
        return self._free[0]

    def ping(self) -> float | None:
        """Return the milliseconds of a round trip; None: the transport has none."""
        return self._free[0].ping(self._seconds)

    def begin(self, episode: Episode) -> None:
        """Give an episode a connection, waiting for a server that is being started again."""
        self.drop(episode)
        if self.dialect.batched:
            self._begin_together(episode)
            return
        link = next((free for free in self._free if free.open), None)
        self._free = [free for free in self._free if free.open and free is not link]
        if link is None:
            link = reach(self._connect, self._seconds)
        session = uuid.uuid4().hex
        self._used[episode] = link, session
        self.dialect.begin(link, session, self._seconds)

    def of(self, episode: Episode) -> tuple[Link, str]:
        """Return the connection and the session of an episode."""
        link, session = self._used[episode]
        if self.dialect.outlives and not link.open:  # it was idle for too long, say
            link = reach(self._connect, self._seconds)
            self._used[episode] = link, session
        return link, session

    def end(self, episode: Episode) -> None:
        """Take back the connection of an episode that has ended."""
        if episode not in self._used:
            return
        link, _ = self._used.pop(episode)
        if self.dialect.batched:
            return
        if link.open:
            self.dialect.end(link)
        if self.dialect.stateless and link.open:
            self._free.append(link)
        else:
            link.close()

    def drop(self, episode: Episode) -> None:
        """Close the connection of an episode, whose next message could be anything."""
        if episode in self._used:
            self._used.pop(episode)[0].close()

    def close(self) -> None:
        """Close all connections."""
        links = {id(link): link for link in self._free}
        links |= {id(link): link for link, _ in self._used.values()}
        self._free, self._used = [], {}
        for link in links.values():
            link.close()

    def _begin_together(self, episode: Episode) -> None:
        """Begin an episode on the connection that all share; a reset is for all, too."""
        link = self.shared()
        if not self._used:
            self.dialect.begin(link, "", self._seconds)
        self._used[episode] = link, ""

    def _link(self) -> Link:
        kind = ZeroMq if self.address.transport == "tcp" else WebSocket
        return kind(self.address, self._seconds)

    def _connect(self) -> Link:
        link = self._link()
        said = self.dialect.greet(link, self._seconds)
        if said_text(said) != said_text(self._said):
            link.close()
            raise ContractError(
                f"{self.address.url} says something else of itself than when the run began: "
                f"{_difference(said, self._said)}. Serve the same policy, or begin another run."
            )
        return link


class ServedPolicy:
    """Acts with the answers of a server."""

    batch = "any"
    """What is sent for a row does not depend on other rows; how many the server computes at once is
    the server's to say."""

    def __init__(
        self,
        servers: Servers,
        request: Request,
        shape: tuple[int, ...],
        name: str,
        *,
        said: Mapping[str, Any],
        own: Mapping[str, Any],
        steps: int | None,
        conventions: Conventions,
        sent: Mapping[str, Any],
        converted: bool,
    ) -> None:
        """Take a server whose keys were compared.

        Args:
            servers: The connections.
            request: Makes requests.
            shape: Of an action.
            name: Of the benchmark.
            said: What the server says of itself.
            own: What an EnvHub server says besides.
            steps: Actions per look; None: all.
            conventions: What the policy was trained with.
            sent: What else a run is to record of the requests.
            converted: Whether it reads what the benchmark itself makes for LeRobot's policies.
        """
        self.format = "converted" if converted else "raw"
        self.needs = None if converted else request.needs
        self.conventions = conventions
        self.instructions = _texts(own.get("instructions"))
        self._contexts = own.get("contexts") is True
        self.reproducible = self._contexts
        self.about = {
            "dialect": servers.dialect.name,
            "metadata": said_text(said),
            "sent": json.dumps(sent),
            "n_action_steps": "all" if steps is None else str(steps),
        }
        self.remarks = _remarks(servers.address, sent, steps, contexts=self._contexts)
        self._servers = servers
        self._request = request
        self._shape = shape
        self._name = name
        self._steps = steps
        self._timings = Timings()

    def check_space(self, space: Any) -> None:
        """Compare the keys with what the benchmark makes of its observations."""
        self._request.check(space, self._name)

    def start(self, episode: Context) -> None:
        """Give the episode a connection."""
        self._servers.begin(_key(episode))

    def act(self, obs: Any, episodes: Sequence[Context]) -> list[Array]:
        """Ask for all rows at once, then wait for all answers."""
        keys = [_key(episode) for episode in episodes]
        requests = [self._requested(obs, row, episode) for row, episode in enumerate(episodes)]
        try:
            return [self._actions(answer) for answer in self._answers(keys, requests)]
        except BaseException:
            # Answers may still come: nobody may take them for others.
            for key in keys:
                self._servers.drop(key)
            raise

    def finish(self, episode: Context) -> None:
        """Take back the episode's connection."""
        self._servers.end(_key(episode))

    def close(self) -> None:
        """Close all connections."""
        self._servers.close()

    def take_about(self) -> dict[str, str]:
        """Return what the server says of the time that it took, so far."""
        return self._timings.take()

    def _requested(self, obs: Any, row: int, episode: Context) -> dict[str, Any]:
        request = self._request.of(_reader(obs, row), episode.description)
        return {**request, CONTEXT: _context(episode)} if self._contexts else request

    def _answers(self, keys: Sequence[Episode], requests: Sequence[dict[str, Any]]) -> list[Answer]:
        dialect = self._servers.dialect
        if isinstance(dialect, Gr00t):
            link = self._servers.shared()
            dialect.ask_together(link, requests)
            return dialect.answers(link, len(keys))
        links = []
        for key, request in zip(keys, requests, strict=True):
            link, session = self._servers.of(key)
            dialect.ask(link, request, session)
            links.append(link)
        return [dialect.answer(link) for link in links]

    def _actions(self, answer: Answer) -> Array:
        url = self._servers.address.url
        self._timings.add(answer.timings)
        actions = _array(answer.actions, url)
        expected = f"(actions, {', '.join(map(str, self._shape))})"
        if actions.ndim == len(self._shape):
            actions = actions[None]
        if actions.shape[1:] != self._shape or not len(actions):
            raise ServerFailed(
                f"{url} sent actions of shape {np.shape(answer.actions)}; {self._name} takes "
                f"{expected}."
            )
        if self._steps is not None and len(actions) < self._steps:
            raise ServerFailed(
                f"{url} sent {len(actions)} actions, fewer than n_action_steps={self._steps}."
            )
        if not np.isfinite(actions).all():
            raise ServerFailed(f"{url} sent an action that is not finite.")
        return actions[: self._steps]


def said_text(said: Mapping[str, Any]) -> str:
    """Return a server's metadata as a run records them."""
    text = json.dumps(said, default=_describe, sort_keys=True)
    return text if len(text) <= _SAID else f"{text[:_SAID]}..."


def _describe(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size <= 1000:
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else f"({type(value).__name__})"


def _check_same(address: Address, said: Mapping[str, Any], before: str | None) -> None:
    if before is not None and said_text(said) != before:
        raise ContractError(
            f"{address.url} says something else of itself than when the run began: now "
            f"{quote(said_text(said))}, then {quote(before)}. Serve the same policy, or begin "
            "another run."
        )


def _difference(said: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    keys = [k for k in {**said, **before} if said.get(k) is not before.get(k)]
    differ = [k for k in keys if said_text({k: said.get(k)}) != said_text({k: before.get(k)})]
    return quote(", ".join(differ))


def _conventions_of(own: Mapping[str, Any], address: Address) -> dict[str, Any]:
    return dict(check_conventions(address.url, own.get("conventions", {})))


def _keys_text(
    keys: str | None,
    preset: str | None,
    own: Mapping[str, Any],
    space: Any,
    benchmark: Benchmark,
) -> str:
    """Return the keys: the preset's, the user's, or those that an EnvHub server asks for."""
    if keys is not None:
        return preset or keys
    if isinstance(own.get("keys"), str) and len(own["keys"]) <= _SAID:
        return str(own["keys"])
    ours = ", ".join(leaf.path for leaf in leaves(space))
    raise ContractError(
        f"The server does not say what it reads: write --policy-arg keys=ours=theirs,ours=theirs, "
        f"or one of {', '.join(f'keys={name}' for name in PRESETS)}. {benchmark.name} has {ours}, "
        f"{INSTRUCTION}; openpi's server for LIBERO, say, reads "
        f"{', '.join(read_targets(PRESETS['libero'].keys))}."
    )


def _remarks(
    address: Address, sent: Mapping[str, Any], steps: int | None, *, contexts: bool
) -> tuple[str, ...]:
    remarks = []
    if not contexts:
        remarks.append(
            f"{address.url} draws its own random numbers, whatever --seed is: this run is not "
            "reproducible."
        )
    if sent["turned"]:
        remarks.append("Pictures are turned by 180 degrees for the server.")
    return tuple(remarks)


def _texts(told: Any) -> dict[str, str]:
    return told if isinstance(told, dict) and all(isinstance(v, str) for v in told.values()) else {}


def _key(episode: Context) -> Episode:
    return episode.suite, episode.task, episode.index


def _context(episode: Context) -> dict[str, Any]:
    return {
        "suite": episode.suite,
        "task": episode.task,
        "index": episode.index,
        "seed": episode.seed,
        "step": episode.step,
    }


def _reader(obs: Any, row: int) -> Callable[[str], Any]:
    """Return a function that returns a leaf of a row of a batch."""

    def leaf(path: str) -> Any:
        value = obs
        for part in path.split("/") if path else ():
            value = value[int(part)] if isinstance(value, tuple) else value[part]
        return value[row]

    return leaf


def _array(actions: Any, url: str) -> Array:
    try:
        array = np.asarray(actions)
    except ValueError as exc:
        raise ServerFailed(f"{url} sent actions that are no array: {exc}.") from exc
    if array.dtype.kind not in "biuf":
        raise ServerFailed(f"{url} sent actions of dtype {array.dtype}.")
    return array
