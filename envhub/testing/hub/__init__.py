"""A Hugging Face Hub on loopback, over bare git repositories, that can be told to misbehave.

    with LocalHub(tmp_path) as hub:
        hub.create("owner/name")
        commit = hub.commit("owner/name", {"env.py": "..."})
        HfApi(endpoint=hub.endpoint).model_info("owner/name", revision=commit)

`python -m envhub.testing.hub DIR` serves a directory to a shell.

A request becomes a `Call` (server.py), a table finds its function (routes.py), and the function
makes an `Answer` (reading.py, writing.py, transfers.py, fetching.py) with the help of `git`
(git.py, store.py) and of the storage of large files (large.py).
"""

from envhub.testing.hub.faults import (
    Cut,
    Endless,
    Fault,
    Gated,
    Header,
    MoreBytes,
    OtherCommit,
    Redirect,
    Slow,
    Status,
    Symlink,
    WrongBytes,
    WrongSize,
    WrongTree,
)
from envhub.testing.hub.git import GitFailed, Large, Link
from envhub.testing.hub.local import LocalHub
from envhub.testing.hub.messages import Request

__all__ = [
    "Cut", "Endless", "Fault", "Gated", "GitFailed", "Header", "Large", "Link", "LocalHub",
    "MoreBytes", "OtherCommit", "Redirect", "Request", "Slow", "Status", "Symlink", "WrongBytes",
    "WrongSize", "WrongTree",
]  # fmt: skip
