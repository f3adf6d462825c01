"""Attacks by run directories: a directory that is handed around is data, and obeyed by nobody.

Each is met with a refusal before anything is executed, and left as it was found. The code that must
not run leaves a marker below the test's own directory.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.attacks import env_file, envhub
from support.needs import needs_root
from support.notes import bring_notes
from support.run_tools import snapshot

from envhub import open_run
from envhub.removal import remove_tree
from envhub.results.seal import is_sealed, key_path, seal
from envhub.seeding import make_seeds

MARK = """
from pathlib import Path
try:
    Path({marker!r}).touch()
except OSError:
    pass  # in a sandbox
"""

POLICY = """
import numpy as np

class Policy:
    def act(self, obs, episodes):
        return np.zeros((len(episodes), 2), np.float32)

def make_policy(benchmark, observation_space, action_space, **args):
    return Policy()
"""

ASKED = ("--task", "attack", "--episodes", "2", "--workers", "1")
SEAL = "run/run.json does not carry your seal: somebody else made it, or it was changed, so it is"
INSTEAD = "Say yourself what to run: envhub eval REF --policy P --out run --continue"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of one test after the other: a run names the files that it was begun with."""
    return tmp_path_factory.mktemp("runs") / "place"


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    remove_tree(place)  # with the store's snapshots, which are read-only
    place.mkdir()
    monkeypatch.setenv("ENVHUB_HOME", str(place / "home"))
    bring_notes(place / "home")
    monkeypatch.chdir(place)


@pytest.fixture
def marker(place: Path) -> Path:
    return place / "marker"


@pytest.fixture
def theirs(place: Path) -> dict[str, str]:
    """The variables of somebody else, who has another key."""
    return {"ENVHUB_HOME": str(place / "their-home")}


@pytest.fixture
def begin(marker: Path, place: Path) -> Callable[..., None]:
    """Makes the directory `run`, of whose two episodes one has no record yet.

    Benchmark and policy leave the marker whenever they are loaded. Those of the tests that begin
    with the same run get a copy of it.
    """
    for file, text in (("bench/env.py", env_file()), ("policy/policy.py", POLICY)):
        Path(file).parent.mkdir()
        Path(file).write_text(MARK.format(marker=str(marker)) + text)

    def make(ref: str = "./bench", *more: object, **variables: str) -> None:
        kept = place.with_name(hashlib.sha256(repr((ref, more, variables)).encode()).hexdigest())
        if kept.exists():
            shutil.copytree(kept, place, dirs_exist_ok=True)
            return
        play(ref, *more, **variables)
        marker.unlink(missing_ok=True)
        if ref == "./bench":
            shutil.copytree(place, kept)

    return make


def play(ref: str, *more: object, **variables: str) -> None:
    """Evaluate, and forget the second episode."""
    policy = () if "--policy" in more else ("--policy", "./policy/policy.py")
    done = envhub("eval", ref, *ASKED, *policy, "--out", "run", *more, **variables)
    assert done.returncode == 0, done.stderr
    journal = Path("run/episodes.jsonl")
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])


def own_command(*more: object) -> tuple[object, ...]:
    """The command line with which the victim asks the same."""
    policy = () if "--policy" in more else ("--policy", "./policy/policy.py")
    return ("eval", "./bench", *ASKED, *policy, "--out", "run", "--continue", *more)


RESUME = ("eval", "--resume", "run", "--workers", "1")


def refused(marker: Path, arguments: tuple[object, ...], *said: str, **variables: str) -> None:
    """Nothing is executed, one sentence says why, and the directory is as it was."""
    before = tree(Path("run"))
    done = envhub(*arguments, **variables)
    assert not marker.exists()
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    for part in said:
        assert part in done.stderr, done.stderr
    assert done.stderr.removesuffix("\n").isprintable(), done.stderr  # so it is one line
    assert tree(Path("run")) == before


def tree(directory: Path) -> dict[str, object]:
    """Everything in a directory: content, and where links lead."""
    links = {str(p): os.readlink(p) for p in sorted(directory.rglob("*")) if p.is_symlink()}
    return {**snapshot(directory), "links": links, "names": sorted(os.listdir(directory))}


def edit(changes: Mapping[str, Any], *, gone: str = "") -> None:
    """Change `run.json` by hand: `{"plan.seed": 5}`."""
    info = json.loads(Path("run/run.json").read_text())
    for dotted, value in {**changes, **({gone: None} if gone else {})}.items():
        *above, last = dotted.split(".")
        part = info
        for key in above:
            part = part[key]
        part[last] = value
        if dotted == gone:
            del part[last]
    Path("run/run.json").write_text(json.dumps(info, indent=2))


# What somebody else made


def test_a_sandbox_that_is_none(publish, sandbox, begin, marker, theirs):
    """The victim even trusts the code, in its sandbox."""
    ref = publish(env_file(top=MARK.format(marker=str(marker))))
    begin(ref, "--trust-remote-code", "--sandbox", sandbox, **theirs)
    edit({"protection.sandbox": "none", "protection.network": True})
    refused(marker, (*RESUME, "--trust-remote-code"), SEAL, INSTEAD)
    edit({"protection.process": False})
    inline = ("eval", "--resume", "run", "--workers", "0", "--trust-remote-code")
    refused(marker, inline, SEAL, INSTEAD)


def test_a_benchmark_and_a_policy_of_theirs(begin, marker, theirs):
    """Both are there, with the hashes that run.json has."""
    begin(**theirs)
    refused(marker, RESUME, SEAL, INSTEAD)
    refused(marker, ("eval", "--resume", "run", "--workers", "0"), SEAL, INSTEAD)


@pytest.mark.parametrize("policy", ["random", "./policy/policy.py"])
def test_only_a_benchmark_or_only_a_policy_of_theirs(begin, marker, theirs, policy, tmp_path):
    begin("./bench", "--policy", policy, **theirs)
    shutil.copytree("run", "copy")
    shutil.rmtree("run")
    Path("copy").rename("run")
    refused(marker, RESUME, SEAL, INSTEAD)


def test_a_seal_of_theirs_a_made_up_one_and_none(begin, marker, theirs):
    begin(**theirs)
    for made in ("hmac-sha256:" + "0" * 64, "", None, 5, [], "\ud800", {}):
        edit({"seal": made})
        refused(marker, RESUME, SEAL, INSTEAD)
    edit({}, gone="seal")
    refused(marker, RESUME, SEAL, INSTEAD)


# What was the victim's own, and was changed


EDITS = [
    {"plan.episodes": 3},
    {"plan.seed": 1},
    {"limits.step": 1e9},
    {"retries": 1000},
    {"policy.args": {"path": "/"}},
    {"policy.ref": "os:system"},
    {"policy.path": None, "policy.ref": "os:system"},
    {"benchmark.kind": "hub"},
    {"benchmark.path": "/nowhere/env.py"},
    {"protection.process": False},
    {"protection.sandbox": "landlock"},
    {"runtime.kind": "isolated"},
    {"more": 1},
]


def test_a_run_that_was_edited_by_hand(begin, marker):
    begin()
    before = Path("run/run.json").read_bytes()
    for changes in EDITS:
        edit(changes)
        refused(marker, RESUME, SEAL, INSTEAD)
        Path("run/run.json").write_bytes(before)
    done = envhub(*RESUME)  # as it was, it goes on without a question
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    assert open_run("run").complete


def test_the_seal_is_renewed_with_what_the_policy_says_of_itself(begin):
    begin()
    assert json.loads(Path("run/run.json").read_text())["policy"]["placement"] == "process"
    for _ in range(2):
        assert envhub(*RESUME).returncode == 0


# What a directory says is compared with a command line, whatever it is


@pytest.mark.parametrize(
    ("changes", "gone", "said"),
    [
        ({}, "plan", "Object missing required field `plan`"),
        ({}, "policy.directory", "policy: Object missing required field `directory`"),
        ({}, "runtime.key", "runtime: Object missing required field `key`"),
        ({"plan": []}, "", "plan: Expected `object`, got `array`"),
        ({"plan.episodes": "2"}, "", "plan.episodes: Expected `int`, got `str`"),
        ({"plan.episodes": True}, "", "plan.episodes: Expected `int`, got `bool`"),
        ({"plan.episodes": -1}, "", "plan.episodes: Expected `int` >= 1"),
        ({"plan.suites": {"attack": "attack"}}, "", "Expected `array`, got `str`"),
        ({"plan.suites": {"attack": ["other"]}}, "", "The suites name other tasks than there are"),
        ({"benchmark.files": {"env.py": 5}}, "", "Expected `str`, got `int`"),
        ({"benchmark.env_args": []}, "", "benchmark.env_args: Expected `object`, got `array`"),
        ({"created": "\x1b[2J"}, "", "created is not a time"),
        ({"policy.placement": "host"}, "", "policy.placement: Invalid enum value 'host'"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else str(value)[:20],
)
def test_a_run_json_with_missing_or_mistyped_parts(begin, marker, theirs, changes, gone, said):
    begin(**theirs)
    edit(changes, gone=gone)
    refused(marker, own_command(), "run/run.json is damaged", said)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', "[" * 100_000, '{"format": 1e999}'])
def test_a_run_json_that_is_none(begin, marker, text):
    begin()
    Path("run/run.json").write_text(text)
    refused(marker, RESUME, "run")
    refused(marker, own_command(), "run")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"benchmark.files": {"env.py": "\x1b[2J"}},
            "file env.py that run was begun with is \\x1b",
        ),
        ({"policy.sha256": "0" * 64}, f"policy's file that run was begun with is {'0' * 64}, and"),
        ({"policy.args": {"a": 1}}, "The --policy-arg a that run was begun with is 1, and now it"),
        ({"benchmark.env_args": {"a": 1}}, "The --env-arg a that run was begun with is 1, and now"),
        ({"benchmark.kind": "hub"}, "The kind of benchmark that run was begun with is hub, and"),
    ],
)
def test_what_is_not_the_same_is_refused_before_anything_runs(begin, marker, changes, said):
    begin()
    edit(changes)
    refused(marker, own_command(), said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runtime.key": "0123"}, "The runtime that run was begun with is 0123, and now it is no"),
        ({"runtime.packages": {}}, "The package "),
        ({"plan.tasks.attack.horizon": 9}, "The task attack that run was begun with is {"),
        ({"policy.path": "/p.py:other"}, "is other of a file, and now it is make_policy of a file"),
    ],
)
def test_what_only_the_benchmark_can_say_is_compared_before_the_first_episode(
    begin, marker, changes, said
):
    begin()
    edit(changes)
    before = snapshot(Path("run"))
    done = envhub(*own_command())
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert snapshot(Path("run")) == before


def test_the_command_line_alone_says_how_code_is_protected(
    publish, sandbox, begin, marker, theirs, tmp_path
):
    ref = publish(env_file(top=MARK.format(marker=str(marker))))
    begin(ref, "--trust-remote-code", "--sandbox", sandbox, "--policy", "zero", **theirs)
    edit({"protection.sandbox": "none", "protection.network": True, "protection.process": False})
    asked = ("eval", ref, *ASKED, "--policy", "zero", "--out", "run", "--continue")
    before = snapshot(Path("run"))
    done = envhub(*asked, "--sandbox", sandbox)
    assert done.returncode == 3, done.stderr  # their consent is not the victim's
    assert snapshot(Path("run")) == before
    done = envhub(*asked, "--sandbox", sandbox, "--trust-remote-code")
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    run = open_run("run")
    assert run.complete
    assert (run.info["protection"]["sandbox"], run.info["protection"]["network"]) == (
        sandbox,
        False,
    )


def test_a_policy_of_the_hub_stays_in_its_sandbox_when_a_run_is_resumed(
    publish, sandbox, begin, marker
):
    """Named by the path of its file it would be a file of the user's own."""
    policy = POLICY.replace("class Policy:", 'class Policy:\n    placement = "worker"')
    text = env_file(
        top=MARK.format(marker=str(marker)), bottom=policy, more='policies={"own": ":make_policy"}'
    )
    ref = publish(text)
    begin(ref, "--trust-remote-code", "--sandbox", sandbox, "--policy", "own")
    done = envhub(*RESUME, "--trust-remote-code")
    assert not marker.exists()
    assert done.returncode == 0, done.stderr
    run = open_run("run")
    assert run.complete
    assert (run.info["policy"]["ref"], run.info["policy"]["path"]) == ("own", None)


SAID = {
    "created": "2001-01-01T00:00:00+00:00",
    "envhub": "9.9.9",
    "policy.processes": ["one", "two"],
    "policy.batch": 77,
    "policy.about": {"theirs": "yes"},
    "policy.latency": {"calls": 9999, "p50": 1.0, "p95": 2.0, "counts": {"100": 9999}},
    "policy.outliers": [
        {"task": "attack", "feature": "x", "index": 0, "value": 9.0, "statistics": {"mean": 0.0}}
    ],
    "conventions.overridden": ["state"],
}


def said_in(info: Mapping[str, Any], dotted: str) -> Any:
    for key in dotted.split("."):
        info = info[key]
    return info


@pytest.mark.parametrize("complete", [False, True])
def test_nothing_that_a_stranger_said_is_sealed(begin, theirs, complete):
    """Their records count, as the victim asks for; what else they say would look like the own."""
    begin(**theirs)
    if complete:
        assert envhub(*RESUME, **theirs).returncode == 0
    edit(SAID)
    assert not is_sealed(json.loads(Path("run/run.json").read_text()))
    done = envhub(*own_command())
    assert done.returncode == 0, done.stderr
    info = json.loads(Path("run/run.json").read_text())
    assert is_sealed(info)
    assert open_run("run").complete
    assert [key for key, value in SAID.items() if said_in(info, key) == value] == []
    assert (info["policy"]["latency"] or {"calls": 0})["calls"] <= 1


def test_what_was_sealed_stays_when_a_run_is_continued(begin):
    begin()
    then = {"created": "2001-01-01T00:00:00+00:00", "envhub": "9.9.9"}
    edit(then)
    Path("run/run.json").write_text(json.dumps(seal(json.loads(Path("run/run.json").read_text()))))
    assert envhub(*own_command()).returncode == 0
    info = json.loads(Path("run/run.json").read_text())
    assert {key: info[key] for key in then} == then
    assert info["policy"]["latency"]["calls"] == 3  # two before, and one now


# Links that lead out of the directory


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("run.json", os.symlink),
        ("episodes.jsonl", os.link),
        ("summary.json", os.symlink),
        (".lock", os.link),
        ("logs/worker-0.log", os.symlink),
    ],
)
def test_a_file_that_leads_out_of_the_directory(begin, marker, tmp_path, name, link):
    begin()
    outside, inside = tmp_path / "outside", Path("run", name)
    if inside.exists():
        inside.rename(outside)
    else:
        outside.write_text("mine, without an end of line")
    link(outside, inside)
    before = outside.read_bytes()
    for arguments in (RESUME, own_command()):
        refused(marker, arguments, f"run/{name} is a link, or something else than a file of its")
        assert outside.read_bytes() == before


@pytest.mark.parametrize("name", ["actions", "logs"])
def test_a_folder_that_leads_out_of_the_directory(begin, marker, tmp_path, name):
    begin()
    outside = tmp_path / "outside"
    Path("run", name).rename(outside)
    Path("run", name).symlink_to(outside)
    before = snapshot(outside)
    for arguments in (RESUME, own_command()):
        refused(marker, arguments, f"run/{name} is a link, or something else than a directory of")
        assert snapshot(outside) == before


def test_a_pipe_does_not_hold_anybody_up(begin, marker):
    begin()
    for name in ("run.json", "episodes.jsonl"):
        kept = Path("run", name).read_bytes()
        Path("run", name).unlink()
        os.mkfifo(f"run/{name}")
        for arguments in (RESUME, own_command()):
            refused(marker, arguments, f"run/{name} is a link, or something else than a file of")
        Path("run", name).unlink()
        Path("run", name).write_bytes(kept)


# Records

SEEDS = make_seeds("task", 0, "attack", 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 7}, f"its seed is 7, and the plan's is {SEEDS[1]}."),
        ({"task": "other"}, "episode 1 of task 'other' is not in the plan."),
        ({"episode": 2}, "episode 2 of task 'attack' is not in the plan."),
        ({"suite": "other"}, "its suite is 'other', and the plan's is 'attack'."),
        ({"init_state": 3}, "its init_state is 3, and the plan's is None."),
        ({"success": "\x1b[2J"}, "success: Expected `bool | null`, got `str`"),
    ],
)
def test_records_of_another_question(begin, marker, changes, said):
    begin()
    journal = Path("run/episodes.jsonl")
    good = json.loads(journal.read_text())
    episode = {"episode": 1, "seed": SEEDS[1]} if good["episode"] == 0 else {}
    with journal.open("a") as file:
        file.write(json.dumps({**good, **episode, **changes}) + "\n")
    line = "run/episodes.jsonl, line 2, is not a record of this run: "
    refused(marker, RESUME, line, said)
    refused(marker, own_command(), line, said)


# The key


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_that_others_can_read(begin, marker, mode):
    begin()
    key_path().chmod(mode)
    said = f"run.key is open to other users (mode {mode:04o}). Delete it, and continue the runs"
    for arguments in (RESUME, own_command()):
        refused(marker, arguments, said)
    new = ("eval", "./bench", *ASKED, "--policy", "./policy/policy.py", "--out", "new")
    refused(marker, new, said)
    assert not Path("new").exists()


@pytest.mark.parametrize("content", ["", "x" * 64 + "\n", "0" * 64])
def test_a_key_that_is_none(begin, marker, content):
    begin()
    key_path().write_text(content)
    for arguments in (RESUME, own_command()):
        refused(marker, arguments, "run.key is not a key. Delete it, and continue the runs that")
    assert key_path().read_text() == content


@needs_root
def test_a_key_of_somebody_else(begin, marker):
    begin()
    os.chown(key_path(), 12345, -1)
    refused(marker, RESUME, "run.key belongs to another user (uid 12345). Delete it")


def test_the_key_is_made_for_nobody_else(begin, monkeypatch, place):
    monkeypatch.setenv("ENVHUB_HOME", str(place / "new" / "home"))  # which is made with the key
    mask = os.umask(0)
    try:
        play("./bench")
    finally:
        os.umask(mask)
    assert key_path().stat().st_mode & 0o7777 == 0o600
    assert key_path().parent.stat().st_mode & 0o022 == 0
    assert not list(key_path().parent.glob(".run.key*"))
    key = key_path().read_bytes()
    assert envhub(*RESUME).returncode == 0
    assert key_path().read_bytes() == key
