"""One whole episode with random actions: what the env returns, and when. Runs in the worker."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import leaves
from envhub.wire.step_results import SUCCESSES, describe_unread, success_of
from envhub.wire.values import NotPortable, portable
from envhub.worker.attributes import description_of
from envhub.worker.check.notes import Notes, describe
from envhub.worker.check.subject import Subject
from envhub.worker.check.values import check_observation
from envhub.worker.envcalls import step_result_of, take_reset
from envhub.worker.leaves import observers
from envhub.worker.make_env import EnvOfVector


class _EpisodeCheck:
    """Plays one episode, and judges every part of it."""

    def __init__(self, subject: Subject, env: AnyEnv, notes: Notes) -> None:
        self._subject, self._env, self._notes = subject, env, notes
        self._actions = subject.actions(env)
        self._observers = observers(env)
        self._leaves = frozenset(leaf.path for leaf in leaves(env.observation_space))
        self._instruction = ""
        self._resets: list[str] = []
        self._seconds: list[float] = []
        self._reported: list[bool | None] = []

    def play(self) -> None:
        """Play to the end, or as long as the subject says."""
        if not self._reset():
            return
        self._watch_resets()
        ended = False
        for index in range(min(self._subject.length, self._subject.horizon(self._env))):
            self._observe(whole=index < self._subject.steps)
            stepped = self._step(index)
            if stepped is None:
                return
            ended = stepped
            if ended:
                break
        self._notes.judge("no-reset-in-step", self._resets[0] if self._resets else None)
        self._judge_success()
        self._check_after_end(ended=ended)
        if len(self._seconds) > 1:
            self._notes.figures["step_ms"] = 1000 * float(np.median(self._seconds))

    def _reset(self) -> bool:
        notes, subject, env = self._notes, self._subject, self._env
        self._observe(whole=True)
        start = time.perf_counter()
        try:
            observation, info = take_reset(env, subject.seed, subject.options())
        except (Exception, SystemExit) as exc:
            notes.judge("reset-works", f"reset() raised {describe(exc)}.")
            return False
        notes.figures["first_reset_s"] = time.perf_counter() - start
        problem = None
        if not isinstance(info, Mapping):
            problem = f"reset() returned an info of type {type(info).__name__}."
        notes.judge("reset-works", problem)
        check_observation(notes, observation, env.observation_space, "after reset")
        if problem is not None:
            return False
        self._check_info(info, "reset")
        told = next((info[key] for key in SUCCESSES if key in info), None)
        at_once = told is not None and np.all(np.asarray(told) == True)  # noqa: E712
        notes.judge(
            "success-not-at-reset", f"reset() returned the success {told!r}." if at_once else None
        )
        self._check_instruction()
        return True

    def _step(self, index: int) -> bool | None:
        """Take a step and judge it; None if it cannot go on."""
        notes, env = self._notes, self._env
        action = self._actions.sample()
        given = np.array(action, copy=True) if isinstance(action, np.ndarray) else None
        start = time.perf_counter()
        try:
            result: Any = env.step(action)
        except (Exception, SystemExit) as exc:
            notes.judge("step-works", f"step() raised {describe(exc)} at step {index}.")
            return None
        self._seconds.append(time.perf_counter() - start)
        if not isinstance(result, tuple) or len(result) != 5:
            found = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            notes.judge("step-works", f"step() returned {found} instead of 5 values.")
            return None
        observation, reward, terminated, truncated, info = result
        changed = given is not None and not np.array_equal(given, action)
        notes.judge("action-unchanged", "step() changed the action's array." if changed else None)
        if not isinstance(info, Mapping):
            kind = type(info).__name__
            notes.judge("step-works", f"step() returned an info of type {kind}.")
            return None
        notes.judge("step-works", None)
        if index < self._subject.steps or not self._observers:
            check_observation(notes, observation, env.observation_space, f"after step {index}")
        self._check_info(info, f"step {index}")
        self._check_success(info, index)
        if index < self._subject.steps:
            self._check_stable(index)
        return self._check_outcome(reward, terminated, truncated, index)

    def _check_outcome(self, reward: Any, terminated: Any, truncated: Any, index: int) -> bool:
        notes = self._notes
        flags = [flag for flag in (terminated, truncated) if type(flag) not in (bool, np.bool_)]
        found = f"step() returned the flag {flags[0]!r} at step {index}." if flags else None
        notes.judge("flags-boolean", found)
        try:
            good = bool(np.isfinite(step_result_of(reward, False, False)[0]))
        except ContractError:
            good = False
        notes.judge("reward-finite", None if good else f"The reward of step {index} is {reward!r}.")
        return bool(np.any(terminated)) or bool(np.any(truncated))

    def _check_info(self, info: Mapping[Any, Any], when: str) -> None:
        bad: list[str] = []
        for key, value in info.items():
            try:
                portable({key: value})
            except NotPortable:
                bad.append(f"{key!r} ({type(value).__name__})")
        found = f"The info of {when} has {', '.join(bad)}." if bad else None
        self._notes.judge("info-plain", found)

    def _check_success(self, info: Mapping[Any, Any], index: int) -> None:
        key = next((key for key in SUCCESSES if key in info), None)
        found = f"The info of step {index} has neither is_success nor success."
        if unread := describe_unread(name for name in info if isinstance(name, str)):
            found += f" Its {unread}"
        self._notes.judge("success-reported", found if key is None else None)
        if key is None:
            return
        value = info[key]
        is_bool = np.asarray(value).dtype == np.bool_ and np.size(value) == 1
        found = f"info[{key!r}] is {value!r} at step {index}."
        self._notes.judge("success-boolean", None if is_bool else found)
        self._reported.append(success_of(info) if is_bool else None)

    def _judge_success(self) -> None:
        if self._reported[:1] == [True]:
            self._notes.judge("success-not-at-reset", "The first step of an episode succeeds.")

    def _check_instruction(self) -> None:
        notes, subject = self._notes, self._subject
        text = self._instruction = subject.instruction(self._env)
        name = subject.task.name
        if not notes.judge(
            "instruction-present", None if text.strip() else f"Only the task's name: {name!r}."
        ):
            return
        slug = len(text.split()) < 2 or text == name
        notes.judge("instruction-sentence", f"The instruction is {text!r}." if slug else None)
        own = description_of(self._env)
        if subject.published or own is None:
            notes.skip("instruction-agrees", "Only one of task and env says it.")
            return
        said = f"The task says {subject.task.description!r}, its env {own!r}."
        notes.judge("instruction-agrees", said if own != subject.task.description else None)

    def _check_stable(self, index: int) -> None:
        now = self._subject.instruction(self._env)
        changed = f"It was {self._instruction!r} after reset and {now!r} after step {index}."
        self._notes.judge("instruction-stable", None if now == self._instruction else changed)

    def _watch_resets(self) -> None:
        """Note calls of the innermost env's reset: nothing but a step could make them now."""
        inner: Any = self._env.unwrapped
        original = inner.reset

        def noted(*args: Any, **kwargs: Any) -> Any:
            self._resets.append(f"step() called reset() at step {len(self._seconds)}.")
            return original(*args, **kwargs)

        inner.reset = noted

    def _check_after_end(self, *, ended: bool) -> None:
        """Step once more; an env may raise, or say again that the episode has ended."""
        check = "nothing-after-end"
        if not ended or isinstance(self._env, EnvOfVector):
            self._notes.skip(check, "The env itself ended no episode.")
            return
        try:
            result = self._env.step(self._actions.sample())
        except Exception:  # just as it should
            self._notes.judge(check, None)
            return
        goes_on = not (np.any(result[2]) or np.any(result[3]))
        found = "A step after the end returned terminated and truncated as False."
        self._notes.judge(check, found if goes_on else None)

    def _observe(self, *, whole: bool) -> None:
        for observer in self._observers:
            observer.observing = self._leaves if whole else frozenset()


def inspect_episode(subject: Subject, notes: Notes) -> None:
    """Play an episode with random actions, and measure the worker's memory."""
    with subject.open(notes) as env:
        _EpisodeCheck(subject, env, notes).play()
    notes.figures["memory_mb"] = _peak_mb()
    if not {"reset-works", "close-works"} & notes.failed.keys():
        _check_reopening(subject, notes)


def _check_reopening(subject: Subject, notes: Notes) -> None:
    try:
        with subject.open(notes) as env:
            take_reset(env, subject.seed, subject.options())
    except (Exception, SystemExit) as exc:
        notes.judge("reopens", f"Another env, after the first was closed: {describe(exc)}.")
    else:
        notes.judge("reopens", None)


def _peak_mb() -> float:
    """The most memory that this process has used so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
