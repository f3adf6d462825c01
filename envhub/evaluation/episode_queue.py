"""The episodes that wait to be played, and how often each was tried. Pure."""

from collections.abc import Iterable

from envhub.evaluation.attempt import Attempt
from envhub.evaluation.job import Job
from envhub.evaluation.schedule import Schedule
from envhub.records import Episode


class EpisodeQueue:
    """The episodes of a job whose envs can be made."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._plan = job.plan
        self._retries = job.retries
        self._schedule = Schedule(job.playable(job.episodes), job.workers)
        self._failed: dict[int, int] = {}
        self._alone: set[int] = set()

    @property
    def left(self) -> int:
        """How many episodes wait."""
        return self._schedule.left

    def add(self, episodes: Iterable[Episode]) -> None:
        """Add episodes of the plan; any worker may help with them."""
        self._schedule.add(self._job.playable(episodes), self._job.workers)

    def take(self, task: str | None) -> Attempt | None:
        """Take the next episode for a worker, which may have a task open: see `Schedule.take`."""
        episode = self._schedule.take(task)
        if episode is None:
            return None
        number = self._failed.get(episode.number, 0) + 1
        told = self._plan.instruction(episode)
        plan = self._plan
        attempt = Attempt(
            episode, plan.tasks[episode.task], number, told, plan.delays, retold=plan.retold
        )
        attempt.alone = episode.number in self._alone
        return attempt

    def release(self, task: str | None) -> None:
        """Note that a worker has left its task."""
        self._schedule.release(task)

    def put_back(self, episode: Episode, *, alone: bool = False) -> None:
        """Return an episode that did not fail by itself; it is played again, perhaps alone."""
        if alone:
            self._alone.add(episode.number)
        self._schedule.put_back(episode)

    def retry(self, attempt: Attempt) -> bool:
        """Count a failed attempt; returns whether its episode is tried again."""
        self._failed[attempt.episode.number] = attempt.number
        again = attempt.number <= self._retries
        if again:
            self._schedule.put_back(attempt.episode)
        return again
