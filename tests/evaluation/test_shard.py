"""Shards of a plan: which episodes, and which shard a batch system means."""

import pytest

from envhub.errors import UsageError
from envhub.evaluation.shard import parse_shard
from envhub.run_info import ShardInfo


@pytest.mark.parametrize("planned", [0, 1, 15, 16, 17, 400])
def test_the_shards_of_a_plan_are_all_of_it_each_episode_once(planned):
    shards = [ShardInfo(index=i, of=16).numbers(planned) for i in range(1, 17)]
    assert [number for shard in shards for number in shard] == list(range(planned))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def slurm(task, least, most, count):
    names = ("ID", "MIN", "MAX", "COUNT")
    values = (task, least, most, count)
    return {f"SLURM_ARRAY_TASK_{n}": str(v) for n, v in zip(names, values, strict=True)}


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        ("3/16", {}, "3/16"),
        ("auto/16", slurm(4, 1, 16, 16), "4/16"),
        ("auto/16", slurm(4, 0, 15, 16), "5/16"),
        ("auto/16", {"JOB_COMPLETION_INDEX": "0"}, "1/16"),
    ],
)
def test_a_shard(text, variables, expected):
    assert str(parse_shard(text, variables)) == expected


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        ("3", {}, "--shard must be I/N such as 3/16, or auto/N, found '3'"),
        ("0/4", {}, "counted from 1 to 4, found 0/4"),
        ("5/4", {}, "counted from 1 to 4, found 5/4"),
        ("1/0", {}, "of at most 100,000, found 1/0"),
        ("auto/4", {}, "neither is set. Say which shard this is: --shard 1/4"),
        # sbatch --array=3,7 --export=... for two that failed
        ("auto/16", slurm(7, 3, 7, 2), r"2 tasks from 3 to 7.*--shard \$SLURM_ARRAY_TASK_ID/16"),
        ("auto/2", slurm(7, 3, 7, 2), "so a task's place in it is not its shard"),
        ("auto/4", slurm("x", 0, 3, 4), "needs a number in SLURM_ARRAY_TASK_ID, found 'x'"),
        ("auto/4", {"JOB_COMPLETION_INDEX": "4"}, "counted from 1 to 4, found 5/4"),
    ],
)
def test_no_shard(text, variables, said):
    with pytest.raises(UsageError, match=said):
        parse_shard(text, variables)
