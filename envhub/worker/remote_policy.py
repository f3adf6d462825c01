"""A policy in a process of its own, as the host sees it. Nothing here waits."""

from pathlib import Path

from envhub.types import HERE, Benchmark, FileSource, Interpreter, Limits, PolicySource
from envhub.worker.host import Worker
from envhub.worker.protocol import Act, LoadPolicy, MapSlot, Seen, Told
from envhub.worker.spaces import Spaces, encode_space


class RemotePolicy:
    """Every method asks; the worker's outcome answers."""

    def __init__(
        self, limits: Limits, *, log: Path | None = None, interpreter: Interpreter = HERE
    ) -> None:
        self.worker = Worker("its own process", role="policy", log=log, interpreter=interpreter)
        self.worker.subject = "the policy"
        self._limits = limits

    def load(
        self,
        policy: PolicySource,
        benchmark: Benchmark,
        spaces: Spaces,
        source: FileSource | None,
    ) -> None:
        """Make the policy for a pair of spaces."""
        observation, action = (encode_space(space) for space in spaces)
        identity = self.worker.next_id()
        request = LoadPolicy(identity, policy, benchmark, observation, action, source)
        self.worker.ask(request, self._limits.start, "making")

    def map_slot(self, slot: int, policy: int, memory: int) -> None:
        """Share the memory of a slot with it."""
        request = MapSlot(self.worker.next_id(), slot, policy)
        self.worker.ask(request, self._limits.start, "sharing memory", (memory,))

    def act(
        self,
        policy: int,
        rows: tuple[Seen, ...],
        begin: tuple[Told, ...],
        finish: tuple[int, ...],
    ) -> None:
        """Let it act."""
        request = Act(self.worker.next_id(), policy, rows, begin, finish)
        self.worker.ask(request, self._limits.act, "acting")
