"""Drawing the videos of a run, with progress: for `report` and `eval`."""

import sys
from collections.abc import Sequence

from envhub.cli.options import message
from envhub.cli.output import echo_error
from envhub.cli.progress import make_watcher
from envhub.evaluation.again import Consent
from envhub.evaluation.videos import draw_videos
from envhub.records import EpisodeRecord
from envhub.results.run import Run


def film(
    run: Run,
    records: Sequence[EpisodeRecord],
    consent: Consent,
    *,
    every: int = 1,
    quiet: bool = False,
) -> None:
    """Draw the videos of these episodes, and say which could not be drawn."""
    if not records:
        return
    progress = None if quiet else _show
    watcher = make_watcher(quiet=True)
    undrawn = draw_videos(
        run, records, consent, watcher, every=every, on_drawn=progress or (lambda *_: None)
    )
    if undrawn:
        first = undrawn[0]
        message(
            f"{len(undrawn)} of {len(records)} videos could not be drawn, the first, of "
            f"{first.record.task}:{first.record.episode}: {first.error}"
        )


def _show(done: int, total: int) -> None:
    noun = "video" if total == 1 else "videos"
    if sys.stderr.isatty():
        echo_error(f"\r{done}/{total} {noun} drawn" + ("\n" if done == total else ""), end="")
    elif done == total:
        echo_error(f"{total} {noun} drawn")
