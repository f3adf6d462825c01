"""The instruction of an episode: what the env says after its reset reaches policy and record."""

import json

import numpy as np
import pytest
from support.paths import ASSETS
from support.run_tools import envhub as command

import envhub
from envhub.errors import ContractError, RunDirectoryError

TOLD = str(ASSETS / "told_after_reset")
COLORS = ("red", "green", "blue")

POLICY = """
import numpy as np

class Policy:
    placement = {placement!r}

    def __init__(self, space):
        self.space = space

    def start(self, episode):
        episode.memory["told"] = episode.description

    def act(self, obs, episodes):
        for episode in episodes:
            assert episode.memory["told"] == episode.description
        codes = [len(episode.description) / 100 for episode in episodes]
        return np.array([[code, code] for code in codes], np.float32)

def make_policy(benchmark, observation_space, action_space):
    return Policy(action_space)
"""


class Listener:
    """A policy in this process that notes what it is told."""

    def __init__(self) -> None:
        self.told: dict[int, str] = {}

    def start(self, episode):
        self.told[episode.index] = episode.description

    def act(self, obs, episodes):
        return [[0.0, 0.0] for _ in episodes]


def test_policy_and_record_have_the_instruction_of_the_reset(tmp_path):
    policy = Listener()
    run = envhub.evaluate(TOLD, policy, episodes=4, workers=2, out=tmp_path / "run")
    records = run.records()
    assert [r.status for r in records] == ["ok"] * 4
    assert {r.episode: r.description for r in records} == policy.told
    assert set(policy.told.values()) <= {f"Pick up the {color} cube." for color in COLORS}
    assert len(set(policy.told.values())) > 1
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert all(json.loads(line)["description"].startswith("Pick up the ") for line in lines)
    assert envhub.open_run(tmp_path / "run").records() == records


@pytest.mark.parametrize("placement", ["process", "worker"])
@pytest.mark.parametrize("workers", [0, 1])
def test_wherever_the_policy_runs(tmp_path, placement, workers):
    (tmp_path / "policy.py").write_text(POLICY.format(placement=placement))
    run = envhub.evaluate(
        TOLD, str(tmp_path / "policy.py"), episodes=3, workers=workers, out=tmp_path / "run"
    )
    for record in run.records():
        assert record.status == "ok", record
        actions = np.load(run.directory / "actions" / f"{record.number}.npy")
        assert actions[0, 0] == np.float32(len(record.description) / 100)


OWN = {"told_after_reset": ("Lift it.", "Now lift the other one.")}


def test_the_users_instructions_come_first_and_stay(tmp_path):
    """Where they reach a policy in the worker, after a resume and when a run is verified."""
    (tmp_path / "policy.py").write_text(POLICY.format(placement="worker"))
    out = tmp_path / "run"
    policy, texts = str(tmp_path / "policy.py"), OWN["told_after_reset"]
    run = envhub.evaluate(TOLD, policy, episodes=4, workers=1, out=out, instructions=OWN)
    assert [record.description for record in run.records()] == [*texts, *texts]
    assert run.info["plan"]["instructions"] == {"told_after_reset": [*texts]}
    actions = [np.load(out / "actions" / f"{k}.npy")[0, 0] for k in range(4)]
    assert actions == [np.float32(len(text) / 100) for text in (*texts, *texts)]
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:2]))
    assert command("eval", "--resume", out, "--workers", 0).code == 0
    assert [r.description for r in envhub.open_run(out).records()] == [*texts, *texts]
    assert envhub.verify(out, workers=1).ok
    assert "The instructions of 1 of 1 task were the user's" in command("show", out).out
    with pytest.raises(RunDirectoryError, match="The --instructions told_after_reset that"):
        envhub.evaluate(TOLD, policy, episodes=4, workers=0, out=out, resume=True)


def test_a_policys_own_instructions(tmp_path):
    """Those of the user come before them, and only those that were told are recorded."""
    policy = Listener()
    policy.instructions = {"told_after_reset": "Grasp.", "elsewhere": "Stay."}
    run = envhub.evaluate(TOLD, policy, episodes=2, workers=0, out=tmp_path / "own")
    assert policy.told == {0: "Grasp.", 1: "Grasp."}
    assert run.info["policy"]["instructions"] == {"told_after_reset": "Grasp."}
    assert run.info["plan"]["instructions"] == {}
    assert all(record.description.startswith("Pick up") for record in run.records())  # the env's
    run = envhub.evaluate(
        TOLD, policy, episodes=2, workers=0, out=tmp_path / "users", instructions=OWN
    )
    assert tuple(policy.told.values()) == OWN["told_after_reset"]
    assert run.info["policy"]["instructions"] == {}
    policy.instructions = {"told_after_reset": 3}
    with pytest.raises(ContractError, match="instructions must be a mapping of tasks to texts"):
        envhub.evaluate(TOLD, policy, episodes=1, workers=0, out=tmp_path / "bad")


def test_a_record_without_an_instruction_of_its_own_has_no_such_field(tmp_path):
    for number, asset in enumerate(("mapping", "hooks")):
        out = tmp_path / str(number)
        run = envhub.evaluate(str(ASSETS / asset), episodes=1, workers=1, out=out)
        assert {record.description for record in run.records()} == {None}
        assert "description" not in (out / "episodes.jsonl").read_text()


def notes_of(path) -> list[str]:
    return [line.rpartition(" ")[0] for line in path.read_text().splitlines()]


def test_workers_make_only_what_they_open(tmp_path):
    log = tmp_path / "log"
    run = envhub.evaluate(
        str(ASSETS / "many_tasks"),
        tasks=["3"],
        episodes=4,
        workers=2,
        env_args={"log": str(log)},
        out=tmp_path / "run",
    )
    assert [record.status for record in run.records()] == ["ok"] * 4
    notes = notes_of(log)
    described = [note for number in range(6) for note in (f"make {number}", f"close {number}")]
    assert notes[: len(described)] == described
    opened = notes[len(described) :]
    assert set(opened) == {"make 3", "close 3"}
    assert opened.count("make 3") == opened.count("close 3") <= 2


def test_make_env_makes_only_what_is_used(tmp_path):
    log = tmp_path / "log"
    envs = envhub.make_env(str(ASSETS / "many_tasks"), 2, env_args={"log": str(log)})
    assert len(notes_of(log)) == 12
    envs["count"]["4"].reset(seed=0)
    envhub.close_envs(envs)
    assert sorted(notes_of(log)[12:]) == ["close 4", "close 4", "make 4", "make 4"]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_others_work_if_a_task_cannot_be_made(tmp_path, workers):
    arguments = ("--env-arg", "broken=0", "--episodes", 8, "--workers", workers)
    answer = command("eval", "./many_tasks", *arguments, "--out", tmp_path / "run", "--json")
    assert answer.code == 1, answer.err
    assert "Task '0' cannot be made, so its episodes are recorded as errors: ValueError: no" in (
        answer.err
    )
    records = envhub.open_run(tmp_path / "run").records()
    failed = [record for record in records if record.task == "0"]
    assert {record.status for record in failed} == {"env_error"}
    [message] = {record.error.message for record in failed}
    assert message.startswith("making the env of task '0': ValueError: no scene 0")
    assert {record.error.type for record in failed} == {"ValueError"}
    assert "in __init__" in failed[0].error.traceback
    assert {r.status for r in records if r.task != "0"} == {"ok"}
    assert len(records) == 48


def test_only_a_task_that_cannot_be_made(tmp_path):
    arguments = ("--task", "0", "--env-arg", "broken=0", "--out", tmp_path / "run")
    answer = command("eval", "./many_tasks", *arguments)
    assert answer.code == 4
    assert "making the env of task '0': ValueError: no scene 0" in answer.err
    assert not (tmp_path / "run").exists()
