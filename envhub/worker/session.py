"""Answering the host's requests in a worker process."""

import os
import platform
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from envhub.declarations import Perturbation, Task
from envhub.errors import ContractError
from envhub.machine.facts import describe_process
from envhub.plugins import Plugins
from envhub.types import FileSource
from envhub.wire.first_observation import hash_observation
from envhub.wire.memory import STEP_RESULT, SUCCESSES, Buffers
from envhub.wire.messages import (
    Attach,
    Call,
    Close,
    Convert,
    Converted,
    Done,
    First,
    Load,
    Loaded,
    LoadPerturbations,
    LoadPolicy,
    Making,
    Open,
    Opened,
    PerturbationsLoaded,
    Play,
    Played,
    PolicyLoaded,
    Probe,
    Probed,
    Render,
    Reply,
    Request,
    Reset,
    Returned,
    SetAttr,
    Step,
    Stepped,
    TaskSpaces,
    WasReset,
)
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import decode_spaces, encode_space, leaves, select_leaves
from envhub.wire.step_results import success_of
from envhub.wire.values import NotPortable, portable
from envhub.worker.attributes import description_of, set_attribute
from envhub.worker.benchmark import (
    DeclaredSpaces,
    LoadedBenchmark,
    find_task,
    load_benchmark,
    relevant_packages,
)
from envhub.worker.convert import Converter
from envhub.worker.end_state import state_reader
from envhub.worker.envcalls import take_reset, take_step
from envhub.worker.leaves import Reader, Writer, observers, readers, writers
from envhub.worker.perturbed import LoadedPerturbations, PerturbedEnv
from envhub.worker.play import EnvSide, Player, Turn, play
from envhub.worker.policy.load import make_caller
from envhub.worker.replies import answer_with, encoded, failure

_NOT_REPORTED = SUCCESSES.index(None)

OFFERED: dict[str, Callable[[AnyEnv, Task, LoadedBenchmark], Any]] = {
    "task_description": lambda env, task, loaded: (
        loaded.instruction(env) or description_of(env) or task.description
    ),
    "task": lambda env, task, _: None if env.has_wrapper_attr("task") else task.name,
    "_max_episode_steps": lambda env, task, loaded: loaded.horizon(env, task),
}
"""What LeRobot's loops ask every env for, and where it comes from; None: from the env alone."""


class SessionChannel(Protocol):
    """The worker's end of the channel, as far as a session uses it."""

    def send(self, payload: bytes) -> None:
        """Send a frame before that of the answer."""
        ...

    def take_fd(self) -> int:
        """Return the oldest descriptor that was not taken."""
        ...

    def expect_fds(self, *, expecting: bool) -> None:
        """Set whether a descriptor may come with the next request."""
        ...


class Session:
    """The state of one worker: its benchmark, its open env, its shared memory."""

    def __init__(self, channel: SessionChannel) -> None:
        self._channel = channel
        self._plugins = Plugins()
        self._loaded: LoadedBenchmark | None = None
        self._env: AnyEnv | None = None
        self._perturbations: LoadedPerturbations | None = None
        self._perturbed: PerturbedEnv | None = None
        self._state: Callable[[], bytes] | None = None
        self._task: Task | None = None
        self._buffers: Buffers | None = None
        self._row = 0
        self._all_leaves: frozenset[str] = frozenset()
        self._converter: Converter | None = None
        self._needs: frozenset[str] | None = None
        self._shown: Any = None
        self._observers: tuple[Any, ...] = ()
        self._filled: frozenset[str] = frozenset()
        self._readers: list[Reader] = []
        self._writers: list[Writer] = []
        self._unchecked: list[Reader] = []
        self._step_result = memoryview(b"")
        self._scored_leaves: frozenset[str] | None = None
        self._until_success = False
        self._reported: set[str] = set()
        self._player: Player | None = None
        self._turn = Turn()
        self._handlers: dict[type[Request], Callable[[Any], Reply]] = {
            Load: self._load,
            LoadPerturbations: self._load_perturbations,
            Open: self._open,
            Attach: self._attach,
            Convert: self._convert,
            Reset: self._reset,
            Step: self._step,
            Render: self._render,
            Call: self._call,
            SetAttr: self._set_attr,
            Close: self._close,
            LoadPolicy: self._load_policy,
            Play: self._play,
            Probe: self._probe,
        }

    def answer(self, request: Request) -> bytes:
        """Answer a request; an exception of foreign code becomes an answer too."""
        self._turn.policy = False
        return answer_with(self._handlers, request, where=self._where)

    def quick_step(self, number: int) -> bytes:
        """Take one step with the action in shared memory.

        This and what it calls are most of what a step costs besides the env, so they do no more
        than they must: most steps need no message in either direction.

        Returns:
            An empty payload if shared memory holds the whole result, else an encoded answer.
        """
        self._turn.policy = False
        try:
            reply = self._quick_step(number)
            return b"" if reply is None else encoded(reply)
        except (Exception, SystemExit) as exc:
            return failure(number, exc, self._where())

    def _where(self) -> Literal["env", "policy"]:
        return "policy" if self._turn.policy else "env"

    def _load(self, request: Load) -> Loaded:
        if isinstance(request.source, FileSource):
            os.chdir(request.source.home)  # env files name their assets relative to themselves
        self._loaded = load_benchmark(
            request,
            self._plugins,
            lambda task: self._channel.send(encoded(Making(request.id, task))),
        )
        perturbations: tuple[Perturbation, ...] = ()
        if request.perturb:
            self._perturbations = LoadedPerturbations(self._plugins, request.perturb)
            perturbations = self._perturbations.declared
        return Loaded(
            request.id,
            self._loaded.benchmark,
            platform.python_version(),
            relevant_packages() if request.packages else {},
            self._declared_spaces(self._loaded) if request.spaces else (),
            describe_process() if request.packages else {},
            self._loaded.broken,
            self._loaded.without_horizon,
            perturbations,
        )

    def _load_perturbations(self, request: LoadPerturbations) -> PerturbationsLoaded:
        declared = tuple(self._plugins.perturbation(name)[0] for name in request.names)
        return PerturbationsLoaded(request.id, declared)

    def _declared_spaces(self, loaded: LoadedBenchmark) -> TaskSpaces:
        """Collect the spaces that the benchmark declares.

        Tasks whose envs other plugins wrap are left out: a wrapper may change the spaces.
        """
        groups: dict[tuple[int, int], tuple[DeclaredSpaces, list[str]]] = {}
        for task in loaded.benchmark.tasks().values():
            declared = None if self._plugins.wrappers(task) else loaded.spaces(task)
            if declared is not None:
                # Grouped by identity, because comparing the spaces of images takes 20 ms.
                key = (id(declared[0]), id(declared[1]))
                groups.setdefault(key, (declared, []))[1].append(task.name)
        return tuple(
            (tuple(tasks), encode_space(observation), encode_space(action))
            for (observation, action), tasks in groups.values()
        )

    def close(self) -> None:
        """Close the policy and the env, if there are any, and envs that nobody opened."""
        self._close_policy()
        self._close_env()
        if self._loaded is not None:
            self._loaded.close()
        self._turn = Turn()  # with it goes the last view of the shared memory

    def _close_policy(self) -> None:
        player, self._player = self._player, None
        if player is not None:
            player.close()

    def _close_env(self) -> None:
        env, self._env, self._observers, self._buffers = self._env, None, (), None
        self._perturbed, self._state = None, None
        self._writers, self._step_result, self._scored_leaves = [], memoryview(b""), None
        self._readers, self._filled = [], frozenset()
        self._converter, self._shown, self._needs = None, None, None
        if env is not None:
            env.close()

    def _open(self, request: Open) -> Opened:
        try:
            self._close_env()
        except (Exception, SystemExit):  # not the fault of the task that is opened now
            traceback.print_exc()
        if self._loaded is None:
            raise ContractError("No benchmark is loaded.")
        task = find_task(self._loaded.benchmark, request.suite, request.task)
        env = self._loaded.make(request.suite, task)
        for wrapper in self._plugins.wrappers(task):
            env = wrapper(env)
        if self._perturbations is not None:
            self._perturbed = self._perturbations.wrap(env, task)
            env = self._perturbed or env
        self._state = state_reader(env)
        self._env, self._task, self._converter, self._needs = env, task, None, None
        shown = env.observation_space
        if request.needs is not None:
            shown = select_leaves(shown, request.needs)
        self._shown = shown
        self._channel.expect_fds(expecting=True)  # Attach comes next, with the memory
        self._all_leaves = frozenset(leaf.path for leaf in leaves(shown))
        self._observers = observers(env)
        self._readers = self._unchecked = readers(shown)
        return Opened(
            request.id,
            encode_space(shown),
            encode_space(env.action_space),
            env.render_mode,
            # robosuite's wrapper has None there
            self._portable_items({} if env.metadata is None else env.metadata, "metadata"),
        )

    def _attach(self, request: Attach) -> Done:
        env, fd = self._open_env(), self._channel.take_fd()
        try:
            self._buffers = Buffers(fd, request.rows, self._shown, env.action_space)
        finally:
            os.close(fd)
            # No other request brings one, and looking for them would slow down every step.
            self._channel.expect_fds(expecting=False)
        self._row = request.row
        self._turn.attach(self._buffers.pulse[request.row, ...])
        self._step_result = self._buffers.step_result_memory(request.row)
        self._writers = writers(self._shown, self._buffers.observations, request.row)
        return Done(request.id)

    def _convert(self, request: Convert) -> Converted:
        if self._loaded is None:
            raise ContractError("Nothing is loaded.")
        converter = self._loaded.converter(self._open_env().observation_space)
        self._converter, self._shown = converter, converter.space
        self._needs = None if request.needs is None else frozenset(request.needs)
        self._channel.expect_fds(expecting=True)
        if self._player is not None:
            self._player.view(converter.space)
        return Converted(request.id, encode_space(converter.space))

    def _show(self, observation: Any) -> Any:
        """The observation as the policy's side is shown it."""
        return observation if self._converter is None else self._converter.convert(observation)

    def _reset(self, request: Reset) -> WasReset:
        paths = self._observe(request.observe)
        observation, info = self._take_reset(request.seed, request.options, request.index)
        first = self._first(observation) if request.first else None
        texts = self._write(observation, paths)
        sent_info = self._portable_items(info, "info")
        return WasReset(request.id, sent_info, texts, self._instruction(), first)

    def _take_reset(self, seed: int | None, options: Any, index: int) -> tuple[Any, Any]:
        """Reset the env; its first observation is checked whole, also if nobody reads it."""
        if self._perturbed is not None:
            self._perturbed.index = index
        observation, info = take_reset(self._open_env(), seed, options)
        for reader in self._unchecked:
            reader.read(observation)
        self._unchecked = []
        return observation, info

    def _first(self, observation: Any) -> First | None:
        """Return the digest of the leaves that a reset filled, as the env gave them."""
        filled = self._filled
        leaves = [
            (r.leaf.path, r.canonical(observation)) for r in self._readers if r.leaf.path in filled
        ]
        return First(hash_observation(leaves), filled == self._all_leaves) if leaves else None

    def _step(self, request: Step) -> Stepped:
        env, buffers = self._open_env(), self._memory()
        rewards: list[float] = []
        successes: list[bool | None] = []
        last = request.count - 1
        for index in range(request.count):
            # Nobody reads the observations before the last step, so the env need not draw them.
            paths = self._observe(request.observe if index == last else ())
            action = request.action if request.inline else _action(buffers, self._row, index)
            observation, reward, terminated, truncated, info = take_step(env, action)
            buffers.pulse[self._row] = 2 * (index + 1)  # gives the next step its own time limit
            rewards.append(reward)
            if request.scored:
                successes.append(success_of(info))
            if terminated or truncated or (request.until_success and successes[-1]):
                break
        texts = self._write(observation, paths)
        sent_info = {} if request.scored else self._portable_items(info, "info")
        observed = self._all_leaves if request.observe is None else frozenset(request.observe)
        # An empty frame cannot say what to observe: quick steps repeat the last scored Step.
        self._scored_leaves = observed if request.scored else None
        self._until_success = request.until_success
        final = request.final and index == last
        ended = terminated or truncated or final or (request.until_success and successes[-1])
        state = self._end_state(ended=request.scored and ended)
        return Stepped(
            request.id, rewards, terminated, truncated, successes, sent_info, texts, state
        )

    def _end_state(self, *, ended: bool | None) -> bytes | None:
        """Return the digest of the env's state if the episode has ended, and the env can say it."""
        return self._state() if ended and self._state is not None else None

    def _quick_step(self, number: int) -> Stepped | None:
        if self._scored_leaves is not None:
            return self._quick_scored_step(number, self._scored_leaves)
        env, action = self._open_env(), _action(self._memory(), self._row, 0)
        if self._observers:
            self._observe(None)
        observation, reward, terminated, truncated, info = take_step(env, action)
        texts = self._write(observation, self._all_leaves)
        if texts or info or type(info) is not dict:  # these have no place in shared memory
            sent_info = self._portable_items(info, "info")
            return Stepped(number, [reward], terminated, truncated, [], sent_info, texts)
        STEP_RESULT.pack_into(
            self._step_result, 0, number, reward, terminated, truncated, _NOT_REPORTED
        )
        return None

    def _quick_scored_step(self, number: int, paths: frozenset[str]) -> Stepped | None:
        env, action = self._open_env(), _action(self._memory(), self._row, 0)
        self._observe(paths)
        observation, reward, terminated, truncated, info = take_step(env, action)
        success = success_of(info)
        texts = self._write(observation, paths)
        state = None
        if terminated or truncated or (success and self._until_success):
            state = self._end_state(ended=True)
        if texts or state is not None:  # these have no place in shared memory
            return Stepped(number, [reward], terminated, truncated, [success], {}, texts, state)
        code = SUCCESSES.index(success)
        STEP_RESULT.pack_into(self._step_result, 0, number, reward, terminated, truncated, code)
        return None

    def _load_policy(self, request: LoadPolicy) -> PolicyLoaded:
        self._turn.policy = True  # from here on an exception is the policy's
        self._close_policy()
        spaces = decode_spaces(request.observation_space, request.action_space)
        caller = make_caller(request.policy, request.benchmark, spaces, request.batch)
        self._player = Player(caller, spaces[0])
        return PolicyLoaded(request.id, self._player.facts, 0)

    def _play(self, request: Play) -> Played:
        env, _ = self._open_env(), self._memory()  # the pulse is in the memory
        if self._player is None:
            raise ContractError("No policy is loaded in this worker.")
        env_side = EnvSide(
            env,
            self._take_reset,
            self._observe,
            self._show,
            self._instruction,
            self._first,
            self._end_state,
            retold=self._perturbations is not None and self._perturbations.retell,
        )
        return play(request, self._player, env_side, self._turn)

    def _probe(self, request: Probe) -> Probed:
        from envhub.worker.check import answer_probe  # only `envhub check` asks

        return answer_probe(request, self._loaded, self._plugins)

    def _render(self, request: Render) -> Returned:
        return Returned(request.id, portable(self._open_env().render()))

    def _set_attr(self, request: SetAttr) -> Done:
        set_attribute(self._open_env(), request.name, request.value)
        return Done(request.id)

    def _close(self, request: Close) -> Done:
        self.close()
        return Done(request.id)

    def _call(self, request: Call) -> Returned:
        env, task = self._open_env(), self._task
        assert self._loaded is not None
        assert task is not None
        offered = OFFERED.get(request.name)
        value = offered(env, task, self._loaded) if offered else None
        if value is None:
            value = env.get_wrapper_attr(request.name)
        if callable(value):
            value = value(*request.args, **request.kwargs)
        try:
            return Returned(request.id, portable(value))
        except NotPortable as exc:
            raise ContractError(
                f"{request.name!r} cannot cross to another process: {exc}."
            ) from exc

    def _instruction(self) -> str | None:
        """Return the instruction of the episode that a reset has just begun; None: the task's."""
        assert self._loaded is not None
        assert self._task is not None
        text = self._loaded.instruction(self._open_env())
        if self._perturbed is not None:
            text = self._perturbed.instruction(text or self._task.description)
        return None if text == self._task.description else text

    def _observe(self, paths: Collection[str] | None) -> frozenset[str]:
        """Set which leaves the env must fill next, None = all, and return them."""
        observed = self._all_leaves if paths is None else frozenset(paths)
        drawn = self._needs if self._needs is not None and observed else observed
        for observer in self._observers:
            observer.observing = drawn
        # An env that is not told which leaves are read fills all of them.
        self._filled = drawn if self._observers else self._all_leaves
        return observed

    def _write(self, observation: Any, paths: frozenset[str]) -> dict[str, str]:
        """Write leaves of an observation into shared memory, and return those that are texts."""
        texts: dict[str, str] = {}
        if not paths:
            return texts
        everything = paths is self._all_leaves or self._converter is not None
        shown = self._show(observation)
        for writer in self._writers:
            if everything or writer.leaf.path in paths:
                writer.write(shown, texts)
        return texts

    def _portable_items(self, values: object, name: str) -> dict[str, Any]:
        """Return the items that can be sent; the log names each other one once."""
        if type(values) is dict and not values:
            return values
        if not isinstance(values, Mapping):
            raise ContractError(f"{name} must be a mapping, found {type(values).__name__}.")
        items: dict[str, Any] = {}
        for key, value in values.items():
            try:
                items |= portable({key: value})
            except NotPortable as exc:
                # A limit, because the names in messages may differ at every step.
                if str(exc) not in self._reported and len(self._reported) < 100:
                    self._reported.add(str(exc))
                    print(f"envhub: left out of {name}: {exc}", flush=True)  # noqa: T201
        return items

    def _open_env(self) -> AnyEnv:
        if self._env is None:
            raise ContractError("No env is open.")
        return self._env

    def _memory(self) -> Buffers:
        if self._buffers is None:
            raise ContractError("No shared memory is attached.")
        return self._buffers


def _action(buffers: Buffers, row: int, index: int) -> Any:
    if buffers.actions is None:
        raise ContractError("Actions of this space are not in shared memory.")
    action = buffers.actions[row, index]
    # A copy: an env may keep its action, and the host overwrites the memory.
    return action.copy() if isinstance(action, np.ndarray) else action
