"""`envhub reproduce`: recipes of strangers, from a Hub to a verdict."""

import json
import signal
import time
from pathlib import Path

import pytest
from support.needs import needs_sandbox
from support.paths import ASSETS
from support.published import publish
from support.run_tools import counted, ended, envhub, outcomes, start

import envhub as envhub_package
from envhub.results.reproduction import judge_claim
from envhub.results.statistics import Sample

COIN = ASSETS / "coin"

RECIPE = """\
format = 1
title = "Coins"

[policy]
ref = "random"

[run]
benchmark = "{ref}"
suites = ["fair", "poor"]
episodes = 150
seed = 7

[[claims]]
suite = "fair"
successes = 470
episodes = 500

[[claims]]
suite = "poor"
rate = 0.93
episodes = 200

[[claims]]
suite = "poor"
successes = 4
episodes = 10

[[claims]]
suite = "fair"
rate = 0.855
episodes = 100

[source]
with = {{ seed = 3, gymnasium = "0.1" }}
"""


@pytest.fixture
def hub(local_hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    return local_hub


@pytest.fixture
def recipe(hub, tmp_path):
    path = tmp_path / "coins.toml"
    path.write_text(RECIPE.format(ref=publish(hub, COIN, "me/coin")))
    return path


def reproduce(*words, **more):
    return envhub("reproduce", *words, **more)


@needs_sandbox
def test_true_false_too_few_and_impossible(hub, recipe, tmp_path):
    at = {"HF_ENDPOINT": hub.endpoint}
    refused = reproduce(recipe, "--out", tmp_path / "run", **at)
    assert (refused.code, (tmp_path / "run").exists()) == (3, False), "a recipe gives no consent"
    agreed = ("--trust-remote-code", "--out", tmp_path / "run")
    slow = ("--env-arg", "seconds=0.01", "--workers", "2")
    begun = start("reproduce", recipe, *agreed, *slow, **at)
    while begun.poll() is None and counted(tmp_path / "run") < 20:
        time.sleep(0.05)
    begun.send_signal(signal.SIGINT)
    stopped = ended(begun)
    assert stopped.code == 130
    assert f"Continue with: envhub reproduce {recipe} --out {tmp_path}/run" in stopped.err
    assert "reproduced" not in stopped.out
    played = counted(tmp_path / "run")
    assert 20 <= played < 600

    answer = reproduce(recipe, *agreed, *slow, "--json", **at)
    assert answer.code == 1
    content = json.loads(answer.out)
    assert len(outcomes(tmp_path / "run")) == 600
    true, false, few, impossible = content["claims"]
    assert [each["verdict"] for each in content["claims"]] == [
        "reproduced", "lower", "undecided", "not judged",
    ]  # fmt: skip
    assert (true["successes"], true["episodes"], true["measured"]["n"]) == (470, 500, 300)
    assert false["compared"]["ci_high"] < -0.3
    assert (few["compared"]["needed"], few["compared"]["confidence"]) == (None, 0.95)
    assert impossible["why"].startswith("the claim says 85.5% of 100 episodes, which no number")
    said = {each["what"]: (each["claim"], each["here"]) for each in content["differences"]}
    assert said["seed"] == ("3", "7")
    assert said["seconds"] == (None, "0.01")
    assert said["gymnasium"] == ("0.1", said["gymnasium"][1])

    shown = reproduce(recipe, *agreed, *slow, **at).out
    assert "fair: reproduced\n  claimed 94.0% (470 of 500 episodes); measured " in shown
    assert "poor: lower\n" in shown
    assert "No number of episodes would decide: the claim itself has too few." in shown
    assert max(map(len, shown[shown.index("\nCoins") :].splitlines())) <= 80
    again = reproduce(recipe, *agreed, "--episodes", "3", **at)
    assert again.code == 2, "a run of another number of episodes is another run"


@needs_sandbox
def test_tasks_that_share_their_luck_are_counted_by_seeds(hub, recipe, tmp_path):
    """Two tasks that are one: their episodes tell half as much."""
    words = (recipe, "--trust-remote-code", "--suite", "fair", "--episodes", "60")
    words += ("--env-arg", "common=true", "--json", "--out", tmp_path / "run")
    answer = reproduce(*words, HF_ENDPOINT=hub.endpoint)
    claim = json.loads(answer.out)["claims"][0]
    found, measured = claim["compared"], claim["measured"]
    assert (found["seeds"], measured["n"]) == (60, 120)
    assert measured["n_effective"] < 70
    again = judge_claim(Sample([(470, 500)]), Sample([(measured["successes"], 120)]))
    assert again.ci_high - again.ci_low < 0.85 * (found["ci_high"] - found["ci_low"])
    run = envhub_package.open_run(tmp_path / "run")
    fresh = envhub_package.verify(run, trust_remote_code=True, episodes=1, fresh=60, seed=1).fresh
    assert fresh.found.seeds == 60
    assert not fresh.contradicts


@needs_sandbox
def test_the_number_that_would_decide(hub, recipe, tmp_path):
    at = {"HF_ENDPOINT": hub.endpoint}
    words = (recipe, "--trust-remote-code", "--episodes", "10", "--suite", "fair")
    answer = reproduce(*words, "--out", tmp_path / "run", **at)
    assert "fair: undecided\n" in answer.out
    assert "200 episodes would decide if the rates are equal: --episodes 100" in answer.out
    assert "episodes of fair: 500 in the claim, 20 here" in answer.out
    assert "poor: not judged (its suite was not played)" in answer.out
    assert answer.code == 1


@needs_sandbox
def test_a_dry_run_plays_nothing(hub, recipe, tmp_path):
    at = {"HF_ENDPOINT": hub.endpoint}
    answer = reproduce(recipe, "--dry-run", cwd=tmp_path, **at)
    assert answer.code == 1
    assert "\nMissing:\n" in answer.out
    assert "--trust-remote-code" in answer.out
    answer = reproduce(recipe, "--dry-run", "--trust-remote-code", cwd=tmp_path, **at)
    assert "4 tasks, 150 episodes each: 600 in all; seed 7" in answer.out
    assert "which no number of successes gives" in " ".join(answer.out.split())
    assert not (tmp_path / "runs").exists()
    assert answer.code == 0
    content = json.loads(
        reproduce(recipe, "--dry-run", "--trust-remote-code", "--json", cwd=tmp_path, **at).out
    )
    assert (content["missing"], content["cannot_run"]) == ([], [])
    assert content["suites"]["fair"] == ["fair-1", "fair-2"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"{ref}"',
            '"./env.py"',
            "a recipe gives no consent. Say it yourself: --benchmark ./env.py",
        ),
        ('"random"', '"./policy.py"', "Say it yourself: --policy ./policy.py"),
        ('"random"', '"os:system"', "Say it yourself: --policy os:system"),
        ('"random"', '"lerobot:/etc"', "Say it yourself: --policy lerobot:/etc"),
        (
            "[source]",
            "[policy.config]\nuse_amp = true\n[source]",
            "cannot be run: it needs config overrides, which EnvHub does not have (use_amp)",
        ),
        (
            "seed = 7",
            "max_steps = {{ fair = 9, poor = 4 }}",
            "cannot be run: it needs 9 steps for fair, whose own horizon is 4",
        ),
    ],
)
def test_what_a_recipe_cannot_say(tmp_path, old, new, said):
    assert old in RECIPE
    marker = tmp_path / "marker"
    for name in ("env.py", "policy.py"):
        (tmp_path / name).write_text(f"open({str(marker)!r}, 'w')\n")
    recipe = tmp_path / "coins.toml"
    recipe.write_text(RECIPE.replace(old, new).format(ref="me/coin@main"))
    benchmark = () if "--benchmark" in said else ("--benchmark", COIN)
    answer = reproduce(recipe, *benchmark, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert not marker.exists()
    assert not (tmp_path / "runs").exists()


def test_a_benchmark_and_a_policy_that_the_user_names(tmp_path):
    recipe = tmp_path / "coins.toml"
    recipe.write_text(RECIPE.replace("random", "./policy.py").format(ref="./env.py"))
    words = ("--benchmark", COIN, "--policy", "zero", "--episodes", "2", "--suite", "fair")
    answer = reproduce(recipe, *words, cwd=tmp_path)
    assert f"benchmark: ./env.py in the claim, {COIN} here" in answer.out.replace("\n    ", " ")
    assert "policy: ./policy.py in the claim, zero here" in answer.out
    assert list(Path(tmp_path, "runs").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("smolvla-liber",), "No recipe is called 'smolvla-liber'. Did you mean 'smolvla-libero'"),
        (("./none.toml",), "The recipe ./none.toml cannot be read: No such file or directory."),
    ],
)
def test_recipes_that_are_not_there(words, said):
    answer = reproduce(*words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_a_suite_that_the_recipe_does_not_have(recipe):
    answer = reproduce(recipe, "--suite", "fai")
    assert answer.code == 2
    assert "No suite of the recipe is called 'fai'. Did you mean 'fair'" in answer.err
