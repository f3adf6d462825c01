"""Meta-World's experts, in a world that does not wait for them."""

import itertools
import json

import pytest
from support.run_tools import envhub

pytestmark = pytest.mark.soak

TASKS = "reach-v3,push-v3,door-open-v3,drawer-close-v3,button-press-v3,window-open-v3"


def test_the_rate_falls_with_the_latency(tmp_path):
    """Without latency 100 %, with 120 ms at 80 actions per second about 12 %; printed."""
    done = envhub(
        "eval", "metaworld", "--task", TASKS, "--policy", "expert", "--episodes", "10",
        "--latency", "0,25,50,120ms", "--out", str(tmp_path / "all"), "--json", "--quiet",
    )  # fmt: skip
    assert done.code == 0, done.err
    rates = [row["rate"] for row in json.loads(done.out)["latencies"]]
    print(rates)
    assert rates[0] >= 0.95
    assert all(after <= before + 0.05 for before, after in itertools.pairwise(rates))
    assert rates[3] < rates[0] / 2
