"""The table at the end of a run, as a terminal shows it."""

import shutil

import click

from envhub.cli.output import encodable
from envhub.results import table
from envhub.results.summary import Summary


def render(summary: Summary) -> str:
    """Render the rates with their intervals; the head and the last line stand out.

    As wide as the terminal, or 80 columns without one; in characters that standard output has.
    """
    columns = shutil.get_terminal_size((table.WIDTH, 24)).columns
    head, *lines = encodable(table.render(summary, columns)).split("\n")
    last = max(index for index, line in enumerate(lines) if line.startswith("overall"))
    lines[last] = click.style(lines[last], bold=True)
    return "\n".join((click.style(head, bold=True), *lines))
