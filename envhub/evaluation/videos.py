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
from envhub.evaluation.replay import OnFrame, Replay, Replayer
from envhub.evaluation.request import Watcher
from envhub.evaluation.rerun import Playback, Rerun, RerunOptions, prepare_rerun, recorded_actions
from envhub.files import write_whole
from envhub.records import EpisodeRecord
from envhub.results.journal import PlannedEpisodes
from envhub.results.pictures import Video, check_encoder, png
from envhub.results.run import Run
from envhub.results.videos import (
    VideoFacts,
    frame_distance,
    keep_facts,
    keep_video,
    known_videos,
    video_path,
)
from envhub.wire.values import Array


@dataclass(frozen=True, slots=True)
class VideoFailure:
    """An episode that could not be drawn, and why."""

    record: EpisodeRecord
    error: EnvHubError


@dataclass(frozen=True, slots=True)
class VideoProgress:
    """How far the drawing of videos is."""

    done: int
    """Videos that are finished."""
    videos: int
    frame: int
    """Frames that are drawn."""
    frames: int
    """Of all videos; an episode that goes differently may have fewer."""


def replay_episode(
    run: Run,
    record: EpisodeRecord,
    options: RerunOptions,
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
        options: What the user says about running its code.
        watcher: Receives messages.
        out: The file, `.mp4`, or `.png` for the last frame; None: the run's own video, or no file
            if `on_frame` is given. A video of more frames is not replaced: this one lies beside it.
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
        prepare_rerun(
            run,
            options,
            watcher,
            policy=Playback(partial(recorded_actions, run.directory), [record]),
        ) as rerun,
        Video(rerun.prepared.benchmark.control_hz, every) if filming else nullcontext() as video,
    ):
        last: list[Array] = []

        def take(frame: Array) -> None:
            last[:] = [frame]
            if video is not None:
                video.add(frame)
            if on_frame is not None:
                on_frame(frame)

        # Of a picture only the last frame counts.
        replay = _replay(rerun, record, take, max(every, record.steps) if picture else every)
        content = png(last[0]) if video is None else video.finish()
    if filming and out is None:
        known = known_videos(run, run.records())
        kept = known.get(record.number)
        if kept is None or kept.every >= every:
            _keep(run, known, content, replay, every)
            return replace(replay, path=video_path(run, record.number))
        out = video_path(run, record.number).with_suffix(f".every{every}.mp4")
    if out is not None:
        try:
            write_whole(out, content, durable=False)
        except OSError as exc:
            raise RunDirectoryError(f"{out} cannot be written: {exc.strerror}.") from exc
    return replace(replay, path=out)


def draw_videos(
    run: Run,
    records: Sequence[EpisodeRecord],
    options: RerunOptions,
    watcher: Watcher,
    *,
    every: int | None = None,
    on_frame: Callable[[VideoProgress], object] = lambda _: None,
) -> list[VideoFailure]:
    """Draw the videos of episodes that have none yet, or one of fewer frames, in parallel.

    Args:
        run: The run.
        records: The episodes.
        options: What the user says about running their code.
        watcher: Receives messages.
        every: Steps from one frame to the next; None: so many that no video has more than
            `MAX_FRAMES` frames, and any video that there is will do.
        on_frame: Called before the first frame and for every frame, by one thread at a time.

    Returns:
        The episodes that could not be drawn.

    Raises:
        RuntimeUnavailable: Videos cannot be encoded.
    """
    known = known_videos(run, records)
    missing = [
        record
        for record in records
        if record.number not in known or (every is not None and known[record.number].every > every)
    ]
    if not missing:
        return []
    check_encoder()
    with prepare_rerun(
        run, options, watcher, policy=Playback(partial(recorded_actions, run.directory), missing)
    ) as rerun:
        return _VideoWorkers(rerun, missing, every, on_frame).draw()


class _VideoWorkers:
    """Threads with a worker each, which take one episode after the other."""

    def __init__(
        self,
        rerun: Rerun,
        records: Sequence[EpisodeRecord],
        every: int | None,
        on_frame: Callable[[VideoProgress], object],
    ) -> None:
        self._rerun, self._on_frame = rerun, on_frame
        self._every = {r.number: every or frame_distance(r.steps) for r in records}
        self._waiting = deque(records)
        frames = sum(1 - (-r.steps // self._every[r.number]) for r in records)
        self._drawn = VideoProgress(0, len(records), 0, frames)
        self._undrawn: list[VideoFailure] = []
        self._facts = known_videos(rerun.run, rerun.run.records())
        self._lock = threading.Lock()
        self._stop = False
        planned = rerun.prepared.plan.episodes
        chosen = {record.number for record in records}
        self._job = rerun.prepared.job(
            tuple(episode for episode in planned if episode.number in chosen), rerun.logs
        )

    def draw(self) -> list[VideoFailure]:
        self._on_frame(self._drawn)
        count = max(1, min(self._job.workers, self._drawn.videos))
        with ThreadPoolExecutor(count) as pool:
            try:
                for future in [pool.submit(self._work, index) for index in range(count)]:
                    future.result()
            except BaseException:
                self._stop = True
                raise
        return self._undrawn

    def _work(self, index: int) -> None:
        rerun = self._rerun
        first = rerun.prepared.worker.remote if index == 0 else None
        replayer: Replayer | None = None
        try:
            while (record := self._take()) is not None:
                try:
                    replayer = replayer or Replayer(rerun.run, self._job, index, first)
                    self._draw(replayer, record)
                except _Stopped:
                    return
                except EnvHubError as error:
                    self._undrawn.append(VideoFailure(record, error))
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
        episode = PlannedEpisodes(self._rerun.run.run_info.plan)[record.task, record.episode]
        every = self._every[record.number]
        with Video(self._job.benchmark.control_hz, every) as video:

            def take(frame: Array) -> None:
                if self._stop:
                    raise _Stopped
                video.add(frame)
                self._count(frames=1)

            replay = replayer.play(record, episode, take, every)
            content = video.finish()
        with self._lock:
            _keep(self._rerun.run, self._facts, content, replay, every)
        self._count(done=1)

    def _count(self, *, done: int = 0, frames: int = 0) -> None:
        with self._lock:
            drawn = self._drawn
            self._drawn = replace(drawn, done=drawn.done + done, frame=drawn.frame + frames)
            self._on_frame(self._drawn)


class _Stopped(Exception):
    """Ends a video that is not to be finished."""


def _replay(rerun: Rerun, record: EpisodeRecord, on_frame: OnFrame, every: int) -> Replay:
    job = rerun.prepared.job((), rerun.logs)
    episode = PlannedEpisodes(rerun.run.run_info.plan)[record.task, record.episode]
    replayer = Replayer(rerun.run, job, 0, rerun.prepared.worker.remote)
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
