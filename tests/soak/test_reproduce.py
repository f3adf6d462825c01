"""A recipe with a real checkpoint of LeRobot, from a Hub to its verdicts."""

import json

import pytest
from support.lerobot_runs import WALK, made_once
from support.needs import lerobot_python, needs_lerobot
from support.run_tools import envhub, outcomes

pytestmark = [pytest.mark.soak, needs_lerobot, pytest.mark.timeout(1800)]

RECIPE = """\
format = 1
title = "ACT with random weights, which never succeeds"

[checkpoint]
repo = "me/act"
commit = "{commit}"
type = "act"
lerobot = ">=0.4.4"

[policy]
n_action_steps = 7

[run]
benchmark = "{walk}"
episodes = 60
seeding = "shared"

[[claims]]
suite = "all"
successes = 0
episodes = 100

[[claims]]
suite = "all"
rate = 0.9
episodes = 100

[[claims]]
suite = "all"
rate = 0.1
episodes = 10

[[claims]]
suite = "all"
rate = 0.955
episodes = 100

[source]
with = {{ lerobot = "0.4.0" }}
"""


def test_a_checkpoint_from_the_hub(tmp_path_factory, local_hub, tmp_path):
    made = made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py", "act")
    suite = next(iter(json.loads(envhub("info", WALK, "--json").out)["suites"]))
    files = {path.name: path.read_bytes() for path in (made / "act").iterdir() if path.is_file()}
    local_hub.create("me/act")
    text = RECIPE.format(commit=local_hub.commit("me/act", files), walk=WALK)
    recipe = tmp_path / "act.toml"
    recipe.write_text(text.replace('"all"', f'"{suite}"'))
    words = ["reproduce", recipe, "--benchmark", WALK]
    at = {"HF_ENDPOINT": local_hub.endpoint}

    dry = json.loads(envhub(*words, "--dry-run", "--json", **at).out)
    assert "--policy-python PATH" in dry["missing"][0]
    words += ["--policy-python", lerobot_python(), "--timeout", "start=600,act=600"]
    dry = json.loads(envhub(*words, "--dry-run", "--json", **at).out)
    assert (dry["missing"], dry["cannot_run"]) == ([], [])

    answer = envhub(*words, "--out", tmp_path / "run", "--json", **at)
    content = json.loads(answer.out)
    assert (answer.code, len(outcomes(tmp_path / "run"))) == (1, 60), answer.err
    assert [each["verdict"] for each in content["claims"]] == [
        "reproduced", "lower", "undecided", "not judged",
    ]  # fmt: skip
    said = {each["what"]: each["claim"] for each in content["differences"]}
    assert said["lerobot"] == "0.4.0"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["policy"]["args"] == {
        "n_action_steps": 7
    }
