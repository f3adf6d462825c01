"""What a policy's own process does with each request."""

import os
from collections.abc import Callable
from typing import Any

from envhub.errors import ContractError
from envhub.policies.caller import PolicyCaller
from envhub.policies.contract import Context
from envhub.policies.load import ObservationView, context_of, make_caller
from envhub.wire.frames import Channel
from envhub.wire.memory import Buffers
from envhub.wire.messages import (
    Act,
    Acted,
    BatchRow,
    Done,
    LoadPolicy,
    MapSlot,
    PolicyLoaded,
    Reply,
    Request,
)
from envhub.wire.spaces import Spaces, decode_spaces
from envhub.wire.values import portable
from envhub.worker.replies import answer_with, failure


class PolicySession:
    """Policies, one for each pair of spaces, and the memory of the envs that they see."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._runners: list[PolicyCaller] = []
        self._spaces: list[Spaces] = []
        self._sights: list[ObservationView] = []
        self._slots: dict[int, Buffers] = {}
        self._contexts: dict[int, tuple[Context, PolicyCaller]] = {}
        self._handlers: dict[type[Request], Callable[[Any], Reply]] = {
            LoadPolicy: self._load,
            MapSlot: self._map,
            Act: self._act,
        }

    def answer(self, request: Request) -> bytes:
        """Do what is asked; whatever the policy raises becomes an answer too."""
        return answer_with(self._handlers, request, where=lambda: "policy")

    def quick_step(self, number: int) -> bytes:
        """Only envs are stepped."""
        return failure(number, ContractError("A policy takes no steps."), "policy")

    def close(self) -> None:
        """Finish what is under way, and close the policies."""
        self._finish(tuple(self._contexts))
        for runner in self._runners:
            runner.close()

    def _load(self, request: LoadPolicy) -> PolicyLoaded:
        spaces = decode_spaces(request.observation_space, request.action_space)
        runner = make_caller(request.policy, request.benchmark, spaces, request.source)
        self._runners.append(runner)
        self._spaces.append(spaces)
        self._sights.append(ObservationView(spaces[0], runner.facts.needs))
        return PolicyLoaded(request.id, runner.facts, len(self._runners) - 1)

    def _map(self, request: MapSlot) -> Done:
        fd = self._channel.take_fd()
        try:
            self._slots[request.slot] = Buffers(fd, 1, *self._spaces[request.policy])
        finally:
            os.close(fd)
        return Done(request.id)

    def _act(self, request: Act) -> Acted:
        runner = self._runners[request.policy]
        self._finish(request.finish)
        for told in request.begin:
            context = context_of(told)
            self._contexts[told.number] = context, runner
            runner.start(context)
        episodes = [self._context(seen) for seen in request.rows]
        observation = self._sights[request.policy].batch(request.rows, self._value)
        actions = runner.act(observation, episodes)
        return Acted(request.id, portable(actions))

    def _finish(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            if number in self._contexts:
                context, runner = self._contexts.pop(number)
                runner.finish(context)

    def _value(self, seen: BatchRow, path: str) -> Any:
        if path in seen.texts:
            return seen.texts[path]
        return self._slots[seen.slot].observations[path][0]

    def _context(self, seen: BatchRow) -> Context:
        if seen.number not in self._contexts:
            raise ContractError(f"Episode {seen.number} was never begun here.")
        context, _ = self._contexts[seen.number]
        context.step = seen.step
        return context
