"""One recorded episode at a time, played again in an env made for it, and drawn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from envhub.errors import ContractError, RunDirectoryError, WorkerError
from envhub.evaluation.attempt import Attempt
from envhub.evaluation.job import Job
from envhub.evaluation.rerun import recorded_actions
from envhub.evaluation.slot import Slot
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import close_workers
from envhub.records import Episode, EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.pictures import frame_problem
from envhub.results.run import Run
from envhub.wire.messages import Done, Loaded, Opened, QuickStepped, Returned, Stepped, WasReset
from envhub.wire.values import Array

OnFrame = Callable[[Array], None]


@dataclass(frozen=True, slots=True)
class Replay:
    """How an episode went when its recorded actions were taken again."""

    recorded: EpisodeRecord
    record: EpisodeRecord
    """Of the episode as it went now; an episode that an error ended is played up to the error."""
    difference: int | None
    """The first step, from 1, whose reward or flags are not the recorded ones; None: no such."""
    frames: int
    """The number of frames that were drawn."""
    path: Path | None = None
    """The file with the video or the picture, if one was written."""

    @property
    def identical(self) -> bool:
        """Whether actions, rewards and flags are those of the recorded episode, bit by bit."""
        return self.record.trace == self.recorded.trace


class Replayer:
    """A worker that plays recorded episodes; nothing is observed, frames come from `render()`."""

    def __init__(self, run: Run, job: Job, index: int, first: RemoteEnv | None = None) -> None:
        """Start a worker, or take over one that has loaded the benchmark.

        Args:
            run: The run whose episodes are played.
            job: How workers are started.
            index: The worker's number.
            first: A worker that has loaded the benchmark.
        """
        self._run, self._job = run, job
        self._slot = Slot(index, job.spec, logs=job.logs, inline=False)
        self._slot.start(first)
        self._slot.needs = ()
        if first is None:
            self._load()

    def play(
        self, record: EpisodeRecord, episode: Episode, on_frame: OnFrame, every: int = 1
    ) -> Replay:
        """Play an episode again.

        Args:
            record: Its record.
            episode: The same episode in the plan.
            on_frame: Called with each frame: after the reset, after every `every` steps and after
                the last one.
            every: Steps from one frame to the next.

        Raises:
            RunDirectoryError: Its actions are missing, or not of this env.
            ContractError: The env draws no picture, or fails.
        """
        actions = recorded_actions(self._run.directory, record.number)
        slot = self._slot
        plan = self._job.plan
        told = plan.instruction(episode)
        slot.current = Attempt(episode, plan.tasks[episode.task], 1, told)
        try:
            mode = self._begin(episode, actions)
            frames = 0
            for count in self._steps(actions, every):
                on_frame(self._draw(mode))
                frames = count
            again = slot.attempt
            assert slot.spaces is not None
            return Replay(
                record,
                again.record(slot.spaces[1]),
                first_difference(
                    read_arrays(self._run.directory, record.number).steps, again.steps()
                ),
                frames,
            )
        finally:
            slot.end_episode()

    def close(self) -> None:
        """End the worker."""
        if self._slot.remote is not None:
            close_workers([self._slot.remote.worker], limit=self._job.limits.close)
        self._slot.close()

    def _load(self) -> None:
        try:
            self._slot.env.load()
            if self._slot.env.answer(Loaded).benchmark != self._job.benchmark:
                raise ContractError("The benchmark's code declares something else than before.")
        except BaseException:
            self.close()
            raise

    def _begin(self, episode: Episode, actions: Array) -> str | None:
        """Make an env for the episode and reset it; returns its render mode."""
        slot = self._slot
        slot.env.open(episode.suite, episode.task)
        opened = slot.env.answer(Opened)
        fresh = slot.take_spaces(opened)
        assert slot.spaces is not None
        space = slot.spaces[1]
        if actions.shape[1:] != space.shape or actions.dtype != space.dtype:
            raise RunDirectoryError(
                f"actions/{episode.number}.npy holds {actions.dtype} of shape {actions.shape[1:]}, "
                f"and the action space of {episode.task!r} is {space}: it is another env's."
            )
        if fresh:
            slot.share_memory()
        else:
            slot.attach()
        slot.env.answer(Done)
        slot.reset()
        answer = slot.env.answer(WasReset)
        slot.attempt.instruct(answer.description)
        return opened.render_mode

    def _steps(self, actions: Array, every: int) -> Iterator[int]:
        """Take the steps; yields the number of frames whenever one is due."""
        slot, frames = self._slot, 1
        yield frames
        for start in range(0, len(actions), every):
            slot.take_chunk(actions[start : start + every])
            while slot.has_actions and not slot.attempt.outcome.ended:
                slot.step()
                slot.take_steps(self._answer())
            frames += 1
            yield frames
            if slot.attempt.outcome.ended:
                return

    def _answer(self) -> Stepped | QuickStepped:
        answer = self._slot.env.worker.wait()
        if isinstance(answer, WorkerError):
            raise answer
        assert isinstance(answer, Stepped | QuickStepped)
        return answer

    def _draw(self, mode: str | None) -> Array:
        self._slot.env.render()
        frame = self._slot.env.answer(Returned).value
        problem = frame_problem(frame, mode)
        if problem is not None:
            raise ContractError(f"Task {self._slot.attempt.episode.task!r}: {problem}")
        assert isinstance(frame, np.ndarray)
        return frame


def first_difference(recorded: Array | None, again: Array | None) -> int | None:
    """Return the first step, from 1, in which two episodes differ; None if they do not.

    An episode that has no steps recorded is not compared.
    """
    if recorded is None or again is None:
        return None
    common = min(len(recorded), len(again))
    unequal = np.flatnonzero(recorded[:common] != again[:common])
    if len(unequal):
        return int(unequal[0]) + 1
    return None if len(recorded) == len(again) else common + 1
