"""An episode's outcome follows from benchmark, task, index, seed and policy, and nothing else."""

import json
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from support.engine_runs import ASSETS, WALKERS, Killer, load, load_policy, own_loop, play

import envhub
from envhub.errors import ContractError, RunAborted
from envhub.types import Confinement

KINDS = ("plain", "plain_chunks", "dreamy", "dreamy_chunks", "ragged")


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def inline(kind):
    """The run that the others are compared with: everything in this process."""
    return play(workers=0, kind=kind)


# The same records, whatever happens


def test_records_are_those_of_the_benchmarks_own_loop(kind, inline):
    module = load("engine_walk")
    for record in inline.records:
        task = next(task for task in module.TASKS if task.name == record.task)
        policy = load_policy(kind=kind)
        env = module.make(task, always=True)
        expected = own_loop(env, task, record.episode, record.seed, policy)
        taken = inline.actions[record.number]
        assert taken is not None
        assert taken[2] == expected.pop("actions")
        assert {key: getattr(record, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("plain_chunks", 2), ("dreamy", 2), ("ragged", 1), ("ragged", 5)],
    indirect=["kind"],
)
def test_records_do_not_depend_on_the_number_of_workers(kind, inline, workers):
    assert play(workers=workers, kind=kind) == inline


@pytest.mark.parametrize("kind", ["dreamy_chunks", "ragged"], indirect=True)
def test_records_do_not_depend_on_where_the_policy_runs(kind, inline):
    beside = play(workers=2, kind=kind, placement="worker")
    assert beside == inline
    assert beside.engine.runners.facts.placement == "worker"
    assert play(load_policy(kind=kind), workers=2) == inline


@pytest.mark.parametrize(
    ("kind", "placement"),
    [("plain", "process"), ("dreamy_chunks", "worker")],
    indirect=["kind"],
)
def test_records_do_not_depend_on_what_is_killed(kind, inline, placement):
    with Killer(random.Random(kind)) as killer:
        shaken = play(
            workers=3,
            kind=kind,
            placement=placement,
            env_args={"nap": 0.01},
            retries=99,
            watch=killer.saw,
        )
    assert len(killer.killed) > 1
    assert shaken == inline


def test_chunks_of_different_lengths_in_calls_of_a_fixed_size():
    inline = play(workers=0, kind="ragged_pairs")
    assert {record.status for record in inline.records} == {"ok"}
    assert play(workers=5, kind="ragged_pairs") == inline


def test_files_do_not_depend_on_the_number_of_workers(tmp_path):
    found = [written(tmp_path / str(workers), workers) for workers in (0, 3)]
    assert found[0] == found[1]
    assert found[0]["plan"]["episodes"] == 3
    assert len(found[0]["records"]) == len(found[0]["actions"]) == 15


def written(directory, workers):
    """What a run leaves in its directory, without what may differ from run to run."""
    arguments = {"kind": "dreamy_chunks"}
    envhub.evaluate(
        f"{ASSETS}/engine_walk", WALKERS, workers=workers, policy_args=arguments, out=directory
    )
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    records = sorted(map(json.loads, lines), key=lambda one: (one["task"], one["episode"]))
    for record in records:
        del record["seconds"], record["attempts"]
    run = json.loads((directory / "run.json").read_text())
    return {
        "records": records,
        "actions": {path.name: path.read_bytes() for path in (directory / "actions").iterdir()},
        "plan": run["plan"],
        "protocol": run["protocol"],
        "summary": json.loads((directory / "summary.json").read_text()),
    }


# Beginning and ending


def test_every_episode_is_run_once_and_ends_by_its_rule():
    outcome = play("guide", workers=2, tasks=("once", "at-end", "ever", "mute"), episodes=12)
    counts = Counter(record.task for record in outcome.records)
    assert counts == {"once": 12, "at-end": 12, "ever": 12, "mute": 12}
    assert {record.status for record in outcome.records} == {"ok"}
    assert set(outcome.attempts.values()) == {1}
    for record in outcome.records:
        match record.task:
            case "once":
                assert (record.end, record.success) == ("success", True)
                assert record.success_step == record.steps < 30
            case "at-end":
                assert (record.end, record.steps) == ("truncated", 15)
                assert record.success_step < 15
            case "ever":
                assert (record.end, record.steps) == ("truncated", 12 + record.seed % 5)
                assert record.success is True
            case "mute":
                assert record.end == ("truncated" if record.steps == 10 else "terminated")
                assert (record.success, record.success_step) == (None, None)
    assert {record.end for record in outcome.records} == {"success", "truncated", "terminated"}


def test_initial_states_are_handed_to_reset_in_turn():
    outcome = play("zero", workers=2, tasks=("states", "once"), episodes=7)
    states = [record.init_state for record in outcome.records if record.task == "states"]
    assert states == [0, 1, 2, 0, 1, 2, 0]
    assert {r.init_state for r in outcome.records if r.task == "once"} == {None}
    far = [-r.return_ / r.steps > 1 for r in outcome.records if r.init_state == 2]
    assert all(far)  # state 2 is two steps of one away, the goal at most 0.5


@pytest.mark.parametrize("policy", ["guide", WALKERS])
def test_max_steps_is_a_horizon_for_all(policy):
    outcome = play(policy, workers=1, tasks=("at-end", "mute"), episodes=2, max_steps=2)
    assert [record.steps for record in outcome.records] == [2, 2, 2, 2]


@pytest.mark.parametrize("kind", ["guide", "hundreds"])
def test_long_episodes(kind):
    policy, arguments = ("guide", {}) if kind == "guide" else (WALKERS, {"kind": kind})
    long = play(policy, "engine_long", workers=1, **arguments)
    (record,) = long.records
    assert (record.steps, record.end, record.return_) == (1234, "truncated", 1234 * 1235 / 2)
    assert long.actions[0] is not None
    assert long.actions[0][1] == (1234, 2)


def test_rebuild_makes_a_new_env_for_every_episode():
    outcome = play("random", "engine_rebuild", workers=2)
    assert [record.return_ for record in outcome.records] == [4.0] * 6
    assert outcome.engine.progress.opened == 6


# Every kind of space


@pytest.mark.parametrize("name", ["sampler", "chunks", "random"])
def test_spaces_of_all_kinds(name):
    alone = play(name, "engine_shapes", workers=0, episodes=3)
    assert {record.status for record in alone.records} == {"ok"}
    assert {record.steps for record in alone.records} == {9}
    assert play(name, "engine_shapes", workers=1, episodes=3) == alone
    if name != "random":
        own = {"placement": "process", "workers": 2 if name == "sampler" else 1}
        assert play(name, "engine_shapes", episodes=3, **own) == alone


def test_a_policy_is_in_the_same_place_for_all_tasks():
    with pytest.raises(RunAborted, match="placement is not the same for all tasks"):
        play("unsure", "engine_shapes", workers=1)


# What is drawn


def drawn(room):
    """How often each camera was drawn, by episode."""
    return {path.name: Counter(path.read_text().split()) for path in room.iterdir()}


@pytest.mark.parametrize("placement", ["process", "worker"])
def test_steps_that_nobody_reads_are_not_drawn(tmp_path, placement):
    arguments = {"kind": "tens", "placement": placement, "tasks": ("at-end", "states")}
    outcome = play(workers=1, env_args={"room": str(tmp_path)}, **arguments)
    expected = {
        f"{record.task}-{record.seed}": dict.fromkeys(
            ("front", "wrist"), math.ceil(record.steps / 10)
        )
        for record in outcome.records
    }
    assert drawn(tmp_path) == expected
    assert {record.steps for record in outcome.records} > {15}
    assert outcome == play(workers=0, env_args={"always": True}, **arguments)


@pytest.mark.parametrize("placement", ["process", "worker"])
def test_cameras_that_nobody_looks_at_are_not_drawn(tmp_path, placement):
    arguments = {"kind": "blink", "placement": placement, "tasks": ("at-end", "states")}
    outcome = play(workers=1, env_args={"room": str(tmp_path)}, **arguments)
    assert drawn(tmp_path) == {
        f"{record.task}-{record.seed}": {"wrist": record.steps} for record in outcome.records
    }
    assert {record.first_leaves for record in outcome.records} == {
        ("agent_pos", "goal", "hint", "pixels/wrist")
    }
    always = play(workers=0, env_args={"always": True}, **arguments)
    assert {record.first_leaves for record in always.records} == {None}
    assert without_first(outcome) == without_first(always)


def without_first(outcome):
    """An env that fills every leaf has more to hash."""
    records = (replace(r, first_observation=None, first_leaves=None) for r in outcome.records)
    return replace(outcome, records=tuple(records))


def test_nothing_is_drawn_for_random_actions(tmp_path):
    outcome = play("random", env_args={"room": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
    assert {record.first_leaves for record in outcome.records} == {()}
    always = play("random", workers=0, env_args={"always": True})
    assert without_first(outcome) == without_first(always)


def test_first_observations_tell_states_apart():
    """Whether the policy reads all of them, or nothing."""
    for policy, distinct in ((WALKERS, 9), ("zero", 3)):
        records = play(policy, workers=0, tasks=("states",), episodes=9).records
        assert len({record.first_observation for record in records}) == distinct
        assert {record.first_leaves for record in records} == {None if distinct == 9 else ()}


# Which worker plays what


def test_workers_stay_with_their_tasks():
    outcome = play("random", "engine_many", workers=5, episodes=10)
    assert len(outcome.records) == 200
    assert 20 <= outcome.engine.progress.opened <= 20 + 5
    assert outcome.engine.progress.steps == 600


# Policies


def test_a_batch_is_always_full():
    expected = play(workers=0, kind="dreamy")
    assert play(workers=5, kind="fours") == expected


def test_a_batch_is_always_full_wherever_the_policy_is():
    expected = play(workers=0, kind="dreamy")
    assert play(workers=0, kind="fours") == expected
    assert play(workers=1, kind="fours", placement="worker", in_worker=True) == expected
    assert play(load_policy(kind="fours"), workers=3) == expected


def test_the_benchmarks_own_conversion_to_lerobots_format():
    expected = play("guide", workers=0)
    assert play(workers=0, kind="robot") == expected
    assert play(workers=1, kind="robot", placement="worker") == expected
    assert play(load_policy(kind="robot"), workers=1) == expected


def test_code_that_is_kept_in_a_sandbox_is_loaded_nowhere_else():
    kept = {"workers": 1, "confinement": Confinement("none", network=True)}
    with pytest.raises(ContractError, match="in a sandbox and is not loaded outside of it"):
        play("guide", placement="process", **kept)
    # The benchmark's own conversion runs in the worker, wherever the policy is.
    expected = play("guide", workers=0)
    for policy in (WALKERS, load_policy(kind="robot")):
        assert play(policy, kind="robot", **kept) == expected
    assert play(kind="robot", placement="worker", in_worker=True, **kept) == expected


@pytest.mark.parametrize(
    ("workers", "placement"), [(0, "process"), (2, "process"), (2, "worker"), (2, "object")]
)
def test_a_policy_is_told_of_every_beginning_and_end(tmp_path, workers, placement):
    path = str(tmp_path / "diary")
    if placement == "object":
        play(load_policy(kind="diary", path=path), workers=workers)
    else:
        play(workers=workers, kind="diary", path=path, placement=placement)
    lines = (tmp_path / "diary").read_text().splitlines()
    told = Counter(lines)
    for task in ("once", "at-end", "ever", "mute", "states"):
        for index in range(3):
            assert told.pop(f"start {task} {index}") == 1
            assert told.pop(f"finish {task} {index}") == 1
            assert lines.index(f"start {task} {index}") < lines.index(f"finish {task} {index}")
    made = told.pop("made")
    assert told.pop("close", 0) == (0 if placement == "object" else made)
    assert not told
    # One for each worker, whatever tasks it plays, and the one that told where it wants to be.
    assert made == (1 + workers if placement == "worker" else 1)


def test_a_policy_of_the_benchmarks_own_may_want_a_process_of_its_own():
    beside = play("guide", workers=0)
    own = play("guide", workers=2, placement="process")
    assert own.engine.runners.facts.placement == "process"
    assert own == beside


BROKEN = f"{ASSETS}/engine_policies/broken.py"


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("stuck", "RuntimeError: the guide has lost its map"),
        ("no-guide", r"env.py has no function make_nothing\(benchmark"),
        (f"{BROKEN}:raises", "RuntimeError: no weights"),
        (f"{BROKEN}:exits", "SystemExit: no weights"),
        (f"{BROKEN}:nothing", r"NoneType is not a policy: it has no method act\(obs, episodes\)"),
        (f"{BROKEN}:number", "'number' is a int, not a function that makes a policy"),
        (BROKEN, "broken.py has no function make_policy"),
        (f"{BROKEN}:greedy", "greedy is called as .*: 'no_such_argument'"),
        (
            f"{BROKEN}:needy",
            "Still.needs has 'pixels/top', but the observation has: .*pixels/front",
        ),
        (f"{BROKEN}:empty", "Still.batch must be a positive whole number or 'any': 0"),
        (f"{BROKEN}:lost", "Still.placement must be 'process' or 'worker', found 'x'"),
        (f"{ASSETS}/engine_policies/unreadable.py", "ModuleNotFoundError: .*no_such_module"),
        ("no_such_package.policies:make", "ModuleNotFoundError: .*no_such_package"),
    ],
)
def test_policies_that_cannot_be_made(policy, problem):
    with pytest.raises(ContractError, match=f"^making of the policy: {problem}"):
        play(policy, workers=0)


@pytest.mark.parametrize(
    ("policy", "where"),
    [
        ("stuck", "making the policy of task 'once' in worker 0: RuntimeError: the guide"),
        (f"{BROKEN}:raises", "making of the policy in its own process: RuntimeError: no weights"),
        (
            f"{BROKEN}:needy",
            "making of the policy in its own process: Still.needs has 'pixels/top'",
        ),
    ],
)
def test_policies_that_cannot_be_made_where_they_run(policy, where):
    with pytest.raises(ContractError, match=f"^{where}"):
        play(policy, workers=1)


@pytest.mark.parametrize(
    ("policy", "making"),
    [
        ("fatal", "making the policy of task 'once' in worker 0"),
        (f"{BROKEN}:dies", "making of the policy in its own process"),
    ],
)
def test_a_policy_that_takes_its_process_with_it_when_made(policy, making):
    found = f"No policy can be started any more. {making}: its process ended with exit code 3"
    with pytest.raises(RunAborted, match=found):
        play(policy, workers=1)
