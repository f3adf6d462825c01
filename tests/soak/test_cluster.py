"""Clusters: nodes killed at random moments, and simulators on nodes and in shards.

Whatever is killed, the records are those of one machine. `ENVHUB_SOAK=0.1` does a tenth of it.
"""

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from support import libero_setup as libero
from support.needs import needs_cluster, needs_index, needs_libero, needs_netns, needs_root
from support.processes import ROOT
from support.ray_clusters import (
    Place,
    RayNodes,
    envhub_here,
    ray_cluster,
    start_here,
    two_machines,
)
from support.run_tools import WALK, WALKERS, counted, ended, envhub, outcomes

import envhub as package

KILLS = max(2, round(20 * float(os.environ.get("ENVHUB_SOAK", "1"))))
SEED = int(os.environ.get("ENVHUB_SOAK_SEED", "0"))
EPISODES = 12
QUESTION = (
    *("eval", WALK, "--suite", "all", "--episodes", EPISODES, "--policy", f"{WALKERS}:noisy"),
    *("--retries", 0, "--workers", 1, "--env-arg", "pause=0.02"),
)

pytestmark = [pytest.mark.soak, needs_cluster, pytest.mark.timeout(3600)]


def test_nodes_are_killed_at_random(tmp_path: Path):
    chance, figures, names = random.Random(SEED), Counter[str](), ["a", "b", "c"]
    assert envhub(*QUESTION, "--out", tmp_path / "one").code == 0
    reference = outcomes(tmp_path / "one")
    with ray_cluster(*names) as nodes:
        while figures["nodes"] + figures["actors"] < KILLS:
            out = tmp_path / f"run-{figures['runs']}"
            command = start_here(*QUESTION, "--cluster", nodes.address, "--out", out)
            while command.poll() is None:
                time.sleep(chance.uniform(0.5, 4.0))
                if command.poll() is None and figures["nodes"] + figures["actors"] < KILLS:
                    disturb(nodes, names, chance, figures)
            answer = ended(command)
            assert answer.code == 0, answer
            assert outcomes(out) == reference
            figures["runs"] += 1
    print(f"\nkilled, of {figures.pop('runs')} runs: {dict(figures)}")


def disturb(
    nodes: RayNodes, names: list[str], chance: random.Random, figures: "Counter[str]"
) -> None:
    """Kill a node, for which another one joins, or only the process that plays on it."""
    name = chance.choice(names)
    if chance.random() < 0.3:
        figures["actors"] += nodes.kill_actor(name)
        return
    nodes.kill(name)
    names.remove(name)
    figures["nodes"] += 1
    names.append(f"late-{figures['nodes']}")
    nodes.join(names[-1])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_records_do_not_depend_on_the_number_of_nodes(tmp_path: Path, count: int):
    assert envhub(*QUESTION, "--out", tmp_path / "one").code == 0
    names = ["a", "b", "c"][:count]
    with ray_cluster(*names) as nodes:
        out = tmp_path / "run"
        answer = envhub_here(*QUESTION, "--cluster", nodes.address, "--out", out)
    assert answer.code == 0, answer
    assert outcomes(out) == outcomes(tmp_path / "one")


@pytest.fixture
def other_version(tmp_path: Path) -> str:
    """A directory with EnvHub in another version, for the path of a node."""
    place = tmp_path / "other"
    shutil.copytree(
        Path(ROOT) / "envhub", place / "envhub", ignore=shutil.ignore_patterns("__pycache__")
    )
    init = place / "envhub" / "__init__.py"
    text = init.read_text()
    assert f'"{package.__version__}"' in text
    init.write_text(text.replace(f'"{package.__version__}"', '"9.9.9"'))
    return str(place)


@pytest.fixture
def other_package(tmp_path: Path) -> str:
    """A directory that says that gymnasium has another version."""
    info = tmp_path / "packages" / "gymnasium-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gymnasium\nVersion: 0.0.1\n")
    return str(info.parent)


def test_nodes_that_differ_are_named_and_left_out(
    tmp_path: Path, other_version: str, other_package: str
):
    assert envhub(*QUESTION, "--out", tmp_path / "one").code == 0
    with ray_cluster() as cluster:
        cluster.join("older", PYTHONPATH=other_version)
        cluster.join("packed", PYTHONPATH=other_package)
        cluster.join("full", TMPDIR="/proc/nowhere")
        out = tmp_path / "run"
        question = (*QUESTION, "--cluster", cluster.address, "--out", out)
        answer = envhub_here(*question)
        assert answer.code == 2, answer
        assert "No node of the cluster plays this run." in answer.err
        assert "older: it has EnvHub 9.9.9, and the driver" in answer.err
        assert "packed: it and the driver differ in the policy's packages (gymnasium" in answer.err
        assert "full: No scratch directory can be made in /proc/nowhere" in answer.err
        assert "Traceback" not in answer.err
        assert not out.exists(), "no half-made run"
        said = envhub_here("doctor", "--cluster", cluster.address)
        assert said.code == 1
        assert "its EnvHub is not that of this machine" in said.out
        cluster.join("good")
        answer = envhub_here(*question)
        assert answer.code == 0, answer
        for name in ("older", "packed", "full"):
            assert f"Node {name} does not play: " in answer.err
        assert outcomes(out) == outcomes(tmp_path / "one")


@needs_root
@needs_netns
def test_machines_with_a_network_of_their_own_each(tmp_path: Path):
    """Head and node have one wire between them and no other network; a baseline plays there too."""
    question = (*QUESTION, "--baselines", "zero")
    assert envhub(*question, "--out", tmp_path / "one").code == 0
    out = tmp_path / "run"
    with two_machines() as (here, there):
        place = Place("head", *here)
        with ray_cluster(Place("node", *there), head=place) as nodes:
            cluster = ("--cluster", nodes.address, "--out", out)
            answer = ended(start_here(*question, *cluster, inside=here[0]))
    assert answer.code == 0, answer
    assert outcomes(out) == outcomes(tmp_path / "one")
    baseline = Path("baselines", "zero")
    assert outcomes(out / baseline) == outcomes(tmp_path / "one" / baseline)


@needs_index
@pytest.mark.parametrize(
    ("question", "shards"),
    [
        pytest.param(
            ("metaworld", "--suite", "mt50", "--episodes", 1, "--policy", "expert"), 16, id="mt50"
        ),
        pytest.param(
            ("libero", "--suite", "libero_goal", "--episodes", 1, "--max-steps", 20),
            4,
            id="libero",
            marks=needs_libero,
        ),
    ],
)
def test_simulators_on_two_nodes_and_in_shards_give_the_records_of_one_machine(
    tmp_path: Path, question: tuple[object, ...], shards: int
):
    more = {name: text for name, text in os.environ.items() if name.startswith(("UV_", "PIP_"))}
    more["ENVHUB_HOME"] = str(tmp_path / "home")
    if question[0] == "libero":
        more["ENVHUB_HOME"] = str(libero.home())
        more["ENVHUB_LIBERO_ASSETS"] = str(libero.assets())
    words = ("eval", *question, "--workers", 1)
    answer = envhub_here(*words, "--out", tmp_path / "one", more=more)
    assert answer.code in (0, 1), answer
    reference = outcomes(tmp_path / "one")
    with ray_cluster("a", "b", **more) as nodes:
        out = tmp_path / "two"
        answer = envhub_here(*words, "--cluster", nodes.address, "--out", out, more=more)
        assert answer.code in (0, 1), answer
        assert outcomes(out) == reference
    order = list(range(1, shards + 1))
    random.Random(SEED).shuffle(order)
    for index in order:
        out = tmp_path / "parts" / str(index)
        shard = ("--shard", f"{index}/{shards}", "--out", out)
        assert envhub_here(*words, *shard, more=more).code in (0, 1)
    parts = [tmp_path / "parts" / str(index) for index in order]
    assert envhub("merge", tmp_path / "merged", *parts).code == 0
    assert outcomes(tmp_path / "merged") == reference
    assert counted(tmp_path / "merged") == len(reference)
