"""`envhub report`: a run as one HTML file."""

import json
import webbrowser
from pathlib import Path

import click

from envhub.cli.filming import film
from envhub.cli.live import serve
from envhub.cli.options import WholeNumber, debug_option, json_option, local_path, rerun_options
from envhub.cli.output import echo_error
from envhub.errors import UsageError, printable
from envhub.evaluation.rerun import RerunOptions
from envhub.results.report.index import holds_runs
from envhub.results.report.page import report
from envhub.results.run import open_run
from envhub.results.videos import MAX_FRAMES, choose_episodes


@click.command("report")
@click.argument("directory", metavar="RUN", callback=local_path)
@click.argument("other", metavar="[RUN2]", required=False, callback=local_path)
@click.option(
    "--out",
    callback=local_path,
    metavar="FILE",
    help="The file to write.  [default: report.html in RUN, comparison.html in RUN2]",
)
@click.option(
    "--videos",
    default="none",
    metavar="none|some|failures|all|TASK:K,...",
    help="Episodes to draw; some: the first failure and the first success of each task.",
)
@click.option(
    "--every",
    type=WholeNumber(min=1),
    show_default=f"as many as give at most {MAX_FRAMES} frames",
    help="Draw every so many steps.",
)
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option(
    "--watch",
    is_flag=True,
    help="Serve a page on this machine that grows while a run or an experiment is played.",
)
@click.option("--parent", type=int, hidden=True)
@rerun_options
@json_option
@debug_option
def command(
    directory: Path,
    other: Path | None,
    *,
    out: Path | None,
    videos: str,
    every: int | None,
    open_it: bool,
    watch: bool,
    parent: int | None,
    options: RerunOptions,
    as_json: bool,
) -> None:
    """Write a page about a run: rates with intervals, every episode, failures, protocol.

    It is one file that opens from disk, without network or server, and can be sent to somebody.
    Videos lie beside it, in RUN/videos. With RUN2 the page compares RUN2 with RUN, episode by
    episode. Of a directory with runs in it, the page lists the runs.

    \b
    Examples:
        envhub report runs/my_env-20260101-120000 --open
        envhub report result --videos some
        envhub report baseline mine --out comparison.html
        envhub report runs
        envhub report runs/my_env-20260101-120000 --watch
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if watch:
        if other is not None or out is not None or videos != "none" or as_json:
            raise UsageError("--watch serves the page of one run: it takes --open alone.")
        serve(directory, open_it=open_it, parent=parent)
        return
    if videos != "none":
        if other is not None or holds_runs(directory):
            raise UsageError("--videos draws the episodes of one run: name that run alone.")
        run = open_run(directory)
        film(run, choose_episodes(run, videos), options, every=every, quiet=as_json)
    path = report(directory, out, other=other).resolve()
    if as_json:
        click.echo(json.dumps({"report": str(path), "bytes": path.stat().st_size}))
    else:
        click.echo(printable(str(path)))
    if open_it and not webbrowser.open(path.as_uri()):
        echo_error(printable(f"No browser was found here: open {path.as_uri()} in one."))
