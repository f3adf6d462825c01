"""Which share of a run's episodes this machine plays, as the user or a batch system says."""

import re
from collections.abc import Mapping

from envhub.errors import UsageError
from envhub.run_info import MAX_SHARDS, ShardInfo

_TEXT = re.compile(r"([0-9]{1,9}|auto)/([0-9]{1,9})")


def parse_shard(text: str, variables: Mapping[str, str]) -> ShardInfo:
    """Parse `3/16`, or `auto/16` by the variables of SLURM's job arrays or Kubernetes' jobs.

    Raises:
        UsageError: It is no shard, or the variables do not say which.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise UsageError(f"--shard must be I/N such as 3/16, or auto/N, found {text!r}.")
    count = int(found[2])
    index = _index(count, variables) if found[1] == "auto" else int(found[1])
    if not 1 <= index <= count <= MAX_SHARDS:
        limit = f"from 1 to {count}" if 1 <= count <= MAX_SHARDS else f"of at most {MAX_SHARDS:,}"
        raise UsageError(f"--shard {text}: shards are counted {limit}, found {index}/{count}.")
    return ShardInfo(index=index, of=count)


def _index(count: int, variables: Mapping[str, str]) -> int:
    """Return the number of this shard, from 1."""
    if "SLURM_ARRAY_TASK_ID" in variables:
        names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
        task, least, most = (_number(name, variables) for name in names)
        jobs = _number("SLURM_ARRAY_TASK_COUNT", variables)
        if jobs != count or most - least + 1 != count:
            raise UsageError(
                f"--shard auto/{count}: this job array has {jobs} tasks from {least} to {most}, so "
                "a task's place in it is not its shard. Say which it is: "
                f"--shard $SLURM_ARRAY_TASK_ID/{count}"
            )
        return task - least + 1
    if "JOB_COMPLETION_INDEX" in variables:
        return _number("JOB_COMPLETION_INDEX", variables) + 1
    raise UsageError(
        f"--shard auto/{count} reads SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX, and neither is "
        f"set. Say which shard this is: --shard 1/{count}"
    )


def _number(name: str, variables: Mapping[str, str]) -> int:
    text = variables.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UsageError(
            f"--shard auto needs a number in {name}, found {text!r}. Name the shard itself."
        )
    return int(text)
