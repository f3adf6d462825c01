"""Kills at random: of the host, of workers, of the policy's process.

Whatever is killed, and however often, a run that is resumed until it is complete has the records of
one that nobody disturbed. `ENVHUB_SOAK=0.1` does a tenth of it.
"""

import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from support.processes import descendants, ending, kill
from support.run_tools import WALK, WALKERS, Outcomes, ended, outcomes, start

from envhub import evaluate

POLICIES = ("make_policy", "noisy", "chunked", "noisy_chunked")
KILLS = round(50 * float(os.environ.get("ENVHUB_SOAK", "1")))
SEED = int(os.environ.get("ENVHUB_SOAK_SEED", "0"))
EPISODES = 10
KINDS = ("host", "env", "policy")
QUESTION = (
    *("eval", WALK, "--suite", "all", "--episodes", EPISODES, "--env-arg", "pause=0.01"),
    *("--workers", 2, "--retries", 20),
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(("number", "policy"), list(enumerate(POLICIES)))
def test_killed_at_random(tmp_path: Path, number: int, policy: str):
    wanted = KILLS // len(POLICIES) + (number < KILLS % len(POLICIES))
    chance, figures = random.Random(f"{SEED} {policy}"), Counter()
    evaluate(
        *(str(WALK), f"{WALKERS}:{policy}"),
        suites="all",
        episodes=EPISODES,
        env_args={"pause": 0.01},
        workers=0,
        out=tmp_path / "reference",
    )
    reference = outcomes(tmp_path / "reference")
    assert len(reference) == 3 * EPISODES
    began = time.monotonic()
    while killed(figures) < wanted:
        out = tmp_path / f"run-{figures['runs']}"
        disturbed(policy, out, reference, chance, figures, wanted)
        figures["runs"] += 1
    seconds = time.monotonic() - began
    kills = ", ".join(f"{figures[kind]} {kind}" for kind in KINDS)
    print(
        f"\n{policy}: killed {kills}; {figures['runs']} runs of {len(reference)} episodes, "
        f"resumed {figures['resumed']} times, begun anew {figures['anew']} times, gave up "
        f"{figures['gave up']} times; {seconds:.0f} s"
    )


def disturbed(
    policy: str,
    out: Path,
    reference: Outcomes,
    chance: random.Random,
    figures: "Counter[str]",
    wanted: int,
) -> None:
    """One run, to its end."""
    code: int | None = None
    while code != 0:
        begun = (out / "run.json").exists()
        if begun:
            before = set(outcomes_so_far(out))
            figures["resumed"] += 1
        else:  # killed before there was a run to go on with
            figures["anew"] += out.exists()
            before = set()
            shutil.rmtree(out, ignore_errors=True)
        new = (*QUESTION, "--policy", f"{WALKERS}:{policy}", "--out", out)
        arguments = ("eval", "--resume", out, "--workers", 2) if begun else new
        with ending(start(*arguments)) as command:
            while command.poll() is None and killed(figures) < wanted:
                time.sleep(chance.uniform(0.0, 0.7))
                kill_one(command, KINDS[killed(figures) % len(KINDS)], chance, figures)
            answer = ended(command)
        code = answer.code
        assert code in (0, 4, -9), answer
        if code == 4:  # the first worker was killed while it started, or three later on in a row
            assert "was killed by SIGKILL" in answer.err, answer
            figures["gave up"] += 1
        if (out / "run.json").exists():
            assert before <= set(outcomes_so_far(out)), "a record was lost"
    assert outcomes(out) == reference
    assert not list(out.rglob("*.part"))


def kill_one(
    host: "subprocess.Popen[str]", kind: str, chance: random.Random, figures: "Counter[str]"
) -> None:
    """Kill the host, or a process below it that plays the part, as soon as there is one."""
    early = chance.random() < 0.2  # a worker that still loads, which ends the command
    while host.poll() is None:
        lines = {pid: line for pid, (_, line) in descendants(host.pid).items()}
        parts = {
            name: [
                pid for pid, line in lines.items() if re.search(rf" {name} \d+ {host.pid} ", line)
            ]
            for name in ("env", "policy")
        }
        victims = [host.pid] if kind == "host" else parts[kind]
        if kind == "env" and not (parts["policy"] or early):
            victims = []
        if victims:
            kill(chance.choice(victims))
            figures[kind] += 1
            return
        time.sleep(chance.uniform(0.0, 0.2))


def killed(figures: "Counter[str]") -> int:
    return sum(figures[kind] for kind in KINDS)


def outcomes_so_far(directory: Path) -> list[tuple[str, int]]:
    """The episodes with a whole line; the last line may be torn."""
    lines = (directory / "episodes.jsonl").read_text().split("\n")[:-1]
    found = [re.match(r'\{"suite":"\w+","task":"(\w+)","episode":(\d+),', line) for line in lines]
    return [(match[1], int(match[2])) for match in found if match]
