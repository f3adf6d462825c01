"""The command that plays a run's question again."""

import pytest
from support.run_json import MANIFEST, changed, info_of

from envhub.results.repeat import repeat_command

LATE = {
    "mode": "overlap", "seconds": 0.12, "hz": 20.0, "steps": [[3, 1]], "hold": [], "keeps": "none",
}  # fmt: skip


@pytest.mark.parametrize(
    ("dotted", "value", "said"),
    [
        ("plan.seeding", "shared", " --seed 0 --seeding shared --env-arg size=1"),
        ("plan.seeding", "task", " --seed 0 --env-arg size=1"),
        ("plan.part", True, " --task short/near,long/far,long/near --episodes "),
        ("plan.max_steps", 9, " --max-steps 9 "),
        ("plan.latency", LATE, " --latency 120ms,mode=overlap,hz=20 "),
        ("plan.latency", {**LATE, "seconds": None}, " --latency RUN,mode=overlap,hz=20 "),
        ("plan.instructions", {"near": ["Go."]}, " --instructions FILE "),
        ("policy.args", {"text": "a b"}, " --policy-arg 'text=a b'"),
        ("conventions.ignore", True, " --ignore-conventions "),
    ],
)
def test_what_is_repeated(dotted, value, said):
    command = repeat_command(info_of(changed(dotted, value)))
    assert command.startswith("envhub eval ./walk --policy ./policy.py ")
    assert said in command


def test_an_object_cannot_be_named():
    assert repeat_command(info_of(changed("policy.kind", "object", MANIFEST))) is None
