"""What a policy says of observations that the benchmark's own code converts, once it sees them."""

import pytest
from support.paths import ASSETS
from support.run_tools import envhub

POLICY = '''
import numpy as np


class Says:
    """Remarks on each space that it is shown."""

    format = "lerobot"
    remarks = ("Made.",)

    def check_space(self, space):
        sizes = {name: part.shape for name, part in space.items()}
        self.remarks = (*Says.remarks, f"Shown {sizes}.")

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 2), np.float32)


def make_policy(benchmark, observation_space, action_space):
    return Says()
'''


@pytest.mark.parametrize(("workers", "processes"), [(0, 1), (1, 1), (2, 2)])
def test_what_a_policy_says_later_is_told_once(tmp_path, workers, processes):
    (tmp_path / "policy.py").write_text(POLICY)
    words = ("--suite", "ends", "--episodes", 2, "--max-steps", 3, "--workers", workers)
    words += ("--policy-processes", processes, "--out", tmp_path / "run")
    answer = envhub("eval", ASSETS / "engine_walk", "--policy", tmp_path / "policy.py", *words)
    assert answer.code == 0, answer.err
    told = [line for line in answer.err.splitlines() if line.startswith(("Made", "Shown"))]
    assert told == ["Made.", "Shown {'observation.state': (4,)}."]
