"""`LocalHub`: a Hub on loopback, the interface for tests."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

from envhub.errors import UnknownName
from envhub_localhub.faults import Fault, Faults
from envhub_localhub.git import Content
from envhub_localhub.messages import Request
from envhub_localhub.server import Server
from envhub_localhub.store import Kind, Store


class LocalHub:
    """A Hugging Face Hub on loopback, over the bare git repositories of a directory.

    The client and the `hf` command work with it as with the Hub, as far as EnvHub uses that:
    information, listings, files at a branch, tag or commit, snapshots, new repositories, uploads,
    search by tag, datasets, large files (LFS), and fetching with git. Xet and pull requests are not
    supported: set `HF_HUB_DISABLE_XET` to upload large files with a client that would use Xet.

    A file of `commit` is in large-file storage if its content is `Large`; an uploaded one, if
    `.gitattributes` says so or it has more than 10 MB.

    Attributes:
        requests: All requests, oldest first. You may clear the list.
        token: The token that private and gated repositories, and all changes, need.
    """

    def __init__(self, directory: Path | str, *, port: int = 0) -> None:
        """Create a Hub; it answers between `start` and `close`, or in a `with` block.

        Args:
            directory: The directory of its repositories.
            port: The port to listen on; 0: a free port.
        """
        self.requests: list[Request] = []
        self.token = f"hf_{secrets.token_hex(16)}"
        self._store = Store(Path(directory))
        self._faults = Faults()
        self._port = port
        self._storage_port = 0
        self._servers: list[Server] = []

    def start(self) -> None:
        """Start to listen. After `close` the Hub can be started again, at the same address."""
        if self._servers:
            return
        serve = partial(
            Server,
            store=self._store,
            faults=self._faults,
            token=self.token,
            log=self.requests.append,
        )
        # Another origin, as on the Hub: clients must not send their token there.
        storage = serve(self._storage_port)
        self._servers = [storage, serve(self._port, storage=storage.endpoint)]
        self._storage_port, self._port = (server.server_port for server in self._servers)

    def close(self) -> None:
        """Stop listening and close all connections. May be called again."""
        for server in self._servers:
            server.close()
        self._servers = []

    def __enter__(self) -> "LocalHub":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def endpoint(self) -> str:
        """The address of the started Hub, for `HF_ENDPOINT` or `endpoint=`."""
        return f"http://127.0.0.1:{self._port}"

    def create(
        self, name: str, *, kind: Kind = "model", private: bool = False, gated: bool = False
    ) -> None:
        """Create a repository, with a first commit as on the Hub.

        Args:
            name: The full name, `owner/name`.
            kind: A model or a dataset.
            private: Whether the repository is visible only with the token.
            gated: Whether the repository is visible to all, but its content only with the token.

        Raises:
            FileExistsError: The repository already exists.
            ValueError: The name is not valid.
        """
        self._store.create(name, kind, private=private, gated=gated)

    def commit(
        self,
        name: str,
        files: Mapping[str, Content],
        *,
        message: str = "Change files",
        branch: str = "main",
        delete: Iterable[str] = (),
        kind: Kind = "model",
    ) -> str:
        """Add a commit to a branch; a new branch starts at the head of `main`.

        Args:
            name: The repository.
            files: The files to write: text, bytes, a `Link` or a `Large`, by path.
            message: The commit message.
            branch: The branch.
            delete: Files and directories to delete.
            kind: A model or a dataset.

        Returns:
            The commit's full id.

        Raises:
            UnknownName: The repository does not exist.
            ValueError: A path leaves the repository or names git's own files.
        """
        repository = self._store.get(name, kind).repository
        return repository.commit(files, message=message, branch=branch, delete=delete)

    def propose(self, name: str, files: Mapping[str, Content], *, number: int = 1) -> str:
        """Add a commit that only a pull request has: no branch and no tag leads to it.

        Anybody can make such a commit on the Hub, and whoever knows its id can fetch it from the
        repository's own address.

        Args:
            name: The repository.
            files: What to write, by path.
            number: Of the pull request.

        Returns:
            The commit's full id.
        """
        repository = self._store.get(name, "model").repository
        return repository.commit(
            files, message="Please take this", branch=str(number), under="refs/pr/"
        )

    def tag(self, name: str, tag: str, *, revision: str = "main", kind: Kind = "model") -> None:
        """Tag a revision; an existing tag is moved."""
        commit = self.commit_of(name, revision, kind=kind)
        self._store.get(name, kind).repository.point(f"refs/tags/{tag}", commit)

    def commit_of(self, name: str, revision: str = "main", *, kind: Kind = "model") -> str:
        """Return the full id of the commit that a branch, tag or abbreviated id means.

        Raises:
            UnknownName: The repository or the revision does not exist.
        """
        repository = self._store.get(name, kind).repository
        commit = repository.commit_of(revision)
        if commit is None:
            raise UnknownName("revision", revision, (ref.name for ref in repository.refs()))
        return commit

    def misbehave(self, fault: Fault) -> None:
        """Activate a fault until `behave` is called or the fault's `times` are used up."""
        self._faults.add(fault)

    def behave(self) -> None:
        """Deactivate all faults."""
        self._faults.clear()

    @contextmanager
    def fault(self, fault: Fault) -> Iterator[None]:
        """Activate a fault within a `with` block."""
        self._faults.add(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)
