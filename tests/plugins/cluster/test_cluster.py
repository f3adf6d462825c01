"""Evaluations on a real Ray cluster, whose head and nodes are processes of their own."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.needs import needs_cluster, needs_own_network
from support.ray_clusters import RayNodes, envhub_here, ray_cluster, start_here
from support.run_tools import WALK, WALKERS, counted, ended, envhub, outcomes

pytestmark = [needs_cluster, pytest.mark.timeout(600)]

EPISODES = 12
QUESTION = (
    *("eval", WALK, "--suite", "all", "--episodes", EPISODES, "--policy", f"{WALKERS}:noisy"),
    *("--retries", 0, "--workers", 1, "--env-arg", "pause=0.02"),
)


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with ray_cluster("one", "two") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same on one machine."""
    out = tmp_path_factory.mktemp("one") / "run"
    answer = envhub(*QUESTION, "--out", out)
    assert answer.code == 0, answer
    return out


def test_records_are_those_of_one_machine_though_nodes_are_killed_and_join(
    nodes: RayNodes, reference: Path, tmp_path: Path
):
    out, gate = tmp_path / "run", Gate(tmp_path / "gate", ("near", "back"))
    command = start_here(*QUESTION, *gate.words, "--cluster", nodes.address, "--out", out)
    wait_for(lambda: counted(out) == 4, command)  # two of each node, which then stand at the gate
    nodes.kill("two")
    gate.forget()
    nodes.join("three")
    wait_for(lambda: gate.waiting() == 2, command)
    assert nodes.kill_actor("one"), "it plays no more"
    gate.open()
    answer = ended(command)
    assert answer.code == 0, answer
    assert outcomes(out) == outcomes(reference)
    assert "Node two is lost" in answer.err
    assert "Node one is lost" in answer.err
    assert_arrays_are_equal(out, reference)
    info = json.loads((out / "run.json").read_text())
    played = {part["name"]: part["numbers"] for part in info["parts"]}
    assert set(played) == {"one", "two", "three"}, "a node that joined late plays, too"
    numbers = [n for rows in played.values() for a, b in rows for n in range(a, b + 1)]
    assert sorted(numbers) == list(range(3 * EPISODES))
    assert "machines" in info
    assert envhub("verify", out, "--json").code == 0


def test_the_driver_is_killed_and_resumed(nodes: RayNodes, reference: Path, tmp_path: Path):
    out, gate = tmp_path / "run", Gate(tmp_path / "gate", ("far",))
    command = start_here(*QUESTION, *gate.words, "--cluster", nodes.address, "--out", out)
    wait_for(lambda: counted(out) >= 5, command)
    command.send_signal(signal.SIGKILL)
    command.communicate()
    assert counted(out) < 3 * EPISODES
    gate.open()
    answer = envhub_here("eval", "--resume", out, "--cluster", nodes.address)
    assert answer.code == 0, answer
    assert outcomes(out) == outcomes(reference)
    info = json.loads((out / "run.json").read_text())
    rows = [row for part in info["parts"] for row in part["numbers"]]
    assert sum(last - first + 1 for first, last in rows) == 3 * EPISODES


def test_doctor_says_what_nodes_have(nodes: RayNodes):
    answer = envhub_here("doctor", "--cluster", nodes.address, "--json")
    found = json.loads(answer.out)["nodes"]
    assert {row["name"] for row in found} >= {"one"}
    assert all(row["problems"] == [] for row in found), answer
    assert "can play" in envhub_here("doctor", "--cluster", nodes.address).out


def test_a_cluster_that_is_not_there(tmp_path: Path):
    for address, words in (
        ("127.0.0.1:1", "--cluster 127.0.0.1:1: no cluster answers there (Connection refused)"),
        ("nowhere", "--cluster takes auto or HOST:PORT, found 'nowhere'"),
    ):
        answer = envhub_here(*QUESTION, "--cluster", address, "--out", tmp_path / "run")
        assert answer.code == 2, answer
        assert words in answer.err
        assert "Traceback" not in answer.err
        assert not (tmp_path / "run").exists()


@needs_own_network
def test_auto_where_no_ray_runs(tmp_path: Path):
    """In a namespace without the processes of this machine, among which others may run Ray."""
    alone = ("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc")
    more = {"RAY_TMPDIR": str(tmp_path / "ray")}
    out = tmp_path / "run"
    answer = ended(
        start_here(*QUESTION, "--cluster", "auto", "--out", out, more=more, within=alone)
    )
    assert answer.code == 2, answer
    assert "--cluster auto: no Ray runs on this machine. Run this command on a" in answer.err
    assert "Traceback" not in answer.err
    assert not out.exists()


def assert_arrays_are_equal(a: Path, b: Path) -> None:
    names = sorted(path.name for path in (a / "actions").iterdir())
    assert names == sorted(path.name for path in (b / "actions").iterdir())
    for name in names:
        assert (a / "actions" / name).read_bytes() == (b / "actions" / name).read_bytes()


class Gate:
    """A directory in which all but the first two episodes of tasks wait until it is opened."""

    def __init__(self, place: Path, tasks: tuple[str, ...]) -> None:
        place.mkdir()
        self._place = place
        self._signs = [place / f"{task}.{k}" for task in tasks for k in range(2, EPISODES)]
        for sign in self._signs:
            sign.touch()
        self.words = ("--env-arg", f"gate={place}", "--timeout", "reset=600")

    def forget(self) -> None:
        """Forget who has waited; those who still do say so again."""
        for sign in self._place.glob("*.waiting"):
            sign.unlink()

    def waiting(self) -> int:
        return len(list(self._place.glob("*.waiting")))

    def open(self) -> None:
        for sign in self._signs:
            sign.unlink()


def wait_for(condition, command) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
