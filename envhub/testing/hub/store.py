"""The repositories of a Hub: `DIR/models/owner/name.git` and `DIR/datasets/owner/name.git`."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import Literal

from envhub.errors import UnknownName
from envhub.testing.hub.card import tags_of
from envhub.testing.hub.git import Repository

Kind = Literal["model", "dataset"]

NAME = r"[A-Za-z0-9][\w.-]*"
_FULL_NAME = re.compile(f"{NAME}/{NAME}", re.ASCII)
# Beside what git keeps in a bare repository.
_ABOUT = "hub.json"
# What the Hub writes there is about large files; here all files are small.
_FIRST_FILES = {".gitattributes": "* -text\n"}


@dataclass(frozen=True, slots=True)
class Stored:
    """A repository of the Hub, and who may have it."""

    kind: Kind
    name: str
    """With its owner: `owner/name`."""
    private: bool
    gated: bool
    created: datetime
    repository: Repository

    @property
    def owner(self) -> str:
        """The first half of its name."""
        return self.name.partition("/")[0]

    @property
    def page(self) -> str:
        """Its address below the endpoint."""
        return f"{'datasets/' if self.kind == 'dataset' else ''}{self.name}"

    def tags(self, commit: str) -> list[str]:
        """What the card of a commit says."""
        card = self.repository.read(commit, "README.md")
        return tags_of(card.data.decode(errors="replace")) if card else []


class Store:
    """A directory of repositories."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()

    def create(self, name: str, kind: Kind, *, private: bool, gated: bool) -> Stored:
        """Make a repository; like on the Hub, it has a first commit.

        Raises:
            FileExistsError: There is one of that name.
            ValueError: It cannot be named so.
        """
        if not _FULL_NAME.fullmatch(name):
            raise ValueError(f"A repository is called owner/name, not {name!r}.")
        repository = Repository(self._path(name, kind))
        repository.path.parent.mkdir(parents=True, exist_ok=True)
        repository.path.mkdir()
        about = {"private": private, "gated": gated, "created": datetime.now(UTC).isoformat()}
        repository.init()
        repository.commit(_FIRST_FILES, message="initial commit")
        (repository.path / _ABOUT).write_text(dumps(about))
        return self.get(name, kind)

    def find(self, name: str, kind: Kind) -> Stored | None:
        """The repository of that name, if there is one."""
        path = self._path(name, kind)
        try:
            about = loads((path / _ABOUT).read_text())
        except FileNotFoundError:
            return None
        created = datetime.fromisoformat(about["created"])
        return Stored(kind, name, about["private"], about["gated"], created, Repository(path))

    def get(self, name: str, kind: Kind) -> Stored:
        """The repository of that name.

        Raises:
            UnknownName: There is none.
        """
        found = self.find(name, kind)
        if found is None:
            raise UnknownName(kind, name, (stored.name for stored in self.all(kind)))
        return found

    def all(self, kind: Kind) -> list[Stored]:
        """Those of a kind, by name."""
        names = (
            f"{path.parent.name}/{path.name.removesuffix('.git')}"
            for path in self._directory.glob(f"{kind}s/*/*.git")
        )
        return [stored for name in sorted(names) if (stored := self.find(name, kind))]

    def _path(self, name: str, kind: Kind) -> Path:
        return self._directory / f"{kind}s" / f"{name}.git"
