"""A Hugging Face Hub on loopback, over bare git repositories, that can be told to misbehave.

    with LocalHub(tmp_path) as hub:
        hub.create("owner/name")
        commit = hub.commit("owner/name", {"env.py": "..."})
        HfApi(endpoint=hub.endpoint).model_info("owner/name", revision=commit)

`python -m envhub_localhub DIR` serves a directory to a shell.

A request becomes a `Call` (server.py), a table finds its function (routes.py), and the function
makes an `Answer` (reading.py, writing.py, transfers.py, fetching.py) with the help of `git`
(git.py, store.py) and of the storage of large files (large.py).
"""

from envhub_localhub.faults import (
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
from envhub_localhub.git import GitFailed, Large, Link
from envhub_localhub.local import LocalHub
from envhub_localhub.messages import Request

__all__ = [
    "Cut", "Endless", "Fault", "Gated", "GitFailed", "Header", "Large", "Link", "LocalHub",
    "MoreBytes", "OtherCommit", "Redirect", "Request", "Slow", "Status", "Symlink", "WrongBytes",
    "WrongSize", "WrongTree",
]  # fmt: skip
