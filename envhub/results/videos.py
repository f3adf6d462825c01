"""The videos of a run: `RUN/videos/<number>.mp4`, and what is known about each."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import inf, isnan
from pathlib import Path

from msgspec import convert

from envhub.errors import RunDirectoryError, UnknownName, UsageError
from envhub.files import write_whole
from envhub.records import EpisodeRecord
from envhub.results.journal import PlannedEpisodes, read_json
from envhub.results.run import Run

FOLDER = "videos"
_INDEX = "index.json"
_MAX_INDEX = 2**22
"""Bytes; 30,000 videos have fewer."""
MAX_FRAMES = 200
"""Of a video for which the user chose no distance of frames: most of the time goes to drawing."""
_NAMED = re.compile(r"(.+):(\d{1,9})")


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """What is known about a video."""

    trace: str
    """Of the record that it shows; a video of another record is not shown."""
    every: int
    """Steps from one frame to the next."""
    difference: int | None
    """The first step that went differently when it was drawn."""


def choose_episodes(run: Run, text: str) -> tuple[EpisodeRecord, ...]:
    """Return the recorded episodes that `--videos` names, in the order of the plan.

    Args:
        run: The run.
        text: `none`, `some` (the first failure and the first success of each task), `failures`,
            `all`, or `TASK:K,...`.

    Raises:
        UsageError: It names an episode that is not in the run, or has no record.
    """
    records = [record for record in run.records() if record.steps]
    match text:
        case "none":
            return ()
        case "all":
            return tuple(records)
        case "failures":
            return tuple(record for record in records if not record.success)
        case "some":
            return some_episodes(records)
    return tuple(find_episode(run, name.strip()) for name in text.split(","))


def some_episodes(records: Iterable[EpisodeRecord]) -> tuple[EpisodeRecord, ...]:
    """Return the first failure and the first success of each task."""
    firsts: dict[tuple[str, bool], EpisodeRecord] = {}
    for record in records:
        firsts.setdefault((record.task, bool(record.success)), record)
    return tuple(sorted(firsts.values(), key=lambda record: record.number))


def first_episodes(run: Run, count: int) -> tuple[EpisodeRecord, ...]:
    """Return at most so many episodes: failures first, of one task after the other in turn."""
    turns: Counter[tuple[str, bool]] = Counter()
    ranked: list[tuple[bool, int, EpisodeRecord]] = []
    for record in run.records():
        if record.steps:
            kind = (record.task, record.success is True)
            ranked.append((record.success is True, turns[kind], record))
            turns[kind] += 1
    ranked.sort(key=lambda each: (*each[:2], each[2].number))
    return tuple(record for _, _, record in ranked[:count])


def failed_episode(run: Run, task: str | None = None) -> EpisodeRecord:
    """Return the first episode that failed, of all tasks or of one.

    Raises:
        UsageError: None failed, or there is no such task.
    """
    for record in _drawable(run, task):
        if record.success is not True:
            return record
    place = f"of {task} in {run.directory}" if task else f"in {run.directory}"
    raise UsageError(f"No episode {place} failed. --worst draws the one with the lowest return.")


def worst_episode(run: Run, task: str | None = None) -> EpisodeRecord:
    """Return the failure with the lowest return; if none failed, the success with the lowest.

    Raises:
        UsageError: Nothing was played, or there is no such task.
    """
    records = _drawable(run, task)
    if not records:
        raise UsageError(f"{run.directory} has no episode to draw: none has a step.")
    return min(records, key=lambda r: (r.success is True, _ordered(r.return_), r.number))


def _ordered(value: float) -> float:
    """Return a number that can be ordered: NaN is the lowest."""
    return -inf if isnan(value) else value


def _drawable(run: Run, task: str | None) -> list[EpisodeRecord]:
    tasks = run.run_info.plan.tasks
    if task is not None and task not in tasks:
        raise UnknownName("task", task, tasks)
    return [r for r in run.records() if r.steps and (task is None or r.task == task)]


def find_episode(run: Run, name: str) -> EpisodeRecord:
    """Return the record of `TASK:K`.

    Raises:
        UsageError: There is no such episode, or it has no record.
    """
    found = _NAMED.fullmatch(name)
    if found is None:
        raise UsageError(f"{name!r} is not an episode: write TASK:K, such as {_example(run)}.")
    try:
        episode = PlannedEpisodes(run.run_info.plan)[found[1], int(found[2])]
    except KeyError:
        raise UsageError(
            f"{run.directory} has no episode {name}: they are named like {_example(run)}, "
            f"with K from 0 to {run.run_info.plan.episodes - 1}."
        ) from None
    for record in run.records():
        if record.number == episode.number:
            return record
    raise UsageError(f"{name} has not been played yet.")


def _example(run: Run) -> str:
    return f"{next(iter(run.run_info.plan.tasks))}:0"


def known_videos(run: Run, records: Sequence[EpisodeRecord]) -> dict[int, VideoFacts]:
    """Return what is known about the videos of these records, by the number of the episode.

    An index that is missing, damaged, or of other records knows of none.
    """
    folder = run.directory / FOLDER
    try:
        facts = convert(read_json(folder / _INDEX, _MAX_INDEX), dict[str, VideoFacts])
    except (OSError, ValueError):
        return {}
    return {
        record.number: found
        for record in records
        if (found := facts.get(str(record.number))) is not None
        and found.trace == record.trace
        and video_path(run, record.number).is_file()
    }


def frame_distance(steps: int) -> int:
    """Return the steps from one frame to the next of an episode, if the user chose none."""
    return max(1, -(-steps // MAX_FRAMES))


def video_path(run: Run, number: int) -> Path:
    """Return where the video of an episode is, or would be."""
    return run.directory / FOLDER / f"{number}.mp4"


def keep_video(run: Run, number: int, content: bytes) -> None:
    """Write the video of an episode.

    Raises:
        RunDirectoryError: It cannot be written.
    """
    folder = run.directory / FOLDER
    try:
        if folder.is_symlink():
            raise RunDirectoryError(f"{folder} is a link: a run writes only to its own directory.")
        folder.mkdir(exist_ok=True)
        write_whole(video_path(run, number), content, durable=False)
    except OSError as exc:
        raise RunDirectoryError(f"{folder} cannot be written: {exc.strerror}.") from exc


def keep_facts(run: Run, facts: dict[int, VideoFacts]) -> None:
    """Write what is known about the videos, after the videos themselves."""
    content = {str(number): asdict(each) for number, each in sorted(facts.items())}
    text = json.dumps(content, indent=1) + "\n"
    write_whole(run.directory / FOLDER / _INDEX, text.encode(), durable=False)
