"""Planned episodes and their records."""

from dataclasses import replace

from envhub.records import Episode, EpisodeError, EpisodeRecord

EPISODES = tuple(Episode(n, "s", "t", n, 7 + n, None) for n in range(9))

NUMBERS = {(episode.task, episode.index): episode.number for episode in EPISODES}


def record(number: int, **changes: object) -> EpisodeRecord:
    made = EpisodeRecord(
        suite="s",
        task="t",
        episode=number,
        seed=7 + number,
        init_state=None,
        status="ok",
        success=True,
        success_step=2,
        end="success",
        return_=0.1 + 0.2,
        steps=2,
        out_of_bounds=0,
        trace="sha256:" + "0" * 64,
        seconds=0.5,
        attempts=1,
        error=None,
        number=number,
    )
    return replace(made, **changes)


def failed(number: int) -> EpisodeRecord:
    error = EpisodeError("env", "OSError", "so \n\x1b[2J \ud800 ☃", 3)
    return record(number, status="env_error", success=None, end="error", error=error)
