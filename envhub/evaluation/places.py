"""The places for workers that the cells of an experiment share. Safe between threads.

The engine of each cell asks for a place before it starts a worker, and gives it back once the
worker has no more to do. The earlier cell comes first: a later one gets a place only if no earlier
one waits for it. So the workers that the last episodes of a cell leave over play the next cell.
"""

import os
import threading
from collections.abc import Iterator

_POLL_FLAGS = os.EFD_CLOEXEC | os.EFD_NONBLOCK


class Places:
    """So many workers may run at once."""

    def __init__(self, count: int, memory_mb: int | None = None) -> None:
        """Make places, all free.

        Args:
            count: Of workers.
            memory_mb: What they may need together; None: whatever they need.
        """
        self.count = count
        self._memory = memory_mb
        self._lock = threading.Lock()
        self._held: list[Share] = []
        self._waiting: set[Share] = set()

    def share(self, order: int, memory_mb: int) -> "Share":
        """Return what an engine asks for places.

        Args:
            order: Of the cell: the lowest comes first.
            memory_mb: What each worker needs.
        """
        return Share(self, order, memory_mb)

    def most(self, memory_mb: int) -> int:
        """Return how many workers of one kind may run at once."""
        if self._memory is None:
            return self.count
        return max(1, min(self.count, self._memory // memory_mb))

    @property
    def held(self) -> int:
        """How many workers run."""
        return len(self._held)

    def take(self, share: "Share") -> bool:
        """Take a place for a share, which else waits and is woken when one may be free."""
        with self._lock:
            earlier = any(other.order < share.order for other in self._waiting)
            if earlier or not self._has_room(share.memory_mb):
                self._waiting.add(share)
                return False
            self._waiting.discard(share)
            self._held.append(share)
            return True

    def give(self, share: "Share") -> None:
        """Give back a place of a share."""
        with self._lock:
            self._held.remove(share)
            self._wake()

    def withdraw(self, share: "Share") -> None:
        """Let a share wait no longer."""
        with self._lock:
            if share in self._waiting:
                self._waiting.remove(share)
                self._wake()

    def dispose(self, share: "Share") -> None:
        """Let a share wait no longer, and close its descriptor, which nobody wakes any more."""
        with self._lock:
            self._waiting.discard(share)
            os.close(share.fileno())
            self._wake()

    def _has_room(self, memory_mb: int) -> bool:
        if len(self._held) >= self.count:
            return False
        if self._memory is None or not self._held:  # one worker always may
            return True
        return sum(share.memory_mb for share in self._held) + memory_mb <= self._memory

    def _wake(self) -> None:
        for share in self._next():
            share.wake()

    def _next(self) -> Iterator["Share"]:
        """Yield who comes first of those that wait."""
        first = min((share.order for share in self._waiting), default=None)
        yield from (share for share in self._waiting if share.order == first)


class Share:
    """The places of one engine."""

    def __init__(self, places: Places, order: int, memory_mb: int) -> None:
        self.order = order
        self.memory_mb = memory_mb
        self._places = places
        self._event = os.eventfd(0, _POLL_FLAGS)

    def take(self) -> bool:
        """Take a place; False: wait for `fileno` to become readable, and try again."""
        return self._places.take(self)

    def give(self) -> None:
        """Give a place back."""
        self._places.give(self)

    def withdraw(self) -> None:
        """Wait for no place any more."""
        self._places.withdraw(self)

    def fileno(self) -> int:
        """The descriptor that becomes readable when a place may be free."""
        return self._event

    def wake(self) -> None:
        """Make the descriptor readable."""
        os.eventfd_write(self._event, 1)

    def dispose(self) -> None:
        """Close the descriptor; the share has no place and waits for none."""
        self._places.dispose(self)
