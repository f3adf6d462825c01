"""`LazyVectorEnv`: envs in worker processes, as a Gymnasium VectorEnv."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envhub.errors import ContractError, WorkerError
from envhub.host.loading import LazySpec
from envhub.host.remote import RemoteEnv
from envhub.text import pluralize
from envhub.types import WorkerSpec
from envhub.vector.batches import as_numpy, copied, fits, split_actions, split_options, split_seed
from envhub.vector.pool import Shown, WorkerPool, as_answers, as_attribute_error
from envhub.vector.rules import (
    HORIZON,
    INIT_STATE,
    INSTRUCTION,
    PLAIN,
    EpisodeClock,
    InitStates,
    Rules,
    check_chosen,
    name_success,
)
from envhub.vector.view import EnvView
from envhub.wire.memory import Buffers
from envhub.wire.messages import Done, Opened, Returned, Stepped, WasReset
from envhub.wire.spaces import Outline, Spaces, leaves, outline_of, select_leaves, unflatten
from envhub.wire.step_results import success_of
from envhub.wire.values import Array

R = TypeVar("R")

_SPACES = frozenset({
    "action_space", "observation_space", "single_action_space", "single_observation_space",
})  # fmt: skip


class LazyVectorEnv(VectorEnv[Any, Any, Array]):
    """Several envs of one task, each in a process that starts when it is first needed.

    It behaves as Gymnasium's SyncVectorEnv does with the same envs. If one env fails, all processes
    of this vector environment are ended, and the error says which env failed and why; the next
    `reset` starts new ones, as it does after `close`.
    """

    def __init__(
        self,
        spec: WorkerSpec | LazySpec,
        suite: str,
        task: str,
        num_envs: int,
        *,
        spaces: Spaces | None = None,
        rules: Rules = PLAIN,
        needs: Sequence[str] | None = None,
        converted: bool = False,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
    ) -> None:
        """Prepare the vector environment without starting a process.

        Args:
            spec: What the workers are started from.
            suite: The suite of the task.
            task: The name of the task.
            num_envs: The number of envs.
            spaces: The observation space and the action space, if the benchmark declares them; else
                the first env is made when the spaces are read.
            rules: What is added to what the envs do.
            needs: The parts of observations that are read; the others are left out. None: all.
            converted: Whether the benchmark converts observations to LeRobot's names.
            autoreset_mode: As in Gymnasium.
            copy: Whether to copy observations out of the shared memory. If not, they change with
                the next step.
        """
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.copy = copy
        self.closed = False
        self._spec = spec
        self._suite = suite
        self._task = task
        self._declared = None if converted else _with_parts(spaces, needs)
        self._shown = Shown(None if needs is None else tuple(needs), converted)
        self._pool: WorkerPool | None = None
        self._opened: Opened | None = None
        self._finalizer: weakref.finalize[[], LazyVectorEnv] | None = None
        self._ended = np.zeros(num_envs, np.bool_)
        self._rules = rules
        self._clock = EpisodeClock(num_envs, rules.max_steps or rules.horizon)
        self._init_states = InitStates(num_envs, rules.init_states)
        self._horizons = None if rules.max_steps is None else [rules.max_steps] * num_envs
        self._texts: dict[str, list[str]] = {}
        self._scalars: frozenset[str] = frozenset()
        self._outline: Outline = ""

    def __getattr__(self, name: str) -> Any:
        """Return a space: as declared, else as the first env has it, which is made for that."""
        if name not in _SPACES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._declared is None:
            self._inspect()
        else:
            self._set_spaces(self._declared)
        return self.__dict__[name]

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The env's metadata with the autoreset mode."""
        return {**self._inspect().metadata, "autoreset_mode": self.autoreset_mode}

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        """The env's render mode."""
        return self._inspect().render_mode

    @property
    def np_random_seed(self) -> Any:
        """The seeds of the envs' random generators."""
        return self.get_attr("np_random_seed")

    @property
    def envs(self) -> Sequence[EnvView]:
        """The envs, one by one; Gymnasium's SyncVectorEnv has them too."""
        return tuple(EnvView(self, row) for row in range(self.num_envs))

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those that `options["reset_mask"]` selects."""
        seeds = split_seed(seed, self.num_envs)
        rows, passed = split_options(options, self.num_envs)
        pool, _ = self._ready()
        replies = self._guarded(
            lambda: pool.ask(rows, lambda i, r: self._ask_reset(i, r, seeds[i], passed), WasReset)
        )
        infos: dict[str, Any] = {}
        for row, reply in zip(rows, replies, strict=True):
            self._store_texts(row, reply)
            infos = self._add_info(infos, reply.info, row)
            self._ended[row] = False
            self._clock.begin(row)
        return self._observations(), infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Step all envs."""
        pool, buffers = self._ready()
        if self.autoreset_mode is AutoresetMode.DISABLED:
            assert not self._ended.any(), f"reset these envs first: {self._ended}"
        resetting = self.autoreset_mode is AutoresetMode.NEXT_STEP and self._ended.any()
        if buffers.actions is not None and fits(actions, buffers.actions):
            buffers.actions[:, 0] = actions
            if not resetting:
                return self._quick_step(pool, buffers)
            each = None
        else:
            each = split_actions(self.action_space, actions, self.num_envs)

        def ask(row: int, remote: RemoteEnv) -> None:
            if resetting and self._ended[row]:
                self._ask_reset(row, remote)
            elif each is None:
                remote.step()
            else:
                remote.step_with(each[row])

        replies = self._guarded(lambda: pool.ask_all(ask, Stepped | WasReset))  # type: ignore[arg-type]
        self._clock.tick()
        return self._collect(pool, replies)

    def render(self) -> tuple[Any, ...]:
        """Render a frame of each env."""
        return self._query(lambda _, remote: remote.render())

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each env, or read an attribute.

        Raises:
            AttributeError: An env has no attribute of that name; the workers stay alive.
        """
        if name == HORIZON and self._horizons is not None:
            return tuple(self._horizons)
        if name == INSTRUCTION and self._rules.instruction is not None:
            return (self._rules.instruction,) * self.num_envs
        if name == INIT_STATE and self._rules.init_states:
            return tuple(self._init_states.following)
        try:
            return self._query(lambda _, remote: remote.call(name, args, kwargs))
        except AttributeError as exc:
            if name == HORIZON:
                advice = "give make_env(max_steps=...), or set it with set_attr."
                raise AttributeError(f"Task {self._task!r} has no horizon: {advice}") from exc
            raise

    def call_row(self, row: int, name: str) -> Any:
        """Call a method of one env, or read an attribute."""
        if name in (HORIZON, INIT_STATE, INSTRUCTION):
            return self.call(name)[row]
        return self._query(lambda _, remote: remote.call(name, (), {}), [row])[0]

    def reset_row(
        self, row: int, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset one env."""
        pool, _ = self._ready()
        [reply] = self._guarded(
            lambda: pool.ask([row], lambda _, r: self._ask_reset(row, r, seed, options), WasReset)
        )
        self._store_texts(row, reply)
        self._ended[row] = False
        self._clock.begin(row)
        return self._observation(row), reply.info

    def step_row(self, row: int, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step one env; unlike `step`, this never resets it."""
        pool, _ = self._ready()
        [reply] = self._guarded(
            lambda: pool.ask([row], lambda _, r: r.step_with(as_numpy(action)), Stepped)
        )
        self._store_texts(row, reply)
        terminated = self._score(reply)
        truncated = self._clock.tick_row(row) or reply.truncated
        self._ended[row] = terminated or truncated
        return self._observation(row), reply.rewards[0], terminated, truncated, reply.info

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each env."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of all envs; a list or tuple holds one value per env."""
        each = list(values) if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(
                f"set_attr got {pluralize(len(each), 'value')} for "
                f"{pluralize(self.num_envs, 'env')}; give one per env."
            )
        if name in (HORIZON, INIT_STATE):
            each = check_chosen(name, each)
        if name == INIT_STATE and self._rules.init_states:
            self._init_states.following[:] = each
            return
        self._ask_set_attr(name, each)
        if name == HORIZON:
            self._horizons = each
            self._clock.set_horizons(each)

    def close_extras(self, **kwargs: Any) -> None:
        """End the processes. Gymnasium calls this from `close`; the arguments are ignored."""
        pool, self._pool = self._pool, None
        if self._finalizer is not None:
            self._finalizer.detach()
        if pool is not None:
            pool.close()

    def __enter__(self) -> "LazyVectorEnv":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LazyVectorEnv({self._suite}/{self._task}, {self.num_envs} envs)"

    def _ask_set_attr(self, name: str, each: Sequence[Any]) -> None:
        pool, _ = self._ready()
        rows = range(self.num_envs)
        try:
            self._guarded(lambda: pool.query(lambda i, r: r.set_attr(name, each[i]), Done, rows))
        except WorkerError as exc:
            error = as_attribute_error(exc)
            if error is exc:
                raise
            raise error from exc

    def _ask_reset(
        self,
        row: int,
        remote: RemoteEnv,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        remote.reset(seed, self._init_states.choose(row, options))

    def _score(self, reply: Stepped) -> bool:
        """Name the success in a step's info; return whether the step has terminated the episode."""
        if self._rules.named_success:
            name_success(reply.info)
        return reply.terminated or (self._rules.until_success and success_of(reply.info) is True)

    def _ready(self) -> tuple[WorkerPool, Buffers]:
        """Return the pool and its shared memory; make the envs that do not exist yet."""
        pool = self._pool or self._new_pool()
        if pool.buffers is not None:
            return pool, pool.buffers
        buffers = self._guarded(pool.open_all)
        self._adopt_spaces(pool)
        self._ended[:] = False
        self._clock.begin(slice(None))
        parts = leaves(self.single_observation_space)
        self._texts = {leaf.path: [""] * self.num_envs for leaf in parts if leaf.dtype is None}
        self._scalars = frozenset(leaf.path for leaf in parts if leaf.scalar)
        self._outline = outline_of(self.single_observation_space)
        if self._horizons is not None and self._rules.max_steps is None:  # as set before they ended
            self._ask_set_attr(HORIZON, self._horizons)
        return pool, buffers

    def _inspect(self) -> Opened:
        """Return what the first env reported about itself; make it if that is not known."""
        if self._opened is None:
            pool = self._pool or self._new_pool()
            self._guarded(pool.open_first)
            self._adopt_spaces(pool)
        assert self._opened is not None
        return self._opened

    def _adopt_spaces(self, pool: WorkerPool) -> None:
        assert pool.spaces is not None
        known = [self.__dict__.get(f"single_{role}_space") for role in ("observation", "action")]
        self._opened = pool.opened
        if list(pool.spaces) == known:  # keep ours: the caller may have seeded them
            return
        if self._declared is not None and self._declared != pool.spaces:
            pool.close()
            raise ContractError(
                f"The spaces declared for task {self._task!r} differ from those of its env: "
                f"{self._declared}, {pool.spaces}. Correct the benchmark's spaces function."
            )
        self._set_spaces(pool.spaces)

    def _set_spaces(self, spaces: Spaces) -> None:
        self.single_observation_space, self.single_action_space = spaces
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _new_pool(self) -> WorkerPool:
        self.closed = False
        self._pool = WorkerPool(self._spec, self._suite, self._task, self.num_envs, self._shown)
        self._finalizer = weakref.finalize(self, self._pool.close)
        return self._pool

    def _guarded(self, work: Callable[[], R]) -> R:
        """Do some work with the pool, and forget the pool if the work ended its processes."""
        try:
            return work()
        finally:
            if self._pool is not None and not self._pool.remotes:
                self._pool = None

    def _query(
        self, ask: Callable[[int, RemoteEnv], None], rows: Sequence[int] | None = None
    ) -> tuple[Any, ...]:
        pool, _ = self._ready()
        asked = range(self.num_envs) if rows is None else rows
        try:
            replies = self._guarded(lambda: pool.query(ask, Returned, asked))
        except WorkerError as exc:
            error = as_attribute_error(exc)
            if error is exc:
                raise
            raise error from exc
        return tuple(reply.value for reply in replies)

    def _quick_step(
        self, pool: WorkerPool, buffers: Buffers
    ) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Step all envs with their actions in shared memory: the usual, fast way."""
        batches = pool.batches if self.copy else None
        if batches is not None:
            batches.begin()
        results = self._guarded(lambda: pool.quick_step(batches.copy_row if batches else None))
        due = self._clock.tick()
        if isinstance(results, list):
            return self._collect(pool, results)
        terminated, truncated = results["terminated"] != 0, results["truncated"] != 0
        if due:
            truncated |= self._clock.at_horizon()
        ended = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            return self._collect(pool, as_answers(results))
        self._ended = ended
        values = buffers.observations if batches is None else batches.finish()
        observations = unflatten(self._outline, values)
        return observations, results["reward"].copy(), terminated, truncated, {}

    def _collect(
        self, pool: WorkerPool, replies: list[Any]
    ) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        rewards = np.zeros(self.num_envs, np.float64)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        infos: dict[str, Any] = {}
        for row, reply in enumerate(replies):
            if self._texts or reply.texts:
                self._store_texts(row, reply)
            if isinstance(reply, Stepped):
                rewards[row] = reply.rewards[0]
                terminated[row] = self._score(reply)
                truncated[row] = reply.truncated
            else:
                self._clock.begin(row)
        truncated |= self._clock.at_horizon()
        ended = terminated | truncated
        resets = self._reset_ended(pool, replies, ended, infos)
        for row, reply in enumerate(replies):
            infos = self._add_info(infos, resets.get(row, reply).info, row)
        self._ended = ended
        return self._observations(), rewards, terminated, truncated, infos

    def _reset_ended(
        self, pool: WorkerPool, replies: list[Any], ended: Array, infos: dict[str, Any]
    ) -> dict[int, WasReset]:
        """In mode SAME_STEP, reset the envs that ended, and put their last step into `infos`."""
        rows = [int(row) for row in np.flatnonzero(ended)]
        if self.autoreset_mode is not AutoresetMode.SAME_STEP or not rows:
            return {}
        for row in rows:
            final = {"final_obs": self._observation(row), "final_info": replies[row].info}
            self._add_info(infos, final, row)
        resets = self._guarded(lambda: pool.ask(rows, self._ask_reset, WasReset))
        for row, reply in zip(rows, resets, strict=True):
            self._store_texts(row, reply)
            self._clock.begin(row)
        return dict(zip(rows, resets, strict=True))

    def _store_texts(self, row: int, reply: "WasReset | Stepped") -> None:
        assert self._pool is not None
        pool = self._pool
        for path, text in self._guarded(lambda: pool.texts(row, reply)).items():
            self._texts[path][row] = text

    def _observations(self) -> Any:
        """Return the batch of observations: copies, or views of the shared memory."""
        buffers = self._pool.buffers if self._pool else None
        assert buffers is not None
        values: dict[str, Any] = {path: tuple(texts) for path, texts in self._texts.items()}
        for path, view in buffers.observations.items():
            values[path] = copied(view) if self.copy else view
        return unflatten(self._outline, values)

    def _observation(self, row: int) -> Any:
        """Return a copy of one env's observation."""
        buffers = self._pool.buffers if self._pool else None
        assert buffers is not None
        values: dict[str, Any] = {path: texts[row] for path, texts in self._texts.items()}
        for path, view in buffers.observations.items():
            value = copied(view[row, ...])
            values[path] = value[()] if path in self._scalars else value
        return unflatten(self._outline, values)


def _with_parts(spaces: Spaces | None, needs: Sequence[str] | None) -> Spaces | None:
    if spaces is None or needs is None:
        return spaces
    return select_leaves(spaces[0], needs), spaces[1]
