"""The envs of the next tasks are made while other episodes run, as far as the memory allows."""

import numpy as np
import pytest
from support.engine_runs import play
from support.paths import ASSETS

import envhub


def open_envs(log):
    """How many envs there were at once, one being made included."""
    count, counts = 0, []
    for line in log.read_text().splitlines():
        count += line.startswith("making")
        count -= line.startswith("closed")
        counts.append(count)
    assert count == 0
    return max(counts)


class Still:
    """Acts in the host, for all workers that wait."""

    def act(self, obs, episodes):
        return np.zeros(len(episodes), np.int64)


@pytest.mark.parametrize("policy", ["zero", Still()], ids=["in the workers", "in the host"])
def test_the_next_env_is_made_while_the_last_episodes_of_others_run(tmp_path, policy):
    """Neither could end without the other: the env that is made, and the episode that goes on."""
    log = tmp_path / "log"
    outcome = play(policy, "engine_opening", env_args={"log": str(log), "waiting": True})
    assert [record.end for record in outcome.records] == ["success"] * 3
    noted = log.read_text().splitlines()
    order = [noted.index(line) for line in ("making third", "goes on second", "made third")]
    assert order == sorted(order)
    assert open_envs(log) == 2


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_worker_has_one_env_at_a_time(tmp_path, workers):
    log = tmp_path / "log"
    args = {"log": str(log)}
    outcome = play("zero", "engine_opening", workers=workers, episodes=3, env_args=args)
    assert open_envs(log) <= workers
    assert outcome == play("zero", "engine_opening", workers=0, episodes=3, env_args=args)


def test_where_the_memory_is_for_one_env_the_next_waits(tmp_path):
    log = tmp_path / "log"
    run = envhub.evaluate(
        ASSETS / "engine_opening" / "scarce.py", "zero", env_args={"log": str(log)},
        out=tmp_path / "run",
    )  # fmt: skip
    assert [record.status for record in run.records()] == ["ok"] * 6
    assert open_envs(log) == 1
    noted = [line for line in log.read_text().splitlines() if not line.startswith("goes on")]
    assert noted == [
        f"{what} {name}" for name in ("first", "second", "third")
        for what in ("making", "made", "closed")
    ]  # fmt: skip
