"""The Ray actor of a node: bytes in, bytes out."""

import os
from pathlib import Path

import msgspec

from envhub_cluster.messages import encode, read_begin, read_exchange
from envhub_cluster.node import Node


class NodeActor:
    """Made on a node by Ray, from the code that is installed there."""

    def __init__(self, begin: bytes, cores: int) -> None:
        """Begin to prepare the evaluation.

        Args:
            begin: A `Begin`.
            cores: The cores that Ray gives the node.
        """
        # Ray sets it to the cores of the actor unless the user has set it, and results depend on
        # it: as without Ray, the policy decides for itself.
        if b"OMP_NUM_THREADS=" not in Path(f"/proc/{os.getppid()}/environ").read_bytes():
            os.environ.pop("OMP_NUM_THREADS", None)
        self._node = Node(read_begin(begin), cores)

    def exchange(self, asked: bytes) -> bytes:
        """Take an `Exchange`, return a `State`."""
        return encode(self._node.exchange(read_exchange(asked)))


def probe() -> bytes:
    """Return what a node has, as JSON; see `envhub doctor --cluster`."""
    from envhub_cluster.probe import describe_node

    return msgspec.json.encode(describe_node())
