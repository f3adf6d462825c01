"""Who decides what is executed when a recorded run is played again."""

import json
from functools import partial

import numpy as np
import pytest
from support.needs import needs_sandbox
from support.paths import ASSETS
from support.published import publish
from support.replays import REPLAYED, make_recorded

import envhub
from envhub.errors import RemoteCodeRefused, RunDirectoryError, SourceUnavailable, UsageError
from envhub.evaluation.rerun import Playback, recorded_actions
from envhub.results.seal import key_path
from envhub.wire.policy_contract import Context


def replayed(run, **options):
    return envhub.replay(run, "once", 0, on_frame=lambda _: None, **options)


def test_a_run_of_somebody_else_is_not_obeyed(run, tmp_path):
    key_path().unlink()
    with pytest.raises(RunDirectoryError, match=r"does not carry your seal.* --benchmark REF$"):
        replayed(run)
    assert replayed(run, benchmark=REPLAYED).identical


def test_the_benchmark_that_is_named_must_be_that_of_the_run(run):
    key_path().unlink()
    with pytest.raises(RunDirectoryError, match="benchmark's file"):
        replayed(run, benchmark=ASSETS / "run_walk")
    with pytest.raises(RunDirectoryError, match="--env-arg"):
        replayed(run, benchmark=REPLAYED, env_args={"picture": "none"})


def test_a_forged_path_is_not_executed(run, tmp_path):
    """The directory names a file that would leave a mark."""
    mark = tmp_path / "executed"
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "env.py").write_text(f"open({str(mark)!r}, 'w')")
    path = run.directory / "run.json"
    info = json.loads(path.read_text())
    info["benchmark"]["path"] = str(evil / "env.py")
    path.write_text(json.dumps(info))
    with pytest.raises(RunDirectoryError, match="does not carry your seal"):
        replayed(run.directory)
    assert not mark.exists()


def test_a_forged_policy_is_not_executed(run, tmp_path):
    """Naming the benchmark says nothing about the policy, nor about its interpreter."""
    mark = tmp_path / "executed"
    policy = tmp_path / "policy.py"
    policy.write_text(f"open({str(mark)!r}, 'w')")
    path = run.directory / "run.json"
    info = json.loads(path.read_text())
    info["policy"] |= {"path": str(policy), "ref": "./policy.py"}
    path.write_text(json.dumps(info))
    with pytest.raises(RunDirectoryError, match="does not carry your seal"):
        envhub.verify(run.directory, policy=True, benchmark=REPLAYED)
    assert envhub.verify(run.directory, benchmark=REPLAYED).verdict == "identical"
    assert not mark.exists()


def test_code_that_changed_is_refused(tmp_path):
    copy = tmp_path / "bench"
    copy.mkdir()
    for name in ("env.py", "policy.py"):
        (copy / name).write_bytes((REPLAYED / name).read_bytes())
    run = envhub.evaluate(copy, "zero", tasks="once", episodes=1, workers=1, out=tmp_path / "run")
    with (copy / "env.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(RunDirectoryError, match=r"benchmark's file env\.py"):
        replayed(run)


def test_a_policy_object_need_not_be_there(tmp_path):
    class Still:
        def act(self, obs, episodes):
            return np.zeros((len(episodes), 1), np.float32)

    run = envhub.evaluate(
        REPLAYED, Still(), tasks="once", episodes=1, workers=1, out=tmp_path / "run"
    )
    assert replayed(run).identical


@needs_sandbox
def test_code_of_the_hub_needs_consent_again(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    ref = publish(local_hub, REPLAYED, "me/replayed")
    options = {"tasks": "once", "episodes": 1, "workers": 1, "out": tmp_path / "run"}
    run = envhub.evaluate(ref, "zero", trust_remote_code=True, **options)
    with pytest.raises(RemoteCodeRefused):
        replayed(run)
    assert replayed(run, trust_remote_code=True).identical
    key_path().unlink()
    with pytest.raises(RunDirectoryError, match="does not carry your seal"):
        replayed(run, trust_remote_code=True)
    with pytest.raises(RemoteCodeRefused):
        replayed(run, benchmark=ref)
    assert replayed(run, benchmark=ref, trust_remote_code=True).identical


@pytest.mark.parametrize(
    ("name", "said"), [("nothing", "has no episode nothing:0"), ("far", "has no episode far:0")]
)
def test_an_episode_that_is_not_there(run, name, said):
    with pytest.raises(UsageError, match=said):
        envhub.replay(run, name, 0)
    with pytest.raises(UsageError, match="has no episode once:9"):
        envhub.replay(run, "once", 9)


def test_a_benchmark_that_is_gone(run):
    key_path().unlink()
    with pytest.raises((UsageError, SourceUnavailable)):
        replayed(run, benchmark="./nowhere")


def test_actions_of_episodes_of_unlike_lengths(tmp_path):
    run = make_recorded(tmp_path / "run", tasks="once", episodes=3)
    records = run.records()
    playback = Playback(partial(recorded_actions, run.directory), records)
    contexts = [Context("all", "once", "", record.episode, record.seed) for record in records]
    taken = playback.act({}, contexts)
    for row, record in zip(taken, records, strict=True):
        actions = np.load(run.directory / "actions" / f"{record.number}.npy")
        assert np.array_equal(row, actions)
    contexts[0].step = records[0].steps + 5  # an episode that did not end where it did
    (row,) = playback.act({}, contexts[:1])
    assert np.array_equal(row, taken[0][-1:])
