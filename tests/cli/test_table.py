"""The table at the end of a run, on a terminal."""

import click
from support.episodes import won

from envhub.cli.table import render
from envhub.results.summary import summarize


def test_head_and_overall_stand_out_on_a_terminal():
    summary = summarize([won("a")], {"s": ["a"]})
    first, *_, last = render(summary).split("\n")
    assert first.startswith("\x1b[1m")
    assert last.startswith("\x1b[1m")
    assert click.unstyle(render(summary)) == str(summary)
