"""Pairs of runs of `assets/explained` that differ in one thing, and what explains each."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import envhub
from envhub.api import _Callbacks
from envhub.evaluation.explain import explain_runs
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.sample import ExplainRequest
from envhub.results.explanation import Explanation
from support.paths import ASSETS

EXPLAINED = ASSETS / "explained"
POLICY = str(EXPLAINED / "policy.py")

Changes = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One change, the layers that differ by it, and what the verdict says."""

    change: Changes = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    verdict: str = "Nothing differs."
    rounding: tuple[str, ...] = ()

    @property
    def reversed(self) -> "Case":
        """The same change from B to A, whose values are the other way round."""
        words = "Nothing differs" if not self.differs else ""
        return replace(self, verdict=words)


CASES = {
    "nothing": Case(),
    "horizon": Case({"max_steps": 12}, ("question",), "horizon (20, 12)"),
    "seed": Case({"seed": 7}, ("question",), "--seed (0, 7)"),
    "seeding": Case({"seeding": "shared"}, ("question",), "--seeding (task, shared)"),
    "instruction": Case(
        {"instructions": {"floor": "shove it"}}, ("question",), "--instructions (floor none, "
    ),
    "env argument": Case(
        {"env_args": {"friction": 0.01}}, ("question",), "--env-arg (friction none, 0.01)"
    ),
    "image size": Case({"env_args": {"size": 24}}, ("question",), "--env-arg (size none, 24)"),
    "latency": Case({"latency": "200ms"}, ("question",), "--latency"),
    "turned picture": Case(
        {"policy_args": {"turn": True}}, ("policy",), "--policy-arg (turn none, True)"
    ),
    "n_action_steps": Case(
        {"policy_args": {"n_action_steps": 4}},
        ("policy",),
        "the actions part at step 3",
    ),
    "batch": Case({"policy_args": {"rows": 8}}, (), "beyond rounding (policy)", ("policy",)),
    "another checkpoint": Case(
        {"policy_args": {"weights": "b.txt"}}, ("policy",), "file of --policy-arg"
    ),
}
"""By the thing that differs."""

REACH: Changes = {
    "ref": "metaworld",
    "policy": str(EXPLAINED / "reach.py"),
    "tasks": ["reach-v3"],
    "episodes": 1,
    "max_steps": 20,
    "env_args": {"size": 48},
}
"""What of Meta-World is played."""
_OF_REACH = {
    "instruction": Case(
        {"instructions": {"reach-v3": "shove it"}}, ("question",), "--instructions (reach-v3 none, "
    ),
    "env argument": Case(
        {"env_args": {"size": 48, "camera": "topview"}}, ("question",), "--env-arg (camera none, "
    ),
    "horizon": Case({"max_steps": 12}, ("question",), "horizon (20, 12)"),
    "image size": Case({"env_args": {"size": 64}}, ("question",), "--env-arg (size 48, 64)"),
}
REACH_CASES = {name: _OF_REACH.get(name, case) for name, case in CASES.items()}
"""The same changes of Meta-World's."""


def evaluate(out: Path, change: Changes | None = None, **options: Any) -> envhub.Run:
    """Evaluate the policy; weights are files beside the run."""
    given: Changes = {"runtime": "here", "workers": 1, "episodes": 3, **(change or {}), **options}
    args = {"weights": "a.txt", **given.pop("policy_args", {})}
    weights = out.parent / str(args["weights"])
    weights.write_text({"a.txt": "1", "b.txt": "2"}[weights.name])
    return envhub.evaluate(
        given.pop("ref", EXPLAINED),
        given.pop("policy", POLICY),
        policy_args={**args, "weights": str(weights)},
        out=out,
        **given,
    )


def explain(
    a: Path, b: Path | None = None, versions: dict[str, str] | None = None, **options: Any
) -> Explanation:
    """Explain two runs, or one in other versions."""
    request = ExplainRequest(versions or {}, episodes=options.pop("episodes", 4))
    rerun = RerunOptions("explain", workers=1, **options)
    return explain_runs(a, b, request, rerun, _Callbacks())


def findings(found: Explanation) -> dict[str, str]:
    """What each layer says."""
    return {layer.name: layer.finding for layer in found.layers}


def check(found: Explanation, case: Case) -> None:
    """The one layer is accused, and no other one."""
    said = findings(found)
    differing = tuple(name for name, finding in said.items() if finding == "differs")
    assert differing == case.differs, found
    rounded = tuple(n for n, f in said.items() if f == "same to rounding" and n != "luck")
    assert rounded == case.rounding, found
    open_ = {name for name, finding in said.items() if finding == "not checked"}
    assert open_ <= {"luck"}, found
    assert case.verdict in found.verdict, found.verdict
