"""A node, without Ray: what it is sent, what it refuses, and what it plays."""

import time
from pathlib import Path

import msgspec
import pytest
from envhub_cluster.driver import make_begin
from envhub_cluster.messages import (
    BadMessage,
    Begin,
    Exchange,
    Played,
    Preparing,
    Refused,
    Report,
    encode,
    read_arrays,
    read_begin,
    read_state,
)
from envhub_cluster.node import Node
from envhub_cluster.parcels import unpack
from msgspec.structs import replace
from support.journals import record
from support.run_tools import WALK, WALKERS, outcomes

from envhub import evaluate
from envhub.cli.progress import make_watcher
from envhub.errors import SourceCorrupt, UsageError
from envhub.evaluation.request import EvalRequest
from envhub.evaluation.run import start_run
from envhub.options import SourceOptions
from envhub.policies.find import read_policy
from envhub.results.journal import record_to_json

EPISODES = 4
POLICY = f"{WALKERS}:noisy"


class Sent(Exception):
    """What would be sent to nodes."""


class Sends:
    """A player that stops where it would begin to send."""

    def start(self, prepared, job, on_record, on_poll):
        raise Sent(make_begin(prepared, job))


def sent(tmp_path: Path, **more: object) -> Begin:
    fields = {"policy": read_policy(POLICY), "suites": ("all",), "workers": 1, **more}
    request = EvalRequest(
        str(WALK), episodes=EPISODES, out=tmp_path / "run", player=Sends(), **fields
    )
    with pytest.raises(Sent) as found:
        start_run(request, make_watcher(quiet=True))
    return read_begin(encode(found.value.args[0]))


@pytest.fixture(scope="module")
def begin(tmp_path_factory) -> Begin:
    return sent(tmp_path_factory.mktemp("sent"))


def ask(node: Node, *leases: tuple[int, int], end: bool = False, stop: bool = False):
    """One exchange, by way of bytes."""
    asked = Exchange(leases=list(leases), stop=stop, end=end, wait=0.2)
    return read_state(encode(node.exchange(asked)))


def state_of(begin: Begin):
    """What a node says once it has prepared."""
    node = Node(begin, 1)
    while isinstance(state := ask(node), Preparing):
        time.sleep(0.01)
    if isinstance(state, Report):
        while not ask(node, end=True).ended:
            pass
    return state


def test_what_is_leased_late_and_in_any_order_is_played_as_on_one_machine(begin, tmp_path):
    reference = evaluate(
        str(WALK), POLICY, suites="all", episodes=EPISODES, workers=0, out=tmp_path / "one"
    )
    node = Node(replace(begin, workers=2), 1)
    while isinstance(ask(node), Preparing):
        time.sleep(0.01)
    played: list[Played] = []
    for lease in ((5, 7), (0, 0), (8, 11), (1, 4)):
        want = len(played) + lease[1] - lease[0] + 1
        report = ask(node, lease)
        played += report.played
        while len(played) < want:
            report = ask(node)
            played += report.played
        assert not report.ended, "there may be more"
    while not (report := ask(node, end=True)).ended:
        played += report.played
    assert len(played) == 3 * EPISODES
    assert report.facts is not None
    expected = outcomes(reference.directory)
    for each in played:
        said = record_to_json(each.record)
        del said["seconds"], said["attempts"]
        assert said == expected[said["task"], said["episode"]]
        stored = (reference.directory / "actions" / f"{each.record.number}.npy").read_bytes()
        assert each.arrays == stored


def test_a_node_that_is_stopped_ends_what_is_under_way(begin):
    node = Node(begin, 1)
    while isinstance(ask(node), Preparing):
        time.sleep(0.01)
    played = list(ask(node, (0, 11)).played)
    while not (report := ask(node, stop=True)).ended:
        played += report.played
    assert len(played) + len(report.played) < 3 * EPISODES


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"envhub": "9.9"}, "the driver 9.9: install the same"),
        ({"generation": 0}, "install the same"),
    ],
)
def test_a_driver_of_another_version_is_refused(begin, change, words):
    state = state_of(replace(begin, **change))
    assert isinstance(state, Refused)
    assert words in state.reason
    assert state.code == 2


def changed_run(begin: Begin, **parts: dict[str, object]) -> Begin:
    run = {**begin.run, **{name: {**begin.run[name], **more} for name, more in parts.items()}}
    return replace(begin, run=run)


def test_a_node_with_other_packages_or_another_plan_is_refused_in_words(begin):
    packages = {**begin.run["runtime"]["packages"], "numpy": "0.1"}
    state = state_of(changed_run(begin, runtime={"packages": packages}))
    assert isinstance(state, Refused)
    assert state.reason.startswith("it and the driver differ in the packages (numpy 0.1, ")
    state = state_of(changed_run(begin, protection={"process": False}))
    assert isinstance(state, Refused)
    assert "differ in the process (False, True)" in state.reason


def test_files_that_are_not_those_of_the_run_are_refused(begin, tmp_path):
    assert begin.benchmark is not None
    first = begin.benchmark.files[0]
    forged = replace(
        begin.benchmark, files=[replace(first, content=b"import os"), *begin.benchmark.files[1:]]
    )
    state = state_of(replace(begin, benchmark=forged))
    assert isinstance(state, Refused)
    assert "The driver's env.py has sha256:" in state.reason
    assert state.code == 6
    outside = replace(begin.benchmark, file="../up.py", files=[replace(first, path="../up.py")])
    with pytest.raises(SourceCorrupt, match="leads out of its directory"):
        unpack(outside, {"../up.py": begin.run["benchmark"]["files"]["env.py"]}, tmp_path / "in")
    assert not (tmp_path / "up.py").exists()


def test_a_policy_that_is_an_object_and_secrets_of_the_command_line_stay_here(tmp_path):
    with pytest.raises(UsageError, match="cannot be sent to nodes"):
        sent(tmp_path, policy=read_policy(object()))
    secret = SourceOptions(env_vars={"MY_TOKEN": "hush"})
    with pytest.raises(UsageError, match="Set MY_TOKEN here and on every node"):
        sent(tmp_path, options=secret)
    assert list(tmp_path.iterdir()) == [], "no half-made run"


def test_only_names_of_variables_are_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hush-hush")
    begin = sent(tmp_path, options=SourceOptions(env_vars={"MY_TOKEN": "hush-hush"}))
    assert b"hush-hush" not in encode(begin)
    monkeypatch.setenv("MY_TOKEN", "other")
    state = state_of(begin)
    assert isinstance(state, Refused)
    assert "--env-var value" in state.reason


@pytest.mark.parametrize(
    "answer", [None, object(), b"", b"\xc1", msgspec.msgpack.encode({"type": "Report"})]
)
def test_what_is_no_message_is_refused(answer):
    with pytest.raises(BadMessage, match="no message"):
        read_state(answer)


def test_arrays_that_are_none_are_refused():
    with pytest.raises(BadMessage, match="no arrays"):
        read_arrays(Played(record=record(1), arrays=b"\x93NUMPY"))
