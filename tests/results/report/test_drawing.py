"""The drawings: where an episode, a rate and a bar stand."""

from itertools import pairwise

import pytest
from support.manifests import record as written

from envhub.results.journal import record_from_json
from envhub.results.report.drawing import AXIS, histogram, kind, strip, strip_size, whisker
from envhub.results.summary import Line


def record(outcome, episode=0, **changes):
    return record_from_json({**written("near", episode, outcome), **changes}, episode)


@pytest.mark.parametrize(
    ("outcome", "name"),
    [("1", "success"), ("0", "failure"), ("p", "failure"), ("e", "error"), ("?", "unknown")],
)
def test_kinds(outcome, name):
    assert kind(record(outcome)) == name


def test_an_episode_stands_at_the_place_of_its_index():
    drawn = strip([record("1", 0), record("1", 1), record("0", 2), record("1", 5)])
    assert drawn == {"failure": "M12 9h5", "success": "M0 7h11M30 7h5"}


def test_a_strip_has_lines_of_fifty():
    drawn = strip([record("1", index) for index in range(120)])
    assert drawn == {"success": "M0 7h299M0 24h299M0 41h119"}
    assert (strip_size(10), strip_size(50), strip_size(120)) == ((60, 14), (300, 14), (300, 48))


def test_the_rate_on_its_axis():
    line = Line(
        n=10,
        n_distinct=10,
        n_tasks=1,
        rate=0.5,
        ci_low=0.25,
        ci_high=1.0,
        errors=0,
        policy_errors=0,
    )
    assert whisker(line) == {"low": AXIS / 4, "high": AXIS, "rate": AXIS / 2}
    assert whisker(Line(n=0, n_distinct=0, n_tasks=0, errors=0, policy_errors=0)) is None


def test_bars_cover_every_number_of_steps_once():
    records = [record("1" if steps % 3 else "0", steps=steps) for steps in range(1, 101)]
    bars = histogram(records, 100)
    assert (bars[0]["start"], bars[-1]["end"]) == (1, 100)
    assert all(left["end"] + 1 == right["start"] for left, right in pairwise(bars))
    assert sum(bar["won"] + bar["lost"] for bar in bars) == 100
    assert sum(bar["lost"] for bar in bars) == 33
    assert all(bar["won"] + bar["lost"] == bar["end"] - bar["start"] + 1 for bar in bars)


def test_few_steps_and_none():
    assert histogram([], 10) == []
    assert histogram([record("1", steps=1)], 1) == [{"start": 1, "end": 1, "won": 1, "lost": 0}]
