"""The table of a run, as plain text."""

import re

import pytest
from support.episodes import env_error, lost, policy_error, silent, won

from envhub.results.summary import summarize
from envhub.results.table import WIDTH, render


def table(records, suites, width=120) -> list[str]:
    return render(summarize(records, suites), width).split("\n")


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_one_suite():
    records = [
        *[won("reach", reward=10.5, steps=7)] * 3,
        lost("reach", reward=2.0, steps=100),
        *[lost("push-it", reward=-100.0, steps=9)] * 2,
    ]
    assert table(records, {"s": ["reach", "push-it"]}) == [
        "         success  95 % interval                        episodes   return  steps  errors",
        "reach      75.0%  30.1% - 95.4%  ███████████████·····         4     8.38   30.2",
        "push-it     0.0%   0.0% - 65.8%  ····················         2  -100.00    9.0",
        "─" * 87,
        "overall    37.5%  13.5% - 69.8%  ████████············         6   -45.81   19.6",
    ]


def test_several_suites():
    """A task stands under its first suite; each suite and all together follow after rules."""
    records = [won("a"), won("b"), lost("c")]
    lines = table(records, {"near": ["a", "b"], "far": ["c", "a"]})
    assert [line.split()[0] for line in lines[1:]] == [
        *("near/a", "near/b", "far/c", lines[4], "near", "far", lines[7], "overall")
    ]
    assert set(lines[4]) == set(lines[7]) == {"─"}
    assert [cells(line)[1] for line in (lines[5], lines[6], lines[8])] == [
        *("100.0%", "50.0%", "66.7%")
    ]


def test_columns_are_aligned():
    records = [won("a", reward=1e6, steps=1), lost("a"), env_error("b"), policy_error("long-name")]
    lines = table(records, {"s": ["a", "b", "long-name"]})
    rows = [line for line in lines[1:] if not line.startswith("─")]
    for title in ("success", "interval", "episodes", "return", "steps"):
        end = lines[0].index(title) + len(title)
        for row in rows:
            assert row[end - 1] != " ", (title, row)  # numbers end where the title ends
            assert row[end : end + 2] in ("", "  "), (title, row)
    assert len(lines[-2]) >= max(len(row) for row in rows)


def test_errors_are_shown_beside_the_rate():
    records = [
        *(won("a"), won("a"), lost("a"), env_error("a")),
        *(won("b"), policy_error("b")),
        *(won("c"), env_error("c"), env_error("c"), policy_error("c")),
        env_error("d"),
    ]
    lines = table(records, {"s": ["a", "b", "c", "d"]})
    errors = [line[lines[0].index("errors") :] for line in lines[1:5]]
    assert errors == [
        "1 env (50% to 75% with them)",
        "1 policy",
        "2 env, 1 policy (25% to 75% with them)",
        "1 env (0% to 100% with them)",
    ]
    assert cells(lines[4])[:5] == ["d", "-", "-", "0", "-"]


def test_returns_only():
    lines = table([silent("a", reward=3.25, steps=4)], {"s": ["a"]})
    assert cells(lines[1]) == ["a", "-", "-", "1", "3.25", "4.0"]
    assert "█" not in "".join(lines)
    assert "·" not in "".join(lines)


def test_nothing_was_recorded():
    lines = table([], {"s": ["a"]})
    assert cells(lines[-1]) == ["overall", "-", "-", "0", "-", "-"]


NARROW = [
    *[won("reach", reward=10.5, steps=7)] * 3,
    lost("reach", reward=2.0, steps=100),
    *[lost("push-it", reward=-100.0, steps=9)] * 2,
]


def test_80_columns_are_the_default_and_the_bar_goes_first():
    summary = summarize(NARROW, {"s": ["reach", "push-it"]})
    assert str(summary) == render(summary, 80) == render(summary, WIDTH)
    assert str(summary).split("\n") == [
        "         success  95 % interval  episodes   return  steps  errors",
        "reach      75.0%  30.1% - 95.4%         4     8.38   30.2",
        "push-it     0.0%   0.0% - 65.8%         2  -100.00    9.0",
        "─" * 65,
        "overall    37.5%  13.5% - 69.8%         6   -45.81   19.6",
    ]


def test_then_errors_have_a_line_of_their_own():
    records = [*NARROW, env_error("reach"), policy_error("push-it")]
    assert table(records, {"s": ["reach", "push-it"]}, 80) == [
        "         success  95 % interval  episodes   return  steps",
        "reach      75.0%  30.1% - 95.4%         4     8.38   30.2",
        "    errors: 1 env (60% to 80% with them)",
        "push-it     0.0%   0.0% - 56.1%         3  -100.00    9.0",
        "    errors: 1 policy",
        "─" * 57,
        "overall    37.5%  15.4% - 66.3%         7   -45.81   19.6",
        "    errors: 1 env, 1 policy (30% to 40% with them)",
    ]


def test_then_long_names_have_a_line_of_their_own():
    name = "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it"
    records = [won(name), env_error(name), won("short", reward=1e30)]
    assert table(records, {"one": [name], "two": ["short"]}, 80) == [
        "           success   95 % interval  episodes     return  steps",
        f"one/{name}",
        "            100.0%  20.7% - 100.0%         1       0.00    1.0",
        "    errors: 1 env (50% to 100% with them)",
        "two/short   100.0%  20.7% - 100.0%         1  1.000e+30    1.0",
        "─" * 62,
        "one         100.0%  20.7% - 100.0%         1       0.00    1.0",
        "    errors: 1 env (50% to 100% with them)",
        "two         100.0%  20.7% - 100.0%         1  1.000e+30    1.0",
        "─" * 62,
        "overall     100.0%  34.2% - 100.0%         2  5.000e+29    1.0",
        "    errors: 1 env (75% to 100% with them)",
    ]


@pytest.mark.parametrize("width", [1, 40, 50, 60, 80, 100, 200])
def test_it_fits_wherever_it_can(width):
    records = [*NARROW, env_error("reach"), policy_error("push-it")]
    lines = table(records, {"s": ["reach", "push-it"], "other": ["push-it"]}, width)
    assert max(map(len, lines)) <= max(width, 52)
    assert "errors: 1 env, 1 policy" in lines[-1] or "1 env, 1 policy" in lines[-1]
    assert {line.split()[0] for line in lines} >= {"s/reach", "s/push-it", "other", "overall"}
