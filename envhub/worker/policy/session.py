"""Answering the host's requests in a policy's own process."""

import os
import time
from collections.abc import Callable
from typing import Any

from envhub.errors import ContractError
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
from envhub.wire.policy_contract import Context
from envhub.wire.spaces import Spaces, decode_space, decode_spaces
from envhub.wire.values import portable
from envhub.worker.policy.caller import PolicyCaller
from envhub.worker.policy.load import ObservationView, context_of, make_caller
from envhub.worker.replies import answer_with, failure


class PolicySession:
    """The state of a policy process: a policy per pair of spaces, and the memory of the envs."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._callers: list[PolicyCaller] = []
        self._spaces: list[Spaces] = []
        self._views: list[ObservationView] = []
        self._slots: dict[int, Buffers] = {}
        self._contexts: dict[int, tuple[Context, PolicyCaller]] = {}
        self._handlers: dict[type[Request], Callable[[Any], Reply]] = {
            LoadPolicy: self._load,
            MapSlot: self._map,
            Act: self._act,
        }

    def answer(self, request: Request) -> bytes:
        """Answer a request; an exception of the policy becomes an answer too."""
        return answer_with(self._handlers, request, where=lambda: "policy")

    def quick_step(self, number: int) -> bytes:
        """Refuse: a policy process has no env to step."""
        return failure(number, ContractError("A policy takes no steps."), "policy")

    def close(self) -> None:
        """Finish the episodes that are under way, and close the policies."""
        self._finish(tuple(self._contexts))
        for caller in self._callers:
            caller.close()

    def _load(self, request: LoadPolicy) -> PolicyLoaded:
        spaces = decode_spaces(request.observation_space, request.action_space)
        caller = make_caller(request.policy, request.benchmark, spaces, request.batch)
        self._callers.append(caller)
        self._spaces.append(spaces)
        self._views.append(ObservationView(spaces[0], caller.facts.needs))
        return PolicyLoaded(request.id, caller.facts, len(self._callers) - 1)

    def _map(self, request: MapSlot) -> Done:
        fd = self._channel.take_fd()
        try:
            observation, action = self._spaces[request.policy]
            if request.observation_space is not None:  # converted: the policy is shown all of it
                observation = decode_space(request.observation_space)
                self._callers[request.policy].check_space(observation)
                self._views[request.policy] = ObservationView(observation, None)
            self._slots[request.slot] = Buffers(fd, 1, observation, action)
        finally:
            os.close(fd)
        return Done(request.id)

    def _act(self, request: Act) -> Acted:
        caller = self._callers[request.policy]
        self._finish(request.finish)
        for episode in request.begin:
            context = context_of(episode, caller.facts.instructions)
            self._contexts[episode.number] = context, caller
            caller.start(context)
        episodes = [self._context(row) for row in request.rows]
        rows, view, began = request.rows, self._views[request.policy], time.monotonic()
        actions = caller.act_by_call(lambda part: view.batch(rows[part], self._value), episodes)
        seconds = time.monotonic() - began
        taken = caller.take_outliers(), caller.take_remarks()
        return Acted(request.id, portable(actions), *taken, seconds, caller.take_about())

    def _finish(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            if number in self._contexts:
                context, caller = self._contexts.pop(number)
                caller.finish(context)

    def _value(self, row: BatchRow, path: str) -> Any:
        if path in row.texts:
            return row.texts[path]
        return self._slots[row.slot].value(path)

    def _context(self, row: BatchRow) -> Context:
        if row.number not in self._contexts:
            raise ContractError(f"Episode {row.number} was not started in this process.")
        context, _ = self._contexts[row.number]
        context.step = row.step
        if row.committed is not None:
            context.delay, context.committed = len(row.committed), row.committed
        return context
