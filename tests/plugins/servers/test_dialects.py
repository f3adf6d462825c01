"""Clients of the other dialects, against handlers that were written from their descriptions."""

import time
from contextlib import contextmanager

import numpy as np
import pytest
from envhub_servers.policy import make_policy
from gymnasium import spaces
from support.policy_servers import (
    openpi,
    roboarena,
    serving,
    serving_gr00t,
    vla_eval,
    vllm,
)

from envhub import Benchmark, Context, Task
from envhub.errors import ContractError

SPACE = spaces.Dict(
    {
        "agent_pos": spaces.Box(-1, 1, (2,), np.float32),
        "pixels": spaces.Box(0, 255, (8, 8, 3), np.uint8),
    }
)
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)
BENCHMARK = Benchmark("reach", ":make", {"near": (Task("red", "move to the red goal", 60),)})
FLAT = "agent_pos=state,pixels=image,instruction=prompt"
NESTED = "agent_pos=states,pixels=images[front],instruction=task_description"
GR00T = "agent_pos=state[arm],pixels=video[front],instruction=language[task]"


@contextmanager
def connected(dialect, port, keys=FLAT, **args):
    made = make_policy(
        BENCHMARK,
        SPACE,
        ACTIONS,
        dialect=dialect,
        transport="tcp" if dialect == "gr00t" else "ws",
        place=f"//127.0.0.1:{port}",
        **{"keys": keys, "connect": 3, **args},
    )
    try:
        yield made
    finally:
        made.close()


def episodes(rows):
    return [Context("near", "red", "move to the red goal", row, 7) for row in range(rows)]


def act(policy, rows=1, began=None):
    contexts = began or episodes(rows)
    for episode in contexts if began is None else ():
        policy.start(episode)
    states = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) / 10
    pixels = np.zeros((rows, 8, 8, 3), np.uint8)
    return policy.act({"agent_pos": states, "pixels": pixels}, contexts), contexts


def double(state):
    return np.stack([2 * np.asarray(state)] * 3)


def check(chunks, steps=3):
    for row, actions in enumerate(chunks):
        expected = double(np.array([2 * row, 2 * row + 1], np.float32) / 10)[:steps]
        assert actions.shape == (steps, 2)
        assert np.allclose(actions, expected)


def test_roboarena_resets_each_episode_and_answers_with_arrays():
    resets, sessions = [], []

    def answer(request):
        sessions.append(request["session_id"])
        return double(request["state"])

    with serving(roboarena(answer, resets)) as port, connected("roboarena", port) as policy:
        chunks, contexts = act(policy, 2)
        check(chunks)
        for episode in contexts:
            policy.finish(episode)
        check(act(policy)[0])
    assert sorted(sessions) == sorted(resets)  # both connections act at once
    assert len({*resets}) == 3
    assert '"needs_session_id": true' in policy.about["metadata"]


def test_roboarena_says_errors_as_texts():
    with serving(roboarena(lambda r: r["no"], [])) as port, connected("roboarena", port) as policy:
        with pytest.raises(ContractError, match="failed: KeyError: 'no'"):
            act(policy)
        with pytest.raises(ContractError, match="failed: KeyError"):  # on a new connection
            act(policy)


def test_vllm_keeps_sessions_over_connections_and_joins_parts():
    """Each connection is left after 0.3 seconds: the session goes on over another."""
    sessions = []

    def answer(request):
        sessions.append(request["session_id"])
        both = double(request["state"])[None]
        return {"arm": both[..., :1], "gripper": both[..., 1:]}

    with (
        serving(vllm(answer, idle=0.3)) as port,
        connected("vllm", port, actions="arm+gripper") as policy,
    ):
        chunks, contexts = act(policy)
        check(chunks)
        time.sleep(0.6)
        check(act(policy, began=contexts)[0])
        act(policy)
    assert sessions[0] == sessions[1] != sessions[2]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda request: request["no"], "failed: inference failed: 'no'"),
        (lambda _: {"arm": np.zeros((3, 1))}, "answered without 'actions': a map of arm"),
    ],
)
def test_vllm_says_errors_as_maps(answer, problem):
    with (
        serving(vllm(answer)) as port,
        connected("vllm", port) as policy,
        pytest.raises(ContractError, match=problem),
    ):
        act(policy)


def test_parts_that_cannot_be_joined():
    def answer(_):
        return {"arm": np.zeros((3, 1)), "gripper": np.zeros((2, 1))}

    with (
        serving(vllm(answer)) as port,
        connected("vllm", port, actions="arm+gripper") as policy,
        pytest.raises(ContractError, match=r"cannot be joined: arm \(3, 1\), gripper"),
    ):
        act(policy)


def test_vla_eval_has_a_connection_per_episode_and_one_action_per_answer():
    seen = []

    def answer(observation):
        assert observation["images"]["front"].shape == (8, 8, 3)
        assert observation["task_description"] == "move to the red goal"
        return {"actions": double(observation["states"])[0]}

    with serving(vla_eval(answer, seen)) as port, connected("vla-eval", port, NESTED) as policy:
        chunks, contexts = act(policy)
        check(chunks, steps=1)
        policy.finish(contexts[0])
        act(policy)
    episode = ["episode_start", "observation"]
    assert seen[:4] == ["hello", *episode, "episode_end"]
    assert seen[4:7] == ["hello", *episode]


def test_vla_eval_says_errors_as_messages():
    def answer(observation):
        raise ValueError("no weights")

    with (
        serving(vla_eval(answer, [])) as port,
        connected("vla-eval", port, NESTED) as policy,
        pytest.raises(ContractError, match="failed: observation_failed: no weights"),
    ):
        act(policy)


def test_dialects_are_not_guessed():
    """Who speaks another one is refused: in one the server speaks first, in another the client."""
    with (
        serving(openpi()) as port,
        pytest.raises(ContractError, match="something else than a he"),
        connected("vla-eval", port, NESTED),
    ):
        pass
    with (
        serving(vla_eval(dict, [])) as port,
        pytest.raises(ContractError, match=r"silent for 0\.5"),
        connected("openpi", port, connect=0.5),
    ):
        pass


def arm_and_gripper(observation):
    states = observation["state"]["arm"]
    assert states.dtype == np.float32
    assert states.shape[1:] == (1, 2)
    assert observation["video"]["front"].shape == (len(states), 1, 8, 8, 3)
    assert observation["language"]["task"] == [["move to the red goal"]] * len(states)
    both = np.stack([double(state[0]) for state in states])
    return {"gripper": both[..., 1:], "arm": both[..., :1]}


def test_gr00t_takes_a_row_per_episode_in_one_request(monkeypatch):
    monkeypatch.setenv("ENVHUB_POLICY_KEY", "s3cret")
    asked = []

    def answer(observation):
        asked.append(len(observation["state"]["arm"]))
        return arm_and_gripper(observation)

    with serving_gr00t(answer, token="s3cret") as port, connected("gr00t", port, GR00T) as policy:
        check(act(policy, 3)[0])
        assert "s3cret" not in str(policy.about)
    assert asked == [3]


@pytest.mark.parametrize(
    ("answer", "token", "problem"),
    [
        (lambda observation: observation["no"], None, "failed: 'no'"),
        (lambda _: {"arm": np.zeros((1, 3, 1))}, None, "answered without 'arm.gripper': a map of"),
        (lambda _: {k: np.zeros((2, 3, 1)) for k in ("arm", "gripper")}, None, "for 1 observatio"),
        (arm_and_gripper, "other", "Unauthorized: Invalid API token"),
    ],
)
def test_gr00t_says_errors_as_maps(answer, token, problem):
    with (
        serving_gr00t(answer, token) as port,
        pytest.raises(ContractError, match=problem),
        connected("gr00t", port, GR00T) as policy,
    ):
        act(policy)


def test_gr00t_that_is_not_there():
    with (
        pytest.raises(ContractError, match=r"was silent for 0\.5 s"),
        connected("gr00t", 1, GR00T, connect=0.5),
    ):
        pass
