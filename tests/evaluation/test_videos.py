"""Videos of recorded episodes: one, many in parallel, and those that cannot be drawn."""

import os
import signal
import time

import av
import pytest
from support.processes import descendants
from support.replays import copy_recorded, make_recorded

import envhub
from envhub.api import _Callbacks
from envhub.errors import UsageError
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.videos import VideoProgress, draw_videos
from envhub.results.videos import choose_episodes, known_videos, video_path


def film(path):
    """The number of frames of a video, without those that hold the last one, and its seconds."""
    with av.open(str(path)) as file:
        times = [float(frame.pts * frame.time_base) for frame in file.decode(video=0)]
    between = times[1] - times[0]
    return len(times) - round(1 / between), times[-1] - times[0] + between


def test_a_video(run):
    replay = envhub.replay(run, "at-end", 1)
    assert replay.path == video_path(run, replay.recorded.number)
    count, seconds = film(replay.path)
    assert count == replay.frames == replay.recorded.steps + 1
    assert seconds == pytest.approx(replay.frames / 8 + 1)  # the benchmark says 8 Hz
    assert known_videos(run, run.records())[replay.recorded.number].difference is None


def test_files(run, tmp_path):
    replay = envhub.replay(run, "once", 0, out=tmp_path / "film.mp4", every=3)
    assert (replay.path, film(replay.path)[0]) == (tmp_path / "film.mp4", replay.frames)
    picture = envhub.replay(run, "once", 0, out=tmp_path / "frame.png")
    assert picture.path.read_bytes().startswith(b"\x89PNG")
    assert picture.frames == 2
    with pytest.raises(UsageError, match=r"must end in \.mp4 or \.png"):
        envhub.replay(run, "once", 0, out=tmp_path / "film.gif")
    with pytest.raises(UsageError, match="cannot be written"):
        envhub.replay(run, "once", 0, out=tmp_path / "missing" / "film.mp4")


@pytest.mark.parametrize("workers", [1, 2])
def test_many(made, tmp_path, workers):
    run = copy_recorded(made, tmp_path / "run")
    told = []
    rerun_options = RerunOptions("report", workers=workers)
    records = choose_episodes(run, "all")
    undrawn = draw_videos(
        run, records, rerun_options, _Callbacks(), on_frame=lambda drawn: told.append(drawn)
    )
    assert undrawn == []
    frames = sum(record.steps + 1 for record in records)
    assert told[-1] == VideoProgress(4, 4, frames, frames)
    assert len(told) == 1 + 4 + frames
    assert set(known_videos(run, records)) == {record.number for record in records}
    for record in records:
        assert film(video_path(run, record.number))[0] == record.steps + 1
    assert not descendants(os.getpid())


def test_a_video_is_drawn_once(run):
    told = []

    def draw(text, **options):
        told.clear()
        records = choose_episodes(run, text)
        draw_videos(
            run,
            records,
            RerunOptions("report"),
            _Callbacks(),
            on_frame=lambda drawn: told.append(drawn),
            **options,
        )
        return told[-1].done if told else 0

    assert draw("once:0", every=2) == 1
    assert draw("once:0,once:1") == 1
    assert draw("once:1,once:0") == 0
    assert draw("once:1", every=2) == 0, "a video of more frames is not replaced"
    assert draw("once:0", every=1) == 1


def test_a_coarse_video_lies_beside_a_full_one(run):
    full = envhub.replay(run, "once", 0)
    size = full.path.stat().st_size
    coarse = envhub.replay(run, "once", 0, every=50)
    assert coarse.path == full.path.with_name(f"{full.recorded.number}.every50.mp4")
    assert full.path.stat().st_size == size
    assert known_videos(run, run.records())[full.recorded.number].every == 1


def test_stopped(run):
    """Ctrl-C ends it within a frame, and keeps the videos that are finished."""

    def stop(drawn):
        if drawn.done == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # the main thread has it before the next video begins

    with pytest.raises(KeyboardInterrupt):
        draw_videos(
            run,
            choose_episodes(run, "all"),
            RerunOptions("report", workers=1),
            _Callbacks(),
            on_frame=stop,
        )
    assert len(known_videos(run, run.records())) == 1
    assert not descendants(os.getpid())


def test_an_episode_that_cannot_be_drawn(run):
    """The others are drawn, by a new worker."""
    (run.directory / "actions" / "1.npy").unlink()
    rerun_options = RerunOptions("report", workers=1)
    (undrawn,) = draw_videos(run, choose_episodes(run, "all"), rerun_options, _Callbacks())
    assert (undrawn.record.number, str(undrawn.error)[-16:]) == (1, "(actions/1.npy).")
    assert sorted(known_videos(run, run.records())) == [0, 2, 3]


def test_an_env_that_draws_nothing(tmp_path):
    run = make_recorded(tmp_path / "run", tasks="once", episodes=2, env_args={"picture": "none"})
    undrawn = draw_videos(run, choose_episodes(run, "all"), RerunOptions("report"), _Callbacks())
    assert [each.record.number for each in sorted(undrawn, key=lambda u: u.record.number)] == [0, 1]
    assert "not a picture" in str(undrawn[0].error)
