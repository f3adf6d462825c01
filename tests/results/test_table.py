"""The table of a run, as plain text."""

import re

from support.episodes import env_error, lost, policy_error, silent, won

from envhub.results.summary import summarize


def table(records, suites) -> list[str]:
    return str(summarize(records, suites)).split("\n")


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
