"""A policy that runs in the worker of its env: whole episodes without a message per step."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from envhub.options import Delays
from envhub.wire.delayed import DelayedActions
from envhub.wire.messages import First, Play, Played
from envhub.wire.normalize import AnyEnv
from envhub.wire.policy_contract import Context
from envhub.wire.spaces import AnySpace
from envhub.wire.step_results import success_of
from envhub.wire.values import Array, portable
from envhub.worker.envcalls import take_step
from envhub.worker.leaves import Reader, readers
from envhub.worker.policy.caller import PolicyCaller
from envhub.worker.policy.load import ObservationView, context_of

Leaves = Collection[str] | None
"""Paths of an observation's leaves; None = all."""


class Player:
    """A policy in the worker, which acts for one episode at a time."""

    def __init__(self, caller: PolicyCaller, space: AnySpace) -> None:
        self.facts = caller.facts
        self._caller = caller
        self._readers: list[tuple[str, Reader]] = []
        self._read_by(ObservationView(space, self.facts.needs), space)
        self._values: dict[str, Any] = {}
        self._context: Context | None = None
        self._delayed: DelayedActions | None = None
        self._chunk: list[Any] = []

    @property
    def needs_observation(self) -> bool:
        """Whether the next action needs an observation."""
        return not self._chunk

    def view(self, space: AnySpace) -> None:
        """Show the policy observations of another space, whole."""
        self._read_by(ObservationView(space, None), space)

    def start(self, context: Context, delays: Delays | None = None) -> None:
        """Finish the episode before, if any, and start one."""
        if self._context is not None:
            self._caller.finish(self._context)
        self._context, self._chunk = context, []
        self._delayed = None
        if delays is not None:
            self._delayed = DelayedActions(
                delays,
                self._caller.action_space,
                seed=context.seed,
                task=context.task,
                index=context.index,
            )
        self._caller.start(context)

    @property
    def counts(self) -> tuple[int, int]:
        """The calls of the episode so far, and the steps that held the robot still."""
        return (self._delayed.calls, self._delayed.held) if self._delayed else (0, 0)

    def look(self, observation: Any) -> None:
        """Copy the leaves that the policy reads, in the types that another process would get."""
        self._values = {path: reader.row(observation) for path, reader in self._readers}

    def act(self) -> Any:
        """Return the next action."""
        assert self._context is not None
        if not self._chunk:
            self._chunk = [*self._ask(self._context)]
            self._chunk.reverse()
        self._context.step += 1
        if self._delayed is not None:
            self._delayed.taken(1)
        return self._chunk.pop()

    def _ask(self, context: Context) -> Array:
        observation, delayed = self._view.of(self._values), self._delayed
        if delayed is None:
            return self._caller.act(observation, [context])[0]
        context.committed = delayed.begin_call()
        context.delay = len(context.committed)
        return delayed.take(self._caller.act(observation, [context])[0])

    def _read_by(self, view: ObservationView, space: AnySpace) -> None:
        by_path = {reader.leaf.path: reader for reader in readers(space)}
        self._view = view
        self._readers = [(path, by_path[path]) for path in view.paths]

    def close(self) -> None:
        """Finish the current episode, and close the policy."""
        if self._context is not None:
            self._caller.finish(self._context)
        self._caller.close()


class Turn:
    """Whose code is running, so that errors and time limits blame the right side.

    Errors in the worker read `policy`. The host reads the pulse, a number in shared memory: twice
    the number of steps taken, plus one while the policy acts.
    """

    def __init__(self) -> None:
        self.policy = False
        self._pulse: Array | None = None

    def attach(self, pulse: Array) -> None:
        """Use a worker's pulse in the shared memory."""
        self._pulse = pulse

    def give_to_policy(self, steps: int) -> None:
        """Note that the policy's code runs now, after `steps` steps."""
        self.policy = True
        self._set_pulse(2 * steps + 1)

    def give_to_env(self, steps: int) -> None:
        """Note that the env's code runs now, after `steps` steps."""
        self.policy = False
        self._set_pulse(2 * steps)

    def _set_pulse(self, number: int) -> None:
        if self._pulse is not None:
            self._pulse[...] = number


@dataclass(frozen=True, slots=True)
class EnvSide:
    """The env that a policy acts in, and how the session calls it."""

    env: AnyEnv
    reset: Callable[[int | None, Any, int], tuple[Any, Any]]
    """Called with the seed, the options and the episode's index; returns observation and info."""
    observe: Callable[[Leaves], object]
    """Called with the leaves that the next reset or step must fill."""
    show: Callable[[Any], Any]
    """Makes of a raw observation what the policy is shown."""
    instruction: Callable[[], str | None]
    """Called after a reset; returns the instruction of the episode, None: the task's."""
    first: Callable[[Any], First | None]
    """Called with the raw observation of a reset; returns its digest."""
    end_state: Callable[..., bytes | None]
    """Called with `ended`; returns the digest of the env's state if the episode has ended."""
    retold: bool = False
    """Whether `instruction` replaces what the policy brings along."""


def play(request: Play, player: Player, env_side: EnvSide, turn: Turn) -> Played:
    """Play an episode, from a reset or from the current step, to its end or `request.count` steps.

    Args:
        request: The host's request.
        player: The policy.
        env_side: The env that it acts in.
        turn: Keeps track of whose code is running.
    """
    env, observe, show = env_side.env, env_side.observe, env_side.show
    needs = None if player.facts.needs is None else frozenset(player.facts.needs)
    description = first = None
    if request.fresh:
        turn.give_to_env(0)
        observe(needs)
        episode = request.episode
        observation, _ = env_side.reset(episode.seed, request.options, episode.index)
        first = env_side.first(observation)
        player.look(show(observation))
        description = None if request.episode.fixed else env_side.instruction()
        turn.give_to_policy(0)
        own = {} if env_side.retold and description else player.facts.instructions
        context = context_of(request.episode, own, description)
        player.start(context, request.delays)
    rewards: list[float] = []
    successes: list[bool | None] = []
    actions: list[Any] = []
    for taken in range(request.count):
        turn.give_to_policy(taken)
        action = player.act()
        turn.give_to_env(taken + 1)
        read = player.needs_observation and not (request.final and taken + 1 == request.count)
        observe(needs if read else frozenset())
        observation, reward, terminated, truncated, info = take_step(env, action)
        rewards.append(reward)
        successes.append(success_of(info))
        actions.append(action)
        if terminated or truncated or (request.until_success and successes[-1]):
            break
        if read:
            player.look(show(observation))
    played = portable(np.stack(actions))
    over = terminated or truncated or (request.until_success and successes[-1])
    state = env_side.end_state(ended=over or (request.final and taken + 1 == request.count))
    return Played(
        request.id,
        rewards,
        successes,
        played,
        terminated,
        truncated,
        description,
        first,
        *player.counts,
        state,
    )
