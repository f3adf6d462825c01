"""Recipes are read strictly: errors name the line, and what was meant."""

import pytest

from envhub.errors import UsageError
from envhub.evaluation.recipe import parse_recipe

GOOD = """\
format = 1
title = "A walk"

[policy]
ref = "random"
speed = 2
name = ""

[run]
benchmark = "walk"
suites = ["easy"]
episodes = 50
env = { size = 64, sharp = 0.5 }

[[claims]]
suite = "easy"
rate = 0.97
episodes = 100

[[claims]]
suite = "hard"
successes = 7
episodes = 10
with = { mujoco = "3.3.0", batch = 1 }
"""


def test_what_it_says():
    recipe = parse_recipe(GOOD, "walk.toml")
    assert (recipe.policy_ref, recipe.policy_args) == ("random", {"speed": 2})
    assert recipe.run.env == {"size": 64, "sharp": 0.5}
    assert [claim.tally for claim in recipe.claims] == [(97, 100), (7, 10)]
    assert recipe.claims[1].protocol == {"mujoco": "3.3.0", "batch": 1}


def test_a_checkpoint_and_its_models():
    text = GOOD.replace('ref = "random"\n', "").replace("[policy]", CHECKPOINT)
    recipe = parse_recipe(text, "walk.toml")
    assert recipe.policy_ref == f"lerobot:maker/walker@{'a' * 40}"
    assert recipe.policy_args == {"speed": 2, "models": f"maker/vlm@{'b' * 40}"}


CHECKPOINT = f"""\
[checkpoint]
repo = "maker/walker"
commit = "{"a" * 40}"
models = {{ "maker/vlm" = "{"b" * 40}", "maker/other" = "" }}

[policy]"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "episodes = 50",
            "episods = 50",
            "line 12: [run] has no key 'episods'. Did you mean 'episodes'?",
        ),
        ("format = 1", "format = 2", "line 1: format: invalid"),
        ("rate = 0.97", 'rate = "97%"', "line 17: claims 1.rate: "),
        ("rate = 0.97", "rate = 97", "line 17: rates are fractions from 0 to 1, found 97."),
        ("rate = 0.97", "rate = nan", "line 17: rates are fractions from 0 to 1, found NaN."),
        ("rate = 0.97", "rate = 1e-9999", "line 17: rate has more than 12 digits."),
        ("rate = 0.97\n", "", "line 15: claims 1 needs successes and episodes, or rate."),
        ("successes = 7", "successes = 17", "line 22: 17 of 10 episodes cannot have succeeded."),
        (
            'suite = "hard"',
            'suite = "hard"\nwho = "me"',
            "line 22: [claims 2] has no key 'who'. Available: suite, ",
        ),
        ("episodes = 50", 'episodes = "many"', "line 12: run.episodes: expected `int`, got `str`."),
        ("size = 64", "size = 1979-05-27", "line 13: run.env: expected "),
        ('ref = "random"', "", "line 4: it names no policy"),
        (
            'title = "A walk"',
            'title = "A walk"\n[consent]\nflag = true',
            "a recipe has no key 'consent'.",
        ),
        (
            'benchmark = "walk"',
            'benchmark = "walk"\ntrust_remote_code = true',
            "[run] has no key 'trust_remote_code'.",
        ),
        ('ref = "random"', 'ref = "random', "is not TOML: "),
        (
            'benchmark = "walk"',
            'benchmark = "walk"\nseed = -1',
            "line 11: run.seed: expected `int` >= 0.",
        ),
    ],
)
def test_what_is_wrong(old, new, said):
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        parse_recipe(GOOD.replace(old, new, 1), "walk.toml")
    text = str(caught.value)
    assert said in text
    assert text.startswith("walk.toml")
    assert text.isprintable()


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        ("rate = 0.97\nepisodes = 100", None),
        (
            "rate = 0.955\nepisodes = 100",
            "says 95.5% of 100 episodes, which no number of successes gives: 95 are 95% and",
        ),
        ("rate = 0.96\nepisodes = 400", None),
        ("rate = 0.3\nepisodes = 7", None),
        ("rate = 0.30\nepisodes = 7", "says 30% of 7 episodes"),
        (
            "rate = 0.95\nsuccesses = 93\nepisodes = 100",
            "says 93 of 100 and 95%, and 93 of 100 are 93%",
        ),
        ("rate = 1\nepisodes = 9", None),
    ],
)
def test_rates_that_no_episodes_have(claim, problem):
    text = GOOD.replace("rate = 0.97\nepisodes = 100", claim)
    found = parse_recipe(text, "walk.toml").claims[0]
    assert (found.problem or "").startswith(problem or "")
    assert (found.problem is None) == (problem is None)
    assert (found.tally is None) == (problem is not None)
