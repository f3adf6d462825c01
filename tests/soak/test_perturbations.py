"""Each perturbation of EnvHub's own, on Meta-World and on LIBERO."""

import json

import pytest
from support import libero_setup as libero
from support.needs import needs_egl, needs_libero, needs_metaworld
from support.paths import ASSETS

import envhub

pytestmark = [pytest.mark.soak, needs_egl]

NOTES = str(ASSETS / "perturbed" / "frames.py")
STRENGTHS = {
    "action": (0.1, 0.5),
    "blur": (0.01, 0.03),
    "camera": (0.02, 0.1),
    "instruction": (0.1, 1.0),
    "light": (0.2, 0.6),
    "noise": (0.02, 0.2),
    "occlusion": (0.05, 0.2),
}
BENCHMARKS = {
    "metaworld": ("mt10/drawer-open-v3", ["pixels"], ["agent_pos"]),
    "libero": (
        "libero_goal/open_the_middle_drawer_of_the_cabinet",
        ["pixels/image", "pixels/image2"],
        ["robot_state/eef/pos", "robot_state/joints/pos"],
    ),
}


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Plays two episodes; returns what the policy noted, and what was recorded."""
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))

    def played(benchmark, name, perturb, *, seen=True, workers=1):
        if benchmark == "libero":
            monkeypatch.setenv("ENVHUB_LIBERO_ASSETS", str(libero.assets()))
        task, pictures, state = BENCHMARKS[benchmark]
        log = tmp_path / f"{name}.log"
        run = envhub.evaluate(
            benchmark, NOTES, tasks=[task], episodes=2, workers=workers, max_steps=8,
            perturb=perturb, out=tmp_path / name, env_args={"size": 64},
            policy_args={"pictures": pictures if seen else state, "log": str(log)},
        )  # fmt: skip
        assert [record.error for record in run.records()] == [None, None]
        noted = sorted(json.loads(line) for line in log.read_text().splitlines())
        facts = [(r.trace, r.end_state, r.first_observation) for r in run.records()]
        assert all(state for _, state, _ in facts)
        return noted, facts, run

    return played


@pytest.mark.parametrize(
    "benchmark",
    [
        pytest.param("metaworld", marks=needs_metaworld),
        pytest.param("libero", marks=needs_libero),
    ],
)
def test_each_repeats_and_differs_by_its_strength_alone(benchmark, played):
    none, plain, _ = played(benchmark, "none", None)
    unseen, blind, _ = played(benchmark, "blind", None, seen=False)
    zero = dict.fromkeys(STRENGTHS, 0)
    assert played(benchmark, "zero", zero)[:2] == (none, plain)
    for name, (weak, strong) in STRENGTHS.items():
        print(benchmark, name)
        once, facts, run = played(benchmark, f"{name}-weak", {name: weak})
        again = played(benchmark, f"{name}-again", {name: weak}, workers=2)
        assert (once, facts) == again[:2]
        other, others, _ = played(benchmark, f"{name}-strong", {name: strong})
        assert len({json.dumps(each) for each in (none, once, other)}) == 3
        assert envhub.verify(run, episodes=None).verdict == "identical"
        physics = [[state for _, state, _ in each] for each in (plain, facts, others)]
        if name == "action":
            assert len({*map(tuple, physics)}) == 3
            continue
        assert physics[0] == physics[1] == physics[2]
        if name != "instruction":  # what is not seen changes nothing
            seen, felt, _ = played(benchmark, f"{name}-blind", {name: strong}, seen=False)
            assert (seen, felt) == (unseen, blind)
