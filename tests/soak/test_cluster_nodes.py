"""Clusters: nodes that lack something, and what is shared with nodes or kept from them."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.disks import SmallDisk
from support.needs import (
    needs_bubblewrap,
    needs_cluster,
    needs_landlock,
    needs_own_mount,
)
from support.paths import DOCS
from support.ray_clusters import envhub_here, ray_cluster, start_here
from support.run_tools import WALK, WALKERS, Answer, ended, outcomes
from support.sandboxes import fake_tool
from support.wheels import NEEDED, make_wheel, repack

from envhub.testing import LocalHub

EPISODES = 6
BLOCK = '# /// script\n# dependencies = ["gadget==1.0"]\n# ///\n'
SPY = """
import gadget as _gadget

def _spy(place):
    try:
        with open(place, "a") as file:
            file.write(str(_gadget.VERSION))
    except OSError:
        pass
    if any("TOKEN" in name for name in os.environ):
        raise RuntimeError("a token is here")
"""
NO_LANDLOCK = """
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x5005F), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command for which landlock_create_ruleset (444) is EOPNOTSUPP, as without Landlock."""

pytestmark = [pytest.mark.soak, needs_cluster, pytest.mark.timeout(1800)]


class Published:
    """A private benchmark on a Hub, which needs a package, and the command that evaluates it."""

    def __init__(self, hub: LocalHub, place: Path) -> None:
        """Put it on the Hub, and the packages on an index."""
        self.place, self.hub = place, hub
        index = place / "index"
        make_wheel(index, "gadget", "1.0")
        for name in NEEDED:
            repack(index, name)
        code = BLOCK + (WALK / "env.py").read_text().replace(
            "super().reset(seed=seed)", "super().reset(seed=seed); _spy(os.environ.get('X', MARK))"
        )
        self.marker = place / "marker"
        hub.create("me/walk", private=True)
        commit = hub.commit("me/walk", {"env.py": f"{code}{SPY}\nMARK = {str(self.marker)!r}\n"})
        self.words = (
            *("eval", f"me/walk@{commit}", "--trust-remote-code", "--private"),
            *("--suite", "all", "--policy", f"{WALKERS}:noisy", "--episodes", EPISODES),
            *("--workers", 1, "--retries", 0),
        )
        self.index = {
            "UV_DEFAULT_INDEX": f"{index.as_uri()}/simple",
            "UV_CACHE_DIR": str(place / "uv"),
            "PIP_CONFIG_FILE": os.devnull,
        }
        self.driver = {
            **self.index,
            "HF_ENDPOINT": hub.endpoint,
            "HF_TOKEN": hub.token,
            "ENVHUB_HOME": str(place / "driver"),
        }

    def node(self, name: str, **more: str) -> dict[str, str]:
        """The variables of a node: a cache of its own, and no Hub."""
        home = str(self.place / f"home-{name}")
        return {**self.index, "HF_ENDPOINT": "http://127.0.0.1:9", "ENVHUB_HOME": home, **more}

    def play(self, out: Path, *words: object) -> Answer:
        return envhub_here(*self.words, *words, "--out", out, more=self.driver)


@pytest.fixture
def published(local_hub: LocalHub, tmp_path: Path) -> Published:
    return Published(local_hub, tmp_path)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Callable[[str], SmallDisk]]:
    """Makes disks that have no space left."""
    disks = []

    def make(name: str) -> SmallDisk:
        (tmp_path / name).mkdir()
        disk = SmallDisk(tmp_path / name, "64k")
        disks.append(disk)
        disk.seen(disk.place / "filler").write_bytes(bytes(2**16))
        return disk

    yield make
    for disk in disks:
        disk.close()


def tools_without(place: Path, *names: str) -> str:
    """A path with all that this machine's has but for some programs."""
    place.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if tool.name not in names and not (place / tool.name).is_symlink():
                (place / tool.name).symlink_to(tool)
    return str(place)


@needs_bubblewrap
@needs_own_mount
def test_nodes_that_lack_something_are_named_and_left_out(
    published: Published, full: Callable[[str], SmallDisk], tmp_path: Path
):
    no_module = tmp_path / "modules"
    no_module.mkdir()
    (no_module / "uv.py").write_text("raise ImportError('no uv here')")
    scratch, cache = full("scratch"), full("cache")
    bad = tmp_path / "bad"
    bad.mkdir()
    fake_tool(bad, "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    assert published.play(tmp_path / "one").code == 0
    reasons = {
        "no-uv": "Runtimes are built with uv, which is not installed.",
        "no-bwrap": "The sandbox 'bubblewrap' does not work here: bubblewrap: bwrap is not on PATH",
        "bad-bwrap": "The sandbox 'bubblewrap' does not work here: bubblewrap: bwrap: No permiss",
        "no-scratch": f"No space is left for {scratch.place}",
        "no-cache": f"No space is left for {cache.place}",
    }
    with ray_cluster() as nodes:
        path = tools_without(tmp_path / "no-uv", "uv")
        nodes.join("no-uv", **published.node("no-uv", PATH=path, PYTHONPATH=str(no_module)))
        path = tools_without(tmp_path / "no-bwrap", "bwrap")
        nodes.join("no-bwrap", **published.node("no-bwrap", PATH=path))
        path = f"{bad}:{os.environ['PATH']}"
        nodes.join("bad-bwrap", **published.node("bad-bwrap", PATH=path))
        more = published.node("no-scratch", TMPDIR=str(scratch.place))
        nodes.join("no-scratch", within=scratch.enter(tmp_path), **more)
        more = published.node("no-cache", ENVHUB_HOME=str(cache.place))
        nodes.join("no-cache", within=cache.enter(tmp_path), **more)
        out = tmp_path / "run"
        answer = published.play(out, "--cluster", nodes.address)
        assert answer.code == 2, answer
        assert "No node of the cluster plays this run." in answer.err
        assert "Nor do 2 more." in answer.err
        assert "Traceback" not in answer.err
        assert not out.exists(), "no half-made run"
        doctor = envhub_here("doctor", "--cluster", nodes.address)
        assert doctor.code == 1
        assert f"TMPDIR {scratch.place} cannot be written: No space left on device" in doctor.out
        assert f"ENVHUB_CACHE_DIR {cache.place} cannot be written: No space" in doctor.out
        nodes.join("good", **published.node("good"))
        answer = published.play(out, "--cluster", nodes.address)
    assert answer.code == 0, answer
    for name, reason in reasons.items():
        assert f"Node {name} does not play: {reason}" in answer.err
    assert outcomes(out) == outcomes(tmp_path / "one")


@needs_landlock
def test_a_node_without_landlock_is_named_and_left_out(published: Published, tmp_path: Path):
    words = ("--sandbox", "landlock")
    assert published.play(tmp_path / "one", *words).code == 0
    with ray_cluster() as nodes:
        within = (sys.executable, "-c", NO_LANDLOCK)
        nodes.join("old", within=within, **published.node("old"))
        out = tmp_path / "run"
        answer = published.play(out, *words, "--cluster", nodes.address)
        assert answer.code == 2, answer
        assert not out.exists(), "no half-made run"
        nodes.join("good", **published.node("good"))
        answer = published.play(out, *words, "--cluster", nodes.address)
    assert answer.code == 0, answer
    reason = "The sandbox 'landlock' does not work here: landlock: not in this kernel"
    assert f"Node old does not play: {reason}" in answer.err
    assert outcomes(out) == outcomes(tmp_path / "one")


def test_code_from_the_hub_is_sandboxed_and_no_node_sees_the_token(
    published: Published, tmp_path: Path
):
    """The marker is written only where nothing keeps the code from it."""
    assert published.play(tmp_path / "none", "--sandbox", "none").code == 0
    assert published.marker.exists()
    published.marker.unlink()
    assert published.play(tmp_path / "one").code == 0
    requests = len(published.hub.requests)
    assert requests
    assert any(request.token for request in published.hub.requests)
    token, seen = published.hub.token.encode(), 0
    with ray_cluster() as nodes:
        for name in ("a", "b"):
            nodes.join(name, **published.node(name))
        out = tmp_path / "run"
        slow = ("--env-arg", "pause=0.02", "--cluster", nodes.address, "--out", out)
        command = start_here(*published.words, *slow, more=published.driver)
        while command.poll() is None:
            for name in ("a", "b"):
                for pid, line in nodes.processes(name).items():
                    with suppress(OSError):
                        seen += "NodeActor" in line
                        assert token not in Path(f"/proc/{pid}/environ").read_bytes()
            time.sleep(0.05)
        answer = ended(command)
        assert answer.code == 0, answer
        assert seen, "no node was looked at"
        for place in (nodes.place, tmp_path / "home-a", tmp_path / "home-b"):
            files = [each for each in place.rglob("*") if each.is_file()]
            assert files
            assert not [each for each in files if token in each.read_bytes()]
    assert not published.marker.exists()
    assert players(out) == {"a", "b"}
    assert outcomes(out) == outcomes(tmp_path / "one")


def test_a_policy_server_latency_and_a_perturbation_are_as_on_one_machine(tmp_path: Path):
    """Two nodes share one server; its policy draws from each episode's generator."""
    few = ("--episodes", EPISODES, "--workers", 1, "--retries", 0)
    walk = ("eval", WALK, "--suite", "all", *few, "--env-arg", "pause=0.02", "--policy")
    noisy = f"{WALKERS}:noisy"
    reach = ("eval", f"{DOCS}/examples/reach", *few)
    reach = (*reach, "--policy", f"{DOCS}/examples/policies/steer.py")
    serve = start_here("serve", noisy, "--for", WALK, "--port", 0)
    try:
        assert serve.stdout is not None
        url = serve.stdout.readline().split()[-1]
        questions: dict[str, tuple[object, ...]] = {
            "served": (*walk, url),
            "loaded": (*walk, noisy),
            "late": (*reach, "--latency", "120ms", "--perturb", "action=0.3"),
            "plain": reach,
        }
        for name, words in questions.items():
            answer = envhub_here(*words, "--out", tmp_path / "one" / name)
            assert answer.code == 0, answer
        with ray_cluster("a", "b") as nodes:
            for name in ("served", "late"):
                out = tmp_path / "two" / name
                cluster = ("--cluster", nodes.address, "--out", out)
                answer = envhub_here(*questions[name], *cluster)
                assert answer.code == 0, answer
                assert players(out) == {"a", "b"}
                assert outcomes(out) == outcomes(tmp_path / "one" / name)
    finally:
        serve.terminate()
        serve.communicate()
    assert traces(tmp_path / "one" / "served") == traces(tmp_path / "one" / "loaded")
    assert traces(tmp_path / "one" / "late") != traces(tmp_path / "one" / "plain")


def players(out: Path) -> set[str]:
    """The nodes that played."""
    return {part["name"] for part in json.loads((out / "run.json").read_text())["parts"]}


def traces(out: Path) -> dict[tuple[str, int], str]:
    """The trace of each episode."""
    return {key: record["trace"] for key, record in outcomes(out).items()}
