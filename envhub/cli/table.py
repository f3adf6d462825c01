"""The table at the end of a run, as a terminal shows it."""

import click

from envhub.results import table
from envhub.results.summary import Summary


def render(summary: Summary) -> str:
    """Render the rates with their intervals; the head and the last line stand out."""
    head, *lines, overall = table.render(summary).split("\n")
    return "\n".join((click.style(head, bold=True), *lines, click.style(overall, bold=True)))
