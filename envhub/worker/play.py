"""TODO worker.play."""

from typing import Any

from envhub.policies.caller import PolicyCaller
from envhub.policies.contract import Context
from envhub.policies.load import ObservationView
from envhub.wire.spaces import AnySpace
from envhub.worker.leaves import readers


class Player:
    """A policy beside its env: it acts for one episode at a time."""

    def __init__(self, runner: PolicyCaller, space: AnySpace) -> None:
        self.facts = runner.facts
        self._runner = runner
        self._sight = ObservationView(space, self.facts.needs)
        found = {reader.leaf.path: reader for reader in readers(space)}
        self._readers = [(path, found[path]) for path in self._sight.paths]
        self._seen: dict[str, Any] = {}
        self._context: Context | None = None
        self._chunk: list[Any] = []

    @property
    def hungry(self) -> bool:
        """Whether the next action needs an observation."""
        return not self._chunk

    def start(self, context: Context) -> None:
        """Begin an episode, and end the one before."""
        if self._context is not None:
            self._runner.finish(self._context)
        self._context, self._chunk = context, []
        self._runner.start(context)

    def look(self, observation: Any) -> None:
        """Take in what the policy reads of an observation, as another process would see it."""
        self._seen = {path: reader.row(observation) for path, reader in self._readers}

    def act(self) -> Any:
        """The next action."""
        assert self._context is not None
        if not self._chunk:
            observation = self._sight.of(self._seen)
            self._chunk = [*self._runner.act(observation, [self._context])[0]]
            self._chunk.reverse()
        self._context.step += 1
        return self._chunk.pop()

    def close(self) -> None:
        """End the episode under way, and the policy."""
        if self._context is not None:
            self._runner.finish(self._context)
        self._runner.close()
