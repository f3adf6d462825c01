"""LeRobot's own sentences for the tasks of a benchmark, read from its installation.

Its policies were trained with them: of Meta-World's 50 no sentence is the benchmark's own. They are
read where the policy is made, so that they are those of the LeRobot that it runs with.
"""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from envhub.declarations import Benchmark
from envhub.errors import ContractError

_FILES = {"metaworld": ("envs/metaworld_config.json", "TASK_DESCRIPTIONS")}
"""By benchmark: a file of the package `lerobot`, and its part that has a sentence per task. Those
of LIBERO are the benchmark's own."""


def read_sentences(benchmark: Benchmark) -> dict[str, str]:
    """Return LeRobot's sentence for each task of a benchmark that it knows.

    Raises:
        ContractError: The file in LeRobot's installation is not as expected.
    """
    known = sentences_for(benchmark.name)
    return {task: known[task] for task in benchmark.tasks() if task in known} if known else {}


def sentences_for(benchmark: str) -> dict[str, str]:
    """Return all of LeRobot's sentences for a benchmark, by task; none if it knows none.

    Args:
        benchmark: Its name.

    Raises:
        ContractError: The file in LeRobot's installation is not as expected.
    """
    if benchmark not in _FILES:
        return {}
    name, part = _FILES[benchmark]
    spec = find_spec("lerobot")
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = Path(next(iter(spec.submodule_search_locations)), name)
    try:
        known = json.loads(path.read_bytes())[part]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ContractError(
            f"LeRobot's sentences for {benchmark} cannot be read from {path}: {exc!r}."
        ) from exc
    if not isinstance(known, Mapping):
        raise ContractError(f"{path} has no sentences in {part}.")
    return {str(task): str(sentence) for task, sentence in known.items()}
