"""What loggers log of a run, whatever the tool."""

import math

from support.episodes import env_error, lost, policy_error, won
from support.needs import needs_loggers_plugin
from support.run_json import changed, info_of

pytestmark = needs_loggers_plugin


def test_the_rate_so_far_is_the_mean_over_tasks():
    from envhub_loggers.content import Tally

    tally, rates = Tally(), []
    for record in (won("a"), lost("a"), won("b"), env_error("b"), policy_error("c")):
        tally.count(record)
        rates.append(tally.values(record)["so_far/rate"])
    assert rates == [1.0, 0.5, 0.75, 0.75, 0.5]
    last = tally.values(policy_error("c"))
    assert (last["so_far/episodes"], last["so_far/errors"]) == (5, 2)


def test_what_no_tool_can_draw_is_left_out():
    from envhub_loggers.content import Tally

    tally = Tally()
    record = won(reward=math.inf)
    tally.count(record)
    assert "episode/return" not in tally.values(record)
    assert tally.values(record)["episode/success"] == 1


def test_the_identity_says_protocol_code_and_policy():
    from envhub_loggers.content import identity

    info = info_of(changed("benchmark.commit", "f" * 40))
    found = identity(info)
    assert found["protocol"] == info.protocol
    assert found["benchmark_commit"] == "f" * 40
    assert found["policy_identity"] == info.policy.identity
    assert found["seed"] == str(info.plan.seed)
    assert all(isinstance(value, str) for value in found.values())
