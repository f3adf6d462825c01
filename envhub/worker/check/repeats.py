"""Whether an episode follows from its seed: in one env, in another, after others. In the worker."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.wire.messages import TraceStep
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import leaves
from envhub.wire.step_results import first_difference, success_of
from envhub.worker.check.notes import Notes
from envhub.worker.check.subject import Subject
from envhub.worker.envcalls import seed_shared_generators, take_reset, take_step
from envhub.worker.leaves import observers, readers

OUTCOME = "reward, flags or success"
Trace = list[TraceStep]
Before = Callable[[AnyEnv, int], object]
"""Called before the reset, as step -1, and before each step."""
Replay = Callable[..., Trace]
"""Plays the episode again, or another one."""

_OTHER_SEED = 987_654
RESET, TRAJECTORY = "reset-repeats", "trajectory-repeats"
FRESH, USED, GLOBALS = "same-in-fresh-env", "same-after-episodes", "own-generators"
OBSERVING, RENDERING = "observing-equal", "render-changes-nothing"


def inspect_repeats(subject: Subject, notes: Notes) -> None:
    """Play the same episode again and again, each time under other circumstances."""
    with subject.open(notes) as used:
        first, second = _first_step(subject, used), _first_step(subject, used)
        if not notes.judge(RESET, _told("Two resets with the same seed differ in", first, second)):
            return
        trace, again = play(subject, used), play(subject, used)
        later = again
        if trace == again:
            for number in (1, 2):
                play(subject, used, seed=subject.seed + number, index=number)
            later = play(subject, used)
    # One env at a time, as in an evaluation: many simulators draw into each other's windows.
    with subject.open(notes) as fresh:
        elsewhere = _play_new(subject, fresh)
        if trace not in (again, elsewhere):
            notes.judge(TRAJECTORY, _told("The same seed and actions differ in", trace, again))
            return
        notes.judge(TRAJECTORY, None)
        if not notes.judge(FRESH, _told("Another env differs in", trace, elsewhere)):
            return
        _check_circumstances(subject, fresh, trace, notes, leaky=trace != again)
    _check_used(subject, trace, later, notes)
    notes.trace = trace


def _check_circumstances(
    subject: Subject, fresh: AnyEnv, trace: Trace, notes: Notes, *, leaky: bool
) -> None:
    """Play the episode again, with one thing changed each time.

    Args:
        subject: The task.
        fresh: An env that has played the episode once.
        trace: The episode.
        notes: Gets what is found.
        leaky: Whether an env that was used differs anyway, so that each time needs a new one.
    """

    def replay(seed: int | None = None, index: int = 0, before: Before = _nothing) -> Trace:
        if not leaky:
            return play(subject, fresh, seed=seed, index=index, before=before)
        with subject.open(notes) as env:
            return _play_new(subject, env, seed=seed, index=index, before=before)

    _check_generators(trace, replay, notes)
    _check_observing(fresh, trace, replay, notes)
    _check_rendering(fresh, trace, replay, notes)
    _check_seeds(subject, trace, replay, notes)


def record_trace(subject: Subject, notes: Notes) -> None:
    """Play the episode once, in a new env, for comparison with other processes."""
    with subject.open(notes) as env:
        notes.trace = _play_new(subject, env)


def _nothing(_env: AnyEnv, _step: int) -> None:
    """Do nothing before a step."""


def play(
    subject: Subject,
    env: AnyEnv,
    *,
    seed: int | None = None,
    index: int = 0,
    before: Before = _nothing,
) -> Trace:
    """Play the first steps of an episode, and return the hashes of what it showed."""
    seed = subject.seed if seed is None else seed
    read = readers(env.observation_space)
    every = frozenset(leaf.path for leaf in leaves(env.observation_space))
    for observer in observers(env):
        observer.observing = every
    actions = subject.actions(env)
    seed_shared_generators(seed)
    before(env, -1)
    observation, _ = _reset(env, seed, subject.options(index))
    trace = [_hashes(read, observation, b"")]
    for step in range(min(subject.steps, subject.horizon(env))):
        before(env, step)
        observation, reward, terminated, truncated, info = take_step(env, actions.sample())
        outcome = repr((reward, terminated, truncated, _success(info))).encode()
        trace.append(_hashes(read, observation, outcome))
        if terminated or truncated:
            break
    return trace


def _told(beginning: str, one: Trace, other: Trace) -> str | None:
    found = first_difference(one, other)
    return None if found is None else f"{beginning} {found}."


def _play_new(subject: Subject, env: AnyEnv, **options: Any) -> Trace:
    """Play in a new env, which is reset as often before as the first one was."""
    _first_step(subject, env)
    _first_step(subject, env)
    return play(subject, env, **options)


def _check_generators(trace: Trace, replay: Replay, notes: Notes) -> None:
    """Play with other states of the generators that all code of a process shares."""

    def disturb(_env: AnyEnv, step: int) -> None:
        seed_shared_generators(_OTHER_SEED + step)

    found = _told(
        "Other states of random, numpy.random and torch change", trace, replay(before=disturb)
    )
    notes.judge(GLOBALS, found)


def _check_observing(env: AnyEnv, trace: Trace, replay: Replay, notes: Notes) -> None:
    """Observe nothing, everything, and each leaf alone, in turn."""
    if not observers(env):
        notes.skip(OBSERVING, "The env, or a wrapper around it, does not declare `observing`.")
        return
    paths = sorted(leaf.path for leaf in leaves(env.observation_space))
    turns = [frozenset[str](), frozenset(paths), *(frozenset({path}) for path in paths)]
    observed: list[frozenset[str]] = []

    def choose(played: AnyEnv, step: int) -> None:
        observed.append(turns[(step + 1) % len(turns)])
        for watcher in observers(played):
            watcher.observing = observed[-1]

    partly = replay(before=choose)
    found = _told("Observing a part changes", _seen(trace, observed), _seen(partly, observed))
    notes.judge(OBSERVING, found)


def _seen(trace: Trace, observed: list[frozenset[str]]) -> Trace:
    pairs = zip(trace, observed, strict=False)
    return [{k: v for k, v in step.items() if k == OUTCOME or k in paths} for step, paths in pairs]


def _check_rendering(env: AnyEnv, trace: Trace, replay: Replay, notes: Notes) -> None:
    if env.render_mode != "rgb_array":
        notes.skip(RENDERING, "The env renders no pictures.")
        return

    def render(shown: AnyEnv, step: int) -> None:
        if step >= 0:
            shown.render()

    notes.judge(RENDERING, _told("Calling render() changes", trace, replay(before=render)))


def _check_seeds(subject: Subject, trace: Trace, replay: Replay, notes: Notes) -> None:
    """Compare with other episodes of the task."""
    what = "initial states" if subject.task.init_states else "seeds"
    if subject.task.init_states == 1:
        notes.skip("seeds-differ", "The task has one initial state.")
        return
    same = all(replay(seed=subject.seed + k, index=k) == trace for k in (1, 2))
    notes.judge("seeds-differ", f"The episodes of three {what} are the same." if same else None)


def _check_used(subject: Subject, trace: Trace, again: Trace, notes: Notes) -> None:
    if subject.loaded.benchmark.reuse == "rebuild":
        notes.skip(USED, "Every episode gets a new env: reuse='rebuild'.")
        return
    notes.judge(USED, _told("After other episodes an episode differs in", trace, again))


def _first_step(subject: Subject, env: AnyEnv) -> Trace:
    """Reset, and return the hashes of the first observation."""
    read = readers(env.observation_space)
    for observer in observers(env):
        observer.observing = frozenset(leaf.path for leaf in leaves(env.observation_space))
    observation, _ = take_reset(env, subject.seed, subject.options())
    return [_hashes(read, observation, b"")]


def _reset(env: AnyEnv, seed: int, options: Any) -> tuple[Any, Any]:
    """Reset without seeding the generators that all code shares."""
    result = env.reset(seed=seed, options=options)
    return result[0], result[1]


def _hashes(read: list[Any], observation: Any, outcome: bytes) -> TraceStep:
    step = {reader.leaf.path: _hash(reader.read(observation)) for reader in read}
    step[OUTCOME] = hashlib.sha256(outcome).hexdigest()[:16]
    return step


def _hash(value: Any) -> str:
    data = value.encode() if isinstance(value, str) else np.ascontiguousarray(value).tobytes()
    return hashlib.sha256(data).hexdigest()[:16]


def _success(info: Any) -> bool | None:
    try:
        return success_of(info)
    except ContractError:  # another check judges it
        return None
