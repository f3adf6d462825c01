"""`envhub replay`: play a recorded episode again, and draw it."""

import json
from pathlib import Path

import click

from envhub.cli.options import (
    WholeNumber,
    debug_option,
    json_option,
    local_path,
    rerun_options,
)
from envhub.cli.progress import make_watcher
from envhub.errors import UsageError, printable
from envhub.evaluation.replay import Replay
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.videos import replay_episode
from envhub.records import EpisodeRecord
from envhub.results.run import Run, open_run
from envhub.results.videos import failed_episode, find_episode, worst_episode


@click.command("replay")
@click.argument("directory", metavar="RUN", callback=local_path)
@click.argument("episode", metavar="[TASK:K]", required=False)
@click.option("--failed", is_flag=True, help="The first episode that failed; TASK: of that task.")
@click.option(
    "--worst", is_flag=True, help="The failure with the lowest return; TASK: of that task."
)
@click.option(
    "--out",
    callback=local_path,
    metavar="FILE",
    help="A .mp4 file, or .png for the last frame.  [default: videos/NUMBER.mp4 in RUN]",
)
@click.option("--every", type=WholeNumber(min=1), default=1, help="Draw every so many steps.")
@rerun_options
@json_option
@debug_option
def command(
    directory: Path,
    episode: str | None,
    *,
    failed: bool,
    worst: bool,
    out: Path | None,
    every: int,
    options: RerunOptions,
    as_json: bool,
) -> None:
    """Play episode K of a task of RUN again from its recorded actions, and save its video.

    No policy is needed. What the episode's policy saw is not drawn, only what the env's render()
    shows. It says whether the episode went as recorded, bit by bit.

    \b
    Examples:
        envhub replay runs/my_env-20260101-120000 reach-red:3
        envhub replay result reach-red:3 --out frame.png
        envhub replay result --failed
        envhub replay result --worst reach-red
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    run = open_run(directory)
    record = _choose(run, episode, failed=failed, worst=worst)
    watcher = make_watcher(quiet=as_json)
    replay = replay_episode(run, record, options, watcher, out=out, every=every)
    if as_json:
        click.echo(json.dumps(_content(replay)))
        return
    click.echo(printable(str(replay.path)))
    if not replay.identical:
        watcher.message(_difference(replay))


def _choose(run: Run, episode: str | None, *, failed: bool, worst: bool) -> EpisodeRecord:
    if failed and worst:
        raise UsageError("--failed and --worst name two episodes: give one of them.")
    if failed:
        return failed_episode(run, episode)
    if worst:
        return worst_episode(run, episode)
    if episode is None:
        raise UsageError("Name an episode as TASK:K, or give --failed or --worst.")
    return find_episode(run, episode)


def _content(replay: Replay) -> dict[str, object]:
    return {
        "task": replay.recorded.task,
        "episode": replay.recorded.episode,
        "file": str(replay.path),
        "frames": replay.frames,
        "identical": replay.identical,
        "difference": replay.difference,
    }


def _difference(replay: Replay) -> str:
    if replay.difference is None:
        return "The replay is not the recorded episode: its actions are other ones."
    return f"The replay went differently from step {replay.difference} on: envhub verify says more."
