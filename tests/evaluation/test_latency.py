"""`--latency`: the world goes on while the policy thinks, wherever it acts."""

import itertools
import json
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from support.paths import ASSETS, DOCS
from support.run_tools import envhub as command

import envhub
from envhub.errors import ContractError, RunDirectoryError, UsageError
from envhub.evaluation.latency import parse_latency
from envhub.results.arrays import read_arrays
from envhub.results.journal import read_run

LATE = ASSETS / "late"
COUNTER = str(LATE / "counter.py")


def counter(size, heard=None):
    """The policy as an object of this process."""
    spec = spec_from_file_location("late_counter", COUNTER)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Counter(size, "process", heard)


def notes(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def expected(mode, size, late, steps=39, hold=(0.0, 0.0), first_grip=-1.0):
    """What the env is given and when it is looked at, by the rules of the docs, written anew."""
    actions, looks, call, tail, grip = [], [0], 0, [], first_grip
    while len(actions) < steps:
        call += 1
        look = len(actions)
        made = [[100.0 * call + k, float(look), float(call)] for k in range(size)]
        still = [[*hold, grip]] * (late - len(tail))
        if mode == "overlap" and size > 2 * late:
            actions += tail + still + made[len(tail) : size - late]
            tail = made[size - late :]
        else:
            actions += tail + still + made
            tail = []
        grip = actions[-1][2]
        if len(actions) < 40:
            looks.append(len(actions))
    return actions[:steps], [look for look in looks if look <= steps]


MODES = [("wait", 1), ("wait", 4), ("overlap", 8), ("overlap", 4)]


def play(tmp_path, policy, text, name="run", **options):
    log = tmp_path / f"{name}.log"
    run = envhub.evaluate(
        LATE, policy, episodes=1, workers=1, latency=text, out=tmp_path / name,
        env_args={"log": str(log)}, **options,
    )  # fmt: skip
    (record,) = run.records()
    assert record.error is None
    return run, record, notes(log)


@pytest.mark.parametrize(("mode", "size"), MODES)
def test_each_action_and_each_look_is_as_the_rules_say_wherever_the_policy_acts(
    tmp_path, mode, size
):
    text = f"75ms,mode={mode}"  # at 20 Hz: two steps, since 1.5 is not over after one
    actions, looks = expected(mode, size, 2)
    policies = {
        "object": (counter(size, tmp_path / "object.heard"), {}),
        "file": (COUNTER, {"policy_args": {"size": size, "placement": "process"}}),
    }
    records = {}
    for name, (policy, options) in policies.items():
        run, record, seen = play(tmp_path, policy, text, name, **options)
        assert [value for kind, value in seen if kind == "action"] == actions, name
        assert [value for kind, value in seen if kind == "look"] == looks, name
        stored = read_arrays(run.directory, 0).actions
        assert np.array_equal(stored, np.array(actions, np.float32))
        records[name] = (record.trace, record.calls, record.held)
    assert records["object"] == records["file"]
    held = sum(row[:2] == [0.0, 0.0] for row in actions)
    assert records["file"][2] == held
    heard = notes(tmp_path / "object.heard")
    assert [step for _, step, _, _ in heard] == looks[: len(heard)]
    assert all(delay == 2 and len(committed) == 2 for _, _, delay, committed in heard)
    for _, step, _, committed in heard:
        assert committed == actions[step : step + 2][: len(committed)] or step + 2 > 39


def test_a_policy_in_the_worker_and_in_the_programs_process(tmp_path):
    actions, looks = expected("wait", 1, 2)
    for name, options in (("worker", {}), ("inline", {"workers": 0})):
        log = tmp_path / f"{name}.log"
        given = {"workers": 1, **options}
        run = envhub.evaluate(
            LATE, "counter", episodes=1, latency="100ms", out=tmp_path / name,
            env_args={"log": str(log)}, **given,
        )  # fmt: skip
        (record,) = run.records()
        seen = notes(log)
        assert [value for kind, value in seen if kind == "action"] == actions
        assert [value for kind, value in seen if kind == "look"] == looks
        assert (record.calls, record.held) == (13, 26)


def test_records_do_not_depend_on_workers_and_overlap_of_nothing_is_no_latency(tmp_path):
    traces = {}
    for name, text, workers in (
        ("one", "60ms,mode=overlap", 1),
        ("three", "60ms,mode=overlap", 3),
        ("none", None, 1),
        ("zero", "0ms,mode=overlap", 2),
    ):
        run = envhub.evaluate(
            LATE, counter(5), episodes=4, workers=workers, latency=text, out=tmp_path / name
        )
        traces[name] = {(r.number, r.trace, r.calls, r.held) for r in run.records()}
    assert traces["one"] == traces["three"]
    assert traces["none"] == traces["zero"]
    assert {row[2:] for row in traces["none"]} == {(None, None)}
    protocols = {name: read_run(tmp_path / name)["protocol"] for name in traces}
    assert protocols["none"] == protocols["zero"] != protocols["one"] == protocols["three"]


def test_it_is_recorded_resumed_replayed_and_verified(tmp_path):
    out = tmp_path / "run"
    run = envhub.evaluate(LATE, "counter", episodes=3, workers=1, latency="0.1s", out=out)
    plan = read_run(run.directory)["plan"]["latency"]
    assert plan == {
        "mode": "wait",
        "seconds": 0.1,
        "hz": 20.0,
        "steps": [[2, 1]],
        "hold": [0.0, 0.0, -1.0],
        "keeps": "gripper",
    }
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text(lines[0])
    again = envhub.evaluate(
        LATE, "counter", episodes=3, workers=1, latency="100ms", out=out, resume=True
    )
    assert [r.trace for r in again.records()] == [json.loads(line)["trace"] for line in lines]
    for policy in (False, True):
        checked = envhub.verify(out, episodes=None, policy=policy)
        assert checked.ok
        assert {episode.verdict for episode in checked.episodes} == {"identical"}
    for other in ("150ms", "100ms,mode=overlap", None):
        with pytest.raises(RunDirectoryError, match="latency"):
            envhub.evaluate(
                LATE, "counter", episodes=3, workers=1, latency=other, out=out, resume=True
            )


def test_as_long_as_in_another_run(tmp_path):
    measured = envhub.evaluate(LATE, counter(1), episodes=1, workers=1, out=tmp_path / "measured")
    assert measured.info["policy"]["latency"]["calls"] == 39
    # The durations of that run, made longer: 30 calls took about 0.2 s and 10 about 0.05 s.
    info = json.loads((tmp_path / "measured" / "run.json").read_text())
    info["policy"]["latency"] |= {"calls": 40, "counts": {"249": 30, "221": 10}}
    (tmp_path / "measured" / "run.json").write_text(json.dumps(info))
    runs = [
        envhub.evaluate(
            LATE, counter(2), episodes=2, workers=workers, latency=tmp_path / "measured",
            out=tmp_path / f"run{workers}",
        )
        for workers in (1, 2)
    ]  # fmt: skip
    assert read_run(runs[0].directory)["plan"]["latency"]["steps"] == [[1, 10], [4, 30]]
    first, second = ([(r.trace, r.held) for r in run.records()] for run in runs)
    assert first == second
    assert first[0] != first[1]  # each episode draws its own


@pytest.mark.parametrize(
    ("text", "seconds", "mode", "hz"),
    [
        ("120ms", [0.12], "wait", None),
        ("0.12s", [0.12], "wait", None),
        ("0", [0.0], "wait", None),
        ("0,25,50ms", [0, 0.025, 0.05], "wait", None),
        ("25ms,0.1s,mode=overlap", [0.025, 0.1], "overlap", None),
        (" 1s , hz=12.5", [1.0], "wait", 12.5),
    ],
)
def test_what_is_asked_for(text, seconds, mode, hz):
    asked = parse_latency(text)
    assert [one.seconds for one in asked] == seconds
    assert {(one.mode, one.hz) for one in asked} == {(mode, hz)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("120", r"--latency needs a unit: 120ms, or 120s\."),
        ("fast", r"'fast' is no time and no run's directory: write 120ms, "),
        ("1ms,fast", r"'fast' is no time: write 120ms"),
        ("", r"names no time"),
        ("mode=wait", r"names no time"),
        ("1ms,mode=now", r"mode is wait or overlap, found 'now'\."),
        ("1ms,hz=0", r"hz is a positive number, found '0'\."),
        ("1ms,size=3", r"'size' is none of its options, mode and hz"),
        ("2h", r"'2h' is no time"),
        ("4000s", r"at most 3600s"),
        ("5ms,0.005s", r"names a time twice"),
        ("-5ms", r"'-5ms' is no time"),
    ],
)
def test_what_cannot_be_asked_for(text, said):
    with pytest.raises(UsageError, match=said):
        parse_latency(text)


@pytest.mark.parametrize(
    ("env_args", "text", "said"),
    [
        ({"control": "", "still": "none"}, "1ms", r"late does not say how its robot holds still"),
        (
            {"control": "joint_position", "still": "none"},
            "1ms",
            r"The actions of late are positions, and it does not declare the one",
        ),
        ({"still": "long"}, "1ms", r"hold has 4 numbers and its actions have 3"),
        ({}, "1ms,hz=10", r"late takes 20 actions a second; leave hz=10 out"),
    ],
)
def test_what_a_benchmark_cannot_say(tmp_path, env_args, text, said):
    run = None
    with pytest.raises((UsageError, ContractError), match=said):
        run = envhub.evaluate(
            LATE, "counter", episodes=1, workers=1, latency=text, env_args=env_args,
            out=tmp_path / "run", retries=0, max_errors=1,
        )  # fmt: skip
    assert run is None


def test_how_positions_hold(tmp_path):
    _, record, seen = play_with(tmp_path, {"control": "joint_position"})
    actions = [value for kind, value in seen if kind == "action"]
    assert actions[:2] == [[0.0, 0.0, -1.0]] * 2
    assert actions[2:5] == [[100.0, 0.0, 1.0]] * 3  # the last position, until the next is there
    assert record.held == 26


def play_with(tmp_path, env_args):
    log = tmp_path / "seen.log"
    run = envhub.evaluate(
        LATE, "counter", episodes=1, workers=1, latency="100ms", out=tmp_path / "run",
        env_args={"log": str(log), **env_args},
    )  # fmt: skip
    (record,) = run.records()
    return run, record, notes(log)


def test_a_benchmark_that_takes_no_actions_a_second(tmp_path):
    walk = ASSETS / "run_walk"
    with pytest.raises(UsageError, match=r"declares no control_hz.*--latency 120ms,hz=20"):
        envhub.evaluate(walk, "random", episodes=1, workers=1, latency="1ms", out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_runs_of_other_latencies_are_not_paired(tmp_path):
    for name, text in (("a", None), ("b", "50ms"), ("c", "100ms")):
        envhub.evaluate(LATE, "counter", episodes=1, workers=1, latency=text, out=tmp_path / name)
    for one, two in itertools.combinations("abc", 2):
        done = command("compare", str(tmp_path / one), str(tmp_path / two))
        assert done.code == 2
        assert "--latency" in done.err


def test_several_latencies_are_runs_of_the_same_episodes_and_a_table(tmp_path):
    words = (
        "eval", str(LATE), "--policy", "counter", "--episodes", "2", "--workers", "1",
        "--latency", "0,50,100ms", "--out", str(tmp_path / "all"),
    )  # fmt: skip
    done = command(*words)
    assert done.code == 0, done.err
    assert "Latency 50ms, 2 of 3:" in done.err
    rows = [line.split() for line in done.out.splitlines() if "ms" in line][:3]
    assert [row[0] for row in rows] == ["0ms", "50ms", "100ms"]
    assert [row[-1] for row in rows] == ["0.0", "20.0", "26.0"]
    page = (tmp_path / "all" / "report.html").read_text()
    assert "Success against latency" in page
    assert page.count("<circle") == 6  # the curve's, and those of the axes
    again = command(*words, "--continue", "--json")
    assert again.code == 0, again.err
    content = json.loads(again.out)["latencies"]
    assert [row["latency_seconds"] for row in content] == [0.0, 0.05, 0.1]
    assert [row["rate"] for row in content] == [1.0, 1.0, 1.0]
    assert content[1]["compared"]["difference"] == 0.0
    refused = command(*words, "--video", "1")
    assert refused.code == 2
    assert "--video goes with one --latency" in refused.err
    pair = [str(tmp_path / "all" / f"latency-{name}") for name in ("0ms", "100ms")]
    across = command("compare", *pair, "--across", "latency")
    assert across.code == 0
    assert "Paired across --latency (none, wait, steps late: 2, holding" in across.out


def test_the_policy_of_the_docs_plans_from_where_the_committed_actions_end(tmp_path):
    """With overlap it loses no step after the first delay: it is done d steps later, no more."""
    steps = {}
    for name, text in (("still", None), ("late", "500ms,mode=overlap")):
        run = envhub.evaluate(
            DOCS / "examples" / "reach", str(DOCS / "examples" / "policies" / "plan_ahead.py"),
            tasks=["reach-red"], episodes=3, workers=1, latency=text, out=tmp_path / name,
        )  # fmt: skip
        steps[name] = [(record.success, record.steps) for record in run.records()]
    assert [(True, count + 5) for _, count in steps["still"]] == steps["late"]
