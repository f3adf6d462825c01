"""What a worker process does with each request. Lives in the worker."""

import math
import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from envhub.envs.normalize import AnyEnv
from envhub.errors import ContractError, EnvHubError
from envhub.plugins import Plugins
from envhub.worker.buffers import Buffers
from envhub.worker.channel import MAX_FRAME, Channel
from envhub.worker.observing import observers
from envhub.worker.program import Program, find_task, load_program
from envhub.worker.protocol import (
    Attach,
    Call,
    Close,
    Done,
    Failed,
    Load,
    Loaded,
    Open,
    Opened,
    Render,
    Reply,
    Request,
    Reset,
    Returned,
    SetAttr,
    Step,
    Stepped,
    WasReset,
    encode,
)
from envhub.worker.spaces import encode_space, leaves
from envhub.worker.values import NotPortable, portable
from envhub.worker.writing import Writer, writers

_MAX_TEXT = 20_000


class Session:
    """The state of one worker: its benchmark, its open env, its memory."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._plugins = Plugins()
        self._program: Program | None = None
        self._env: AnyEnv | None = None
        self._buffers: Buffers | None = None
        self._row = 0
        self._every: frozenset[str] = frozenset()
        self._observers: tuple[Any, ...] = ()
        self._writers: list[Writer] = []
        self._reported: set[str] = set()
        self._handlers: dict[type[Request], Callable[[Any], Reply]] = {
            Load: self._load,
            Open: self._open,
            Attach: self._attach,
            Reset: self._reset,
            Step: self._step,
            Render: self._render,
            Call: self._call,
            SetAttr: self._set_attr,
            Close: self._close,
        }

    def answer(self, request: Request) -> bytes:
        """Do what is asked; whatever foreign code raises becomes an answer too."""
        try:
            payload = encode(self._handlers[type(request)](request))
            if len(payload) > MAX_FRAME:
                raise ContractError(f"The answer has {len(payload)} bytes, more than {MAX_FRAME}.")
        except (Exception, SystemExit) as exc:
            contract = isinstance(exc, EnvHubError)
            kind, text = type(exc).__name__, _cut(str(exc))
            return encode(Failed(request.id, kind, text, _trace(exc), contract=contract))
        return payload

    def _load(self, request: Load) -> Loaded:
        self._program = load_program(request, self._plugins)
        return Loaded(request.id, self._program.benchmark)

    def close(self) -> None:
        """Close the env, if one is open."""
        env, self._env, self._observers, self._buffers = self._env, None, (), None
        if env is not None:
            env.close()

    def _open(self, request: Open) -> Opened:
        self.close()
        if self._program is None:
            raise ContractError("Nothing is loaded.")
        task = find_task(self._program.benchmark, request.suite, request.task)
        env = self._program.make(request.suite, task)
        for wrapper in self._plugins.wrappers(task):
            env = wrapper(env)
        self._env = env
        self._every = frozenset(leaf.path for leaf in leaves(env.observation_space))
        self._observers = observers(env)
        return Opened(
            request.id,
            encode_space(env.observation_space),
            encode_space(env.action_space),
            env.render_mode,
            self._what_can_cross(env.metadata, "metadata"),
            selective=bool(self._observers),
        )

    def _attach(self, request: Attach) -> Done:
        env, fd = self._open_env(), self._channel.take_fd()
        try:
            space, action = env.observation_space, env.action_space
            self._buffers = Buffers(fd, request.rows, space, action)
        finally:
            os.close(fd)
        self._row = request.row
        self._writers = writers(env.observation_space, self._buffers.observations, request.row)
        return Done(request.id)

    def _reset(self, request: Reset) -> WasReset:
        env = self._open_env()
        wanted = self._observe(request.observe)
        result = env.reset(seed=request.seed, options=request.options)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ContractError("reset() must return (observation, info).")
        observation, info = result
        texts = self._write(observation, wanted)
        return WasReset(request.id, self._what_can_cross(info, "info"), texts)

    def _step(self, request: Step) -> Stepped:
        env, buffers = self._open_env(), self._memory()
        rewards: list[float] = []
        successes: list[bool | None] = []
        last = request.count - 1
        for index in range(request.count):
            wanted = self._observe(request.observe if index == last else ())
            action = request.action if request.inline else _action(buffers, self._row, index)
            result = env.step(action)
            if not isinstance(result, tuple) or len(result) != 5:
                raise ContractError(
                    "step() must return (observation, reward, terminated, truncated, info)."
                )
            observation, reward, terminated, truncated, info = result
            rewards.append(_reward(reward))
            if request.scored:
                successes.append(_success(info))
            if terminated or truncated or (request.until_success and successes[-1]):
                break
        texts = self._write(observation, wanted)
        shown = {} if request.scored else self._what_can_cross(info, "info")
        return Stepped(
            request.id, rewards, bool(terminated), bool(truncated), successes, shown, texts
        )

    def _render(self, request: Render) -> Returned:
        return Returned(request.id, portable(self._open_env().render()))

    def _set_attr(self, request: SetAttr) -> Done:
        self._open_env().set_wrapper_attr(request.name, request.value)
        return Done(request.id)

    def _close(self, request: Close) -> Done:
        self.close()
        return Done(request.id)

    def _call(self, request: Call) -> Returned:
        value = self._open_env().get_wrapper_attr(request.name)
        if callable(value):
            value = value(*request.args, **request.kwargs)
        try:
            return Returned(request.id, portable(value))
        except NotPortable as exc:
            raise ContractError(f"{request.name!r} cannot cross to this process: {exc}.") from exc

    def _observe(self, paths: tuple[str, ...] | None) -> frozenset[str]:
        wanted = self._every if paths is None else frozenset(paths)
        for observer in self._observers:
            observer.observing = wanted
        return wanted

    def _write(self, observation: Any, wanted: frozenset[str]) -> dict[str, str]:
        """Put an observation into shared memory; texts, which have no place there, are returned."""
        texts: dict[str, str] = {}
        if not wanted:
            return texts
        for writer in self._writers:
            if wanted is self._every or writer.leaf.path in wanted:
                writer.write(observation, texts)
        return texts

    def _what_can_cross(self, values: object, what: str) -> dict[str, Any]:
        """The items that can cross; others are left out, and named once in the log."""
        if type(values) is dict and not values:
            return values
        if not isinstance(values, Mapping):
            raise ContractError(f"{what} must be a mapping, found {type(values).__name__}.")
        crossing: dict[str, Any] = {}
        for key, value in values.items():
            try:
                crossing |= portable({key: value})
            except NotPortable as exc:
                if str(exc) not in self._reported and len(self._reported) < 100:
                    self._reported.add(str(exc))
                    print(f"envhub: left out of {what}: {exc}", flush=True)  # noqa: T201
        return crossing

    def _open_env(self) -> AnyEnv:
        if self._env is None:
            raise ContractError("No env is open.")
        return self._env

    def _memory(self) -> Buffers:
        if self._buffers is None:
            raise ContractError("No memory is attached.")
        return self._buffers


def _action(buffers: Buffers, row: int, index: int) -> Any:
    if buffers.actions is None:
        raise ContractError("Actions of this space do not live in shared memory.")
    action = buffers.actions[row, index]
    return action.copy() if isinstance(action, np.ndarray) else action


def _reward(reward: Any) -> float:
    try:
        return float(reward)
    except (TypeError, ValueError) as exc:
        raise ContractError(f"step() returned the reward {reward!r}, which is no number.") from exc


def _success(info: Any) -> bool | None:
    """Success as `info` tells it: a bool, 0 or 1, or an array of one of them."""
    if not isinstance(info, Mapping):
        raise ContractError(f"info must be a mapping, found {type(info).__name__}.")
    value = info.get("is_success", info.get("success"))
    if value is None:
        return None
    if isinstance(value, bool):
        return value
    array = np.asarray(value)
    number = array.item() if array.size == 1 and array.dtype.kind in "biuf" else math.nan
    if number not in (0, 1):
        raise ContractError(f"info['is_success'] must be a bool, 0 or 1, found {value!r}.")
    return bool(number)


def _trace(exc: BaseException) -> str:
    return _cut("".join(traceback.format_exception(exc)))


def _cut(text: str) -> str:
    """What fits into a message; surrogates cannot be encoded."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _MAX_TEXT else "..." + clean[-(_MAX_TEXT - 3) :]
