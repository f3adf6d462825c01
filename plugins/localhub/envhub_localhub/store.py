"""The repositories of a Hub: `DIR/models/owner/name.git` and `DIR/datasets/owner/name.git`."""

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import Literal

from envhub.errors import UnknownName
from envhub_localhub.card import tags_of
from envhub_localhub.git import Repository

Kind = Literal["model", "dataset"]

NAME = r"[A-Za-z0-9][\w.-]*"
_FULL_NAME = re.compile(f"{NAME}/{NAME}", re.ASCII)
# In the directory of the bare repository, next to git's own files.
_ABOUT = "hub.json"
# The Hub's own .gitattributes is about large files; here all files are small unless a test says so.
_FIRST_FILES = {".gitattributes": "* -text\n"}


@dataclass(frozen=True, slots=True)
class Stored:
    """A repository of the Hub, and its visibility."""

    kind: Kind
    name: str
    """The full name, `owner/name`."""
    private: bool
    gated: bool
    created: datetime
    repository: Repository

    @property
    def owner(self) -> str:
        """The first half of the name."""
        return self.name.partition("/")[0]

    @property
    def page(self) -> str:
        """The address of the repository below the endpoint."""
        return f"{'datasets/' if self.kind == 'dataset' else ''}{self.name}"

    def tags(self, commit: str) -> list[str]:
        """Return the tags in the card of a commit."""
        card = self.repository.read(commit, "README.md")
        return tags_of(card.data.decode(errors="replace")) if card else []


class Store:
    """A directory of repositories."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._key = secrets.token_bytes(32)

    def create(self, name: str, kind: Kind, *, private: bool, gated: bool) -> Stored:
        """Create a repository, with a first commit as on the Hub.

        Raises:
            FileExistsError: The repository already exists.
            ValueError: The name is not valid.
        """
        if not _FULL_NAME.fullmatch(name):
            raise ValueError(f"The name of a repository is owner/name, not {name!r}.")
        repository = Repository(self._path(name, kind))
        repository.path.parent.mkdir(parents=True, exist_ok=True)
        repository.path.mkdir()
        about = {"private": private, "gated": gated, "created": datetime.now(UTC).isoformat()}
        repository.init()
        repository.commit(_FIRST_FILES, message="initial commit")
        (repository.path / _ABOUT).write_text(dumps(about))
        return self.get(name, kind)

    def find(self, name: str, kind: Kind) -> Stored | None:
        """Return the repository of that name, or None if it does not exist."""
        path = self._path(name, kind)
        try:
            about = loads((path / _ABOUT).read_text())
        except FileNotFoundError:
            return None
        created = datetime.fromisoformat(about["created"])
        return Stored(kind, name, about["private"], about["gated"], created, Repository(path))

    def get(self, name: str, kind: Kind) -> Stored:
        """Return the repository of that name.

        Raises:
            UnknownName: The repository does not exist.
        """
        stored = self.find(name, kind)
        if stored is None:
            raise UnknownName(kind, name, (other.name for other in self.all(kind)))
        return stored

    def all(self, kind: Kind) -> list[Stored]:
        """Return all repositories of a kind, sorted by name."""
        names = (
            f"{path.parent.name}/{path.name.removesuffix('.git')}"
            for path in self._directory.glob(f"{kind}s/*/*.git")
        )
        return [stored for name in sorted(names) if (stored := self.find(name, kind))]

    def sign(self, text: str) -> str:
        """Return the signature of an address, which stands for the token there."""
        return hmac.digest(self._key, text.encode(), "sha256").hex()

    def _path(self, name: str, kind: Kind) -> Path:
        return self._directory / f"{kind}s" / f"{name}.git"
