"""`envhub report`: a run as one HTML file."""

import json
import webbrowser
from pathlib import Path

import click

from envhub.cli.options import debug_option, json_option, local_path
from envhub.cli.output import echo_error
from envhub.errors import printable
from envhub.results.report.page import report


@click.command("report")
@click.argument("directory", metavar="RUN", callback=local_path)
@click.option(
    "--out",
    callback=local_path,
    metavar="FILE",
    help="The file to write.  [default: report.html in RUN]",
)
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@json_option
@debug_option
def command(directory: Path, *, out: Path | None, open_it: bool, as_json: bool) -> None:
    """Write a page about a run: rates with intervals, every episode, failures, protocol.

    It is one file that opens from disk, without network or server, and can be sent to somebody.

    \b
    Examples:
        envhub report runs/my_env-20260101-120000 --open
        envhub report result --out result.html
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    path = report(directory, out).resolve()
    if as_json:
        click.echo(json.dumps({"report": str(path), "bytes": path.stat().st_size}))
    else:
        click.echo(printable(str(path)))
    if open_it and not webbrowser.open(path.as_uri()):
        echo_error(printable(f"No browser was found here: open {path.as_uri()} in one."))
