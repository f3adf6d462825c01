"""The seeds of episodes: by the documented formula, computed here by another program."""

import hashlib
import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import DOCS

from envhub.seeding import make_seeds

WORD = 0xFFFFFFFF


def pool_of(words):
    """NumPy's SeedSequence, after Melissa O'Neill's seed_seq_fe128, in plain numbers."""
    constant = 0x43B0D7E5

    def hashed(value):
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & WORD
        value = value * constant & WORD
        return value ^ value >> 16

    def mixed(a, b):
        value = (a * 0xCA01F9DD - b * 0x4973F715) & WORD
        return value ^ value >> 16

    pool = [hashed(word) for word in words[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in words[4:]:
        for target in range(4):
            pool[target] = mixed(pool[target], hashed(word))
    return pool


def seeds_of(base, task, count):
    name = hashlib.sha256(task.encode()).digest()
    of_base = [base & WORD, base >> 32, 0, 0]
    pool = pool_of([*of_base, *(int.from_bytes(name[i : i + 4], "little") for i in (0, 4))])
    constant, seeds = 0x8B51F9DD, []
    for k in range(count):
        value = pool[k % 4] ^ constant
        constant = constant * 0x58F38DED & WORD
        value = value * constant & WORD
        seeds.append((value ^ value >> 16) >> 1)
    return seeds


TASKS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,30}", fullmatch=True)


@given(st.integers(0, 2**63 - 1), TASKS, st.integers(1, 9))
def test_the_formula(base, task, count):
    assert list(make_seeds("task", base, task, count)) == seeds_of(base, task, count)


def test_the_worked_values_of_the_docs():
    page = (DOCS / "runs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([\w-]+)` \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert len(rows) == 3
    for base, task, episode, seed in rows:
        assert seeds_of(int(base), task, int(episode) + 1)[-1] == int(seed)
        assert make_seeds("task", int(base), task, int(episode) + 1)[-1] == int(seed)


def test_tasks_and_runs_have_other_seeds_that_simulators_take():
    tasks = [f"task-{n}" for n in range(130)]
    runs = [make_seeds("task", base, task, 50) for base in (0, 1) for task in tasks]
    seeds = list(chain.from_iterable(runs))
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) >= len(seeds) - 1  # of 13,000 among 2^31, one pair is met in 4 % of runs


def test_more_episodes_change_no_seed():
    assert make_seeds("task", 7, "reach", 9)[:4] == make_seeds("task", 7, "reach", 4)


@pytest.mark.parametrize("base", [0, 5, 2**62])
def test_shared_seeds_count_up(base):
    for task in ("a", "b"):
        assert list(make_seeds("shared", base, task, 3)) == [base, base + 1, base + 2]
