"""Drawing recorded episodes: one, or many in parallel."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from envhub.errors import EnvHubError, RunDirectoryError, UsageError
from envhub.evaluation.again import Again, Consent, Playback, prepared_again, recorded_actions
from envhub.evaluation.replay import OnFrame, Replay, Replayer
from envhub.evaluation.request import Watcher
from envhub.files import write_whole
from envhub.records import EpisodeRecord
from envhub.results.journal import PlannedEpisodes
from envhub.results.pictures import Video, check_encoder, png
from envhub.results.run import Run
from envhub.results.videos import (
    VideoFacts,
    keep_facts,
    keep_video,
    known_videos,
    video_path,
)
from envhub.wire.values import Array


@dataclass(frozen=True, slots=True)
class Undrawn:
    """An episode that could not be drawn, and why."""

    record: EpisodeRecord
    error: EnvHubError


def replay_episode(
    run: Run,
    record: EpisodeRecord,
    consent: Consent,
    watcher: Watcher,
    *,
    out: Path | None = None,
    every: int = 1,
    on_frame: OnFrame | None = None,
) -> Replay:
    """Draw one episode, into a file unless its frames go to a function.

    Args:
        run: The run.
        record: The episode.
        consent: What the user says about running its code.
        watcher: Receives messages.
        out: The file, `.mp4`, or `.png` for the last frame; None: the run's own video, or no file
            if `on_frame` is given.
        every: Steps from one frame to the next.
        on_frame: Called with each frame.

    Raises:
        UsageError: The file has another suffix.
        RuntimeUnavailable: A video is asked for and cannot be encoded.
    """
    if out is not None and out.suffix not in (".mp4", ".png"):
        raise UsageError(f"--out {out} must end in .mp4 or .png.")
    picture = out is not None and out.suffix == ".png"
    filming = not picture and (out is not None or on_frame is None)
    if filming:
        check_encoder()
    with (
        prepared_again(
            run,
            consent,
            watcher,
            policy=Playback(partial(recorded_actions, run.directory), [record]),
        ) as again,
        Video(again.prepared.benchmark.control_hz, every) if filming else nullcontext() as video,
    ):
        last: list[Array] = []

        def take(frame: Array) -> None:
            last[:] = [frame]
            if video is not None:
                video.add(frame)
            if on_frame is not None:
                on_frame(frame)

        # Of a picture only the last frame counts.
        replay = _replay(again, record, take, max(every, record.steps) if picture else every)
        content = png(last[0]) if video is None else video.finish()
    if filming and out is None:
        _keep(run, known_videos(run, run.records()), content, replay, every)
        return replace(replay, path=video_path(run, record.number))
    if out is not None:
        try:
            write_whole(out, content, durable=False)
        except OSError as exc:
            raise RunDirectoryError(f"{out} cannot be written: {exc.strerror}.") from exc
    return replace(replay, path=out)


def draw_videos(
    run: Run,
    records: Sequence[EpisodeRecord],
    consent: Consent,
    watcher: Watcher,
    *,
    every: int = 1,
    on_drawn: Callable[[int, int], object] = lambda _done, _total: None,
) -> list[Undrawn]:
    """Draw the videos of episodes that have none yet, in parallel.

    Args:
        run: The run.
        records: The episodes.
        consent: What the user says about running their code.
        watcher: Receives messages.
        every: Steps from one frame to the next.
        on_drawn: Called with the numbers of finished and of all videos.

    Returns:
        The episodes that could not be drawn.

    Raises:
        RuntimeUnavailable: Videos cannot be encoded.
    """
    known = known_videos(run, records)
    missing = [r for r in records if r.number not in known or known[r.number].every != every]
    if not missing:
        return []
    check_encoder()
    with prepared_again(
        run, consent, watcher, policy=Playback(partial(recorded_actions, run.directory), missing)
    ) as again:
        return _Crew(again, missing, every, on_drawn).draw()


class _Crew:
    """Threads with a worker each, which take one episode after the other."""

    def __init__(
        self,
        again: Again,
        records: Sequence[EpisodeRecord],
        every: int,
        on_drawn: Callable[[int, int], object],
    ) -> None:
        self._again, self._every, self._on_drawn = again, every, on_drawn
        self._waiting, self._total = deque(records), len(records)
        self._undrawn: list[Undrawn] = []
        self._facts = known_videos(again.run, again.run.records())
        self._done = 0
        self._lock = threading.Lock()
        self._stop = False
        planned = again.prepared.plan.episodes
        chosen = {record.number for record in records}
        self._job = again.prepared.job(
            tuple(episode for episode in planned if episode.number in chosen), again.logs
        )

    def draw(self) -> list[Undrawn]:
        count = max(1, min(self._job.workers, self._total))
        with ThreadPoolExecutor(count) as pool:
            try:
                for future in [pool.submit(self._work, index) for index in range(count)]:
                    future.result()
            except BaseException:
                self._stop = True
                raise
        return self._undrawn

    def _work(self, index: int) -> None:
        again = self._again
        first = again.prepared.worker.remote if index == 0 else None
        replayer: Replayer | None = None
        try:
            while (record := self._take()) is not None:
                try:
                    replayer = replayer or Replayer(again.run, self._job, index, first)
                    self._draw(replayer, record)
                except EnvHubError as error:
                    self._undrawn.append(Undrawn(record, error))
                    if replayer is not None:
                        replayer.close()
                    replayer, first = None, None
        finally:
            if replayer is not None:
                replayer.close()

    def _take(self) -> EpisodeRecord | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._stop else None

    def _draw(self, replayer: Replayer, record: EpisodeRecord) -> None:
        episode = PlannedEpisodes(self._again.run.run_info.plan)[record.task, record.episode]
        with Video(self._job.benchmark.control_hz, self._every) as video:
            replay = replayer.play(record, episode, video.add, self._every)
            content = video.finish()
        with self._lock:
            _keep(self._again.run, self._facts, content, replay, self._every)
            self._done += 1
            self._on_drawn(self._done, self._total)


def _replay(again: Again, record: EpisodeRecord, on_frame: OnFrame, every: int) -> Replay:
    job = again.prepared.job((), again.logs)
    episode = PlannedEpisodes(again.run.run_info.plan)[record.task, record.episode]
    replayer = Replayer(again.run, job, 0, again.prepared.worker.remote)
    try:
        return replayer.play(record, episode, on_frame, every)
    finally:
        replayer.close()


def _keep(
    run: Run, facts: dict[int, VideoFacts], content: bytes, replay: Replay, every: int
) -> None:
    """Write a video, and what is known about all of them."""
    number = replay.recorded.number
    keep_video(run, number, content)
    facts[number] = VideoFacts(replay.recorded.trace, every, replay.difference)
    keep_facts(run, facts)
