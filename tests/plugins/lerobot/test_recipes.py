"""The recipes that the plugin brings."""

import json

import pytest
from support.run_tools import envhub

from envhub.evaluation.reproduce import find_recipe, shipped_recipes

NAMES = (
    "evo1-libero", "pi05-libero", "smolvla-libero", "smolvla-libero-hfvla", "smolvla-metaworld",
)  # fmt: skip


def test_they_are_listed():
    assert tuple(shipped_recipes()) == NAMES
    listed = json.loads(envhub("reproduce", "list", "--json").out)["recipes"]
    assert [each["name"] for each in listed] == list(NAMES)
    for each in listed:
        assert each["tested"].startswith("not run by EnvHub: ")
        assert all(claim["problem"] is None and claim["source"] for claim in each["claims"])


@pytest.mark.parametrize("name", NAMES)
def test_what_each_would_play(name):
    recipe = find_recipe(name)
    assert (recipe.run.seeding, recipe.checkpoint.type in name) == ("shared", True)
    answer = envhub("reproduce", name, "--dry-run", "--json")
    content = json.loads(answer.out)
    assert answer.code == 1
    assert all(content["suites"].values())
    assert (name == "evo1-libero") == bool(content["cannot_run"])
    assert "lerobot>=0" in content["missing"][0]
    said = {each["what"].partition(",")[0] for each in content["differences"]}
    assert "mujoco" in said
    assert (recipe.checkpoint.commit == "") == ("commit of the checkpoint" in said)


def test_evo1_needs_config_overrides():
    answer = envhub("reproduce", "evo1-libero")
    assert (answer.code, answer.out) == (2, "")
    assert "cannot be run: it needs config overrides" in answer.err
