"""Runs of the engine, for the tests of what it does."""

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from envhub.evaluation.engine import Engine
from envhub.evaluation.job import Job
from envhub.evaluation.plan import make_plan, select
from envhub.evaluation.supply import Supply
from envhub.host.remote import RemoteEnv
from envhub.loader import load_file
from envhub.options import Limits
from envhub.policies.find import find_policy, read_policy
from envhub.policies.kinds import OfFile
from envhub.records import EpisodeRecord
from envhub.sources.find import find_source
from envhub.types import Confinement, WorkerSpec
from envhub.wire.messages import Loaded
from envhub.wire.policy_contract import Context, make_rng
from support.paths import ASSETS
from support.processes import descendants, kill
from support.sources import confined

WALKERS = f"{ASSETS}/engine_policies/walkers.py"
PATIENT = Limits(start=60, reset=60, step=60, act=60, close=20)


class InWorkers(OfFile):
    """A file whose policy workers make, as they do one of the benchmark."""

    acts_in = "worker"


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    records: tuple[EpisodeRecord, ...]
    """In the order of the plan, without what may differ from run to run."""
    actions: dict[int, tuple[str, tuple[int, ...], bytes] | None]
    """By the episodes' numbers: dtype, shape and bytes."""
    attempts: dict[int, int]
    order: list[int]
    """The episodes' numbers, as they were recorded."""
    engine: Engine

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Outcome)
        return self.records == other.records and self.actions == other.actions

    def only(self, keep) -> tuple[Any, ...]:
        """The records of some episodes, with their actions."""
        return tuple((r, self.actions[r.number]) for r in self.records if keep(r))


def play(
    policy: Any = WALKERS,
    asset: str = "engine_walk",
    *,
    workers: int = 2,
    tasks: tuple[str, ...] = (),
    episodes: int | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    limits: Limits = PATIENT,
    retries: int = 0,
    env_args: dict[str, Any] | None = None,
    logs: Path | None = None,
    watch: Callable[[EpisodeRecord], None] = lambda _: None,
    in_worker: bool = False,
    confinement: Confinement | None = None,
    processes: int = 1,
    devices: tuple[str, ...] = (),
    supply: Supply | None = None,
    **policy_args: Any,
) -> Outcome:
    """Run an asset's episodes; exactly those of the plan are recorded, or this fails."""
    source = find_source(f"{ASSETS}/{asset}")
    if confinement is not None:
        source = confined(source, confinement)
    benchmark = declared(asset)
    plan = make_plan(
        benchmark,
        select(benchmark, (), tasks),
        episodes=episodes,
        seed=seed,
        seeding="shared",  # the assets tell episodes with odd seeds from others
        max_steps=max_steps,
    )
    args = policy_args if isinstance(policy, str) else {}
    policy = find_policy(read_policy(policy, args), benchmark)
    if in_worker:
        policy = InWorkers(**{f.name: getattr(policy, f.name) for f in fields(policy)})
    job = Job(
        spec=WorkerSpec(source, env_args or {}, limits, max_steps),
        benchmark=benchmark,
        plan=plan,
        episodes=() if supply else plan.episodes,
        supply=supply,
        policy=policy,
        workers=workers,
        retries=retries,
        logs=logs,
        policy_devices=devices or (None,) * processes,
    )
    records: list[EpisodeRecord] = []
    actions: dict[int, Any] = {}

    def keep(record, taken, steps):
        assert (0 if steps is None else len(steps)) == record.steps
        watch(record)
        records.append(record)
        actions[record.number] = (
            None if taken is None else (taken.dtype.str, taken.shape, taken.tobytes())
        )

    engine = Engine(job, keep)
    engine.run()
    order = [record.number for record in records]
    assert sorted(order) == list(range(len(plan.episodes)))
    assert engine.progress.done == len(records)
    records.sort(key=lambda record: record.number)
    return Outcome(
        tuple(replace(record, seconds=0.0, attempts=0) for record in records),
        actions,
        {record.number: record.attempts for record in records},
        order,
        engine,
    )


def declared(asset: str):
    """The benchmark that an asset declares, asked in this process."""
    spec = WorkerSpec(find_source(f"{ASSETS}/{asset}"), {}, PATIENT)
    remote = RemoteEnv("here", spec, inline=True)
    remote.load()
    return remote.answer(Loaded).benchmark


def load(asset: str):
    """The module of an asset."""
    source = find_source(f"{ASSETS}/{asset}")
    return load_file(Path(source.directory), source.file, source.package)


def load_policy(**policy_args: Any) -> Any:
    """A policy object of the asset's."""
    source = find_source(WALKERS)
    module = load_file(Path(source.directory), source.file, source.package)
    return module.make_policy(None, None, None, **policy_args)


def own_loop(env: Any, task: Any, index: int, seed: int, policy: Any) -> dict[str, Any]:
    """An episode as a benchmark's own loop would run it: no engine, everything drawn."""
    context = Context(
        "walk", task.name, task.description, index, seed, rng=make_rng(seed, task.name)
    )
    getattr(policy, "start", lambda _: None)(context)
    state = index % task.init_states if task.init_states else None
    options = None if state is None else {"init_state": state}
    observation, _ = env.reset(seed=seed, options=options)
    queue: list[Any] = []
    taken, total, first, told = [], 0.0, None, []
    for step in range(1, task.horizon + 1):
        if not queue:
            context.step = step - 1
            answer = np.asarray(policy.act(batch_of_one(observation), [context]))[0]
            queue = list(answer if answer.ndim == 2 else answer[None])
        taken.append(queue.pop(0).astype(np.float32))
        observation, reward, terminated, truncated, info = env.step(taken[-1])
        total += reward
        told.append(info.get("is_success"))
        first = first or (step if told[-1] else None)
        if terminated or truncated or (told[-1] and task.success == "once"):
            break
    won = bool(told[-1]) if task.success == "at_end" else first is not None
    end = "success" if told[-1] and task.success == "once" else None
    return {
        "task": task.name,
        "episode": index,
        "seed": seed,
        "init_state": state,
        "status": "ok",
        "success": None if told.count(None) == len(told) else won,
        "success_step": first,
        "end": end or ("terminated" if terminated else "truncated"),
        "return_": total,
        "steps": len(taken),
        "actions": np.stack(taken).tobytes(),
    }


def batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: batch_of_one(value) for key, value in observation.items()}
    return [observation] if isinstance(observation, str) else observation[None]


class Killer:
    """Kills processes that this one has started: one early, others soon after records.

    An episode ends between any two kills, so that a run gets on however slow the machine is.
    """

    def __init__(self, rng: random.Random, most: int = 4) -> None:
        self.killed: list[int] = []
        self._rng = rng
        self._most = most
        self._due = threading.Event()
        self._due.set()
        self._done = False
        self._thread = threading.Thread(target=self._work)

    def saw(self, record: EpisodeRecord) -> None:
        """An episode was recorded."""
        self._due.set()

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._due.set()
        self._thread.join()

    def _work(self) -> None:
        while self._due.wait() and not self._done and len(self.killed) < self._most:
            self._due.clear()
            time.sleep(self._rng.uniform(0.0, 0.4))
            victims = list(descendants(os.getpid()))
            if victims and not self._done:
                self.killed.append(self._rng.choice(victims))
                kill(self.killed[-1])
