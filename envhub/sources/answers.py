"""The answers of the Hub's API, as far as they are read; an answer of another form is refused."""

from typing import Annotated

import msgspec
from msgspec import Meta

GitId = Annotated[str, Meta(pattern="^[0-9a-f]{40}\\Z")]
"""The id of a commit, a tree or a file."""


class Large(msgspec.Struct):
    """The content of an entry that is in large-file storage."""

    oid: Annotated[str, Meta(pattern="^[0-9a-f]{64}\\Z")]


class Entry(msgspec.Struct):
    """An entry of a tree."""

    type: str
    path: Annotated[str, Meta(max_length=4096)]
    oid: GitId
    size: Annotated[int, Meta(ge=0)] = 0
    lfs: Large | None = None


class Ref(msgspec.Struct, rename="camel"):
    """A branch or tag."""

    target_commit: GitId


class Refs(msgspec.Struct):
    """The branches and tags of a repository, without its pull requests."""

    branches: list[Ref]
    tags: list[Ref]


class Commit(msgspec.Struct):
    """A commit of a history."""

    id: GitId


class Revision(msgspec.Struct):
    """A revision of a repository."""

    sha: str


class Model(msgspec.Struct, rename="camel"):
    """A search result."""

    id: str
    sha: str | None = None
    last_modified: str | None = None
    downloads: int = 0
    tags: tuple[str, ...] = ()
