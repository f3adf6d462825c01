"""Each logger with its real package: what it wrote offline, read back with that package.

The environment is .venv-loggers, or ENVHUB_TEST_LOGGERS names its interpreter.
"""

import json
import subprocess

import pytest
from support.needs import loggers_python, needs_loggers
from support.paths import TESTS
from support.run_tools import outcomes, variables

pytestmark = [pytest.mark.soak, needs_loggers]
EXAMPLES = TESTS.parent / "docs" / "examples"
REACH, STEER = EXAMPLES / "reach", EXAMPLES / "policies" / "steer.py"
TOOLS = {"tensorboard": b"GIF8", "wandb": b"ftyp", "mlflow": b"ftyp", "trackio": b"ftyp"}
"""The tools, and how their videos begin."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("logged runs")


@pytest.fixture(scope="module")
def run(place):
    """Run a command of that environment, with all tools writing below the place."""

    def run(*words):
        named = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(place / "trackio")}
        done = subprocess.run(
            [loggers_python().with_name(words[0]), *map(str, words[1:])],
            env=variables(**named), cwd=place, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def said(place, run):
    """What the command prints of a run that is logged by all of them."""
    done = run(
        *("envhub", "eval", REACH, "--policy", STEER, "--task", "reach-red,reach-violet"),
        *(
            "--max-steps",
            4,
            "--episodes",
            2,
            "--env-arg",
            "size=64",
            "--video",
            3,
            "--out",
            place / "run",
            "--json",
            "--quiet",
        ),
        *(word for tool in TOOLS for word in ("--log", tool)),
    )
    print(done.stderr)
    assert "disabled" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_logged_is_read_back(place, run, said, tool):
    done = run("python", TESTS / "support" / "logged.py", tool, place)
    found = json.loads(done.stdout)
    for name in ("rate", "ci_low", "ci_high", "mean_return"):
        ((_, value),) = found["values"][f"overall/{name}"]
        assert value == pytest.approx(said["overall"][name])
    logged = sorted(value for _, value in found["values"]["episode/return"])
    returns = sorted(record["return"] for record in outcomes(place / "run").values())
    assert logged == pytest.approx(returns)
    assert [step for step, _ in found["values"]["so_far/rate"]] == [1, 2, 3, 4]
    assert found["values"]["latency/p95_seconds"][0][1] > 0
    assert found["about"]["protocol"] == said["protocol"]
    assert found["about"]["policy_identity"] == "make_policy of a file"
    begin = TOOLS[tool].hex()
    failed = {f"{t}:{k}" for (t, k), each in outcomes(place / "run").items() if not each["success"]}
    assert 0 < len(found["videos"]) <= 3
    assert {name for name, _ in found["videos"]} <= failed
    assert {video for _, video in found["videos"]} == {begin}
