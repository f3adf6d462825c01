"""The requests that change a Hub: new repositories, commits, branches, tags. All need the token."""

import json
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from envhub_localhub.access import commit_of, find, no_entry, require_token
from envhub_localhub.git import HeadMoved, Ref
from envhub_localhub.large import Pointer, is_large
from envhub_localhub.messages import Answer, Call, Refused, json_answer
from envhub_localhub.store import Kind, Stored

_USER = "local"
"""The default owner of a new repository, and the user's name in `whoami`."""


def validate_yaml(call: Call) -> Answer:
    """`POST /api/validate-yaml`: any card is valid."""
    return json_answer({"errors": [], "warnings": []})


def create(call: Call) -> Answer:
    """`POST /api/repos/create`."""
    require_token(call)
    options = call.json()
    kind = _kind(options.get("type") or "model")
    name = f"{options.get('organization') or _USER}/{options.get('name')}"
    # Clients before 2.0 send private: true; later ones send visibility: private.
    private = options.get("private") is True or options.get("visibility") == "private"
    return _create(call, name, kind, private=private)


def preupload(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`POST .../preupload/main`: how to send files, and which exist already."""
    stored, commit = _writable(call, segment, name, revision)
    attributes = stored.repository.read(commit, ".gitattributes")
    rules = attributes.data.decode(errors="replace") if attributes else ""
    sizes = {file["path"]: file.get("size", 0) for file in call.json()["files"]}
    blobs = {path: stored.repository.read(commit, path) for path in sizes}
    return json_answer({
        "files": [
            {"path": path, "uploadMode": "lfs" if is_large(path, sizes[path], rules) else "regular",
             "shouldIgnore": False, "oid": blob.id if blob else None}
            for path, blob in blobs.items()
        ]
    })  # fmt: skip


def commit(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`POST .../commit/main`: one JSON value per line, a header and then operations."""
    stored, head = _writable(call, segment, name, revision)
    if call.option("create_pr"):
        raise Refused(400, "A local Hub does not support pull requests.")
    change = _read_change(call.body, stored)
    _check_deletions(stored, head, change.delete)
    try:
        new = stored.repository.commit(
            change.files,
            message=change.message,
            branch=unquote(revision),
            delete=change.delete,
            expected=change.parent,
        )
    except HeadMoved as exc:
        message = "A commit has happened since. Please refresh and try again."
        raise Refused(412, message) from exc
    except ValueError as exc:
        raise Refused(400, str(exc)) from exc
    address = f"{call.endpoint}/{stored.page}/commit/{new}"
    return json_answer({"success": True, "commitOid": new, "commitUrl": address, "hookOutput": ""})


def tag(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`POST .../tag/main`."""
    require_token(call)
    stored = find(call, segment, name)
    _point(stored, f"refs/tags/{call.json()['tag']}", commit_of(call, stored, revision))
    return json_answer({})


def branch(call: Call, segment: str, name: str, new: str) -> Answer:
    """`POST .../branch/new`."""
    require_token(call)
    stored = find(call, segment, name)
    start = call.json().get("startingPoint", "main")
    _point(stored, f"refs/heads/{unquote(new)}", commit_of(call, stored, start))
    return json_answer({})


def _kind(name: str) -> Kind:
    match name:
        case "model" | "dataset":
            return name
    raise Refused(400, f"A local Hub supports models and datasets, not {name}s.")


def _create(call: Call, name: str, kind: Kind, *, private: bool) -> Answer:
    try:
        stored = call.store.create(name, kind, private=private, gated=False)
    except ValueError as exc:
        raise Refused(400, str(exc)) from exc
    except FileExistsError:
        address = f"{call.endpoint}/{call.store.get(name, kind).page}"
        error = f"You already created this {kind} repo"
        return json_answer({"error": error, "url": address}, status=409)
    return json_answer({"url": f"{call.endpoint}/{stored.page}", "name": name})


def _writable(call: Call, segment: str, name: str, revision: str) -> tuple[Stored, str]:
    """Return the repository of a change, and the head of its branch."""
    require_token(call)
    stored = find(call, segment, name)
    full = f"refs/heads/{unquote(revision)}"
    head = stored.repository.commit_of(full)
    if head is None:
        raise Refused(404, f"Invalid rev id: {unquote(revision)}", code="RevisionNotFound")
    return stored, head


@dataclass(slots=True)
class _Change:
    """A requested commit."""

    message: str = ""
    parent: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    delete: list[str] = field(default_factory=list)


def _read_change(body: bytes, stored: Stored) -> _Change:
    change = _Change()
    try:
        for line in body.splitlines():
            operation = json.loads(line)
            _add(change, stored, operation["key"], operation["value"])
    except (ValueError, KeyError, TypeError) as exc:
        raise Refused(400, f"The commit cannot be read: {exc!r}") from exc
    return change


def _add(change: _Change, stored: Stored, key: str, value: dict[str, Any]) -> None:
    match key:
        case "header":
            parts = (value["summary"], value.get("description"))
            change.message = "\n\n".join(part for part in parts if part)
            change.parent = value.get("parentCommit") or ""
        case "file":
            change.files[value["path"]] = b64decode(value["content"])
        case "lfsFile":
            change.files[value["path"]] = _pointer(stored, value["oid"]).data
        case "deletedFile" | "deletedFolder":
            change.delete.append(value["path"].rstrip("/"))
        case _:
            raise Refused(400, f"A local Hub does not support the operation {key}.")


def _pointer(stored: Stored, sha256: str) -> Pointer:
    pointer = stored.repository.large.find(sha256)
    if pointer is None:
        raise Refused(400, f"LFS pointer pointed to a file that does not exist: {sha256}")
    return pointer


def _check_deletions(stored: Stored, head: str, paths: list[str]) -> None:
    entries = stored.repository.entries(head, recursive=True) or []
    if not set(paths) <= {entry.path for entry in entries}:
        raise no_entry(head)


def _point(stored: Stored, full: str, target: str) -> None:
    new = Ref(full, target)
    if any(ref.full == new.full for ref in stored.repository.refs()):
        raise Refused(409, f"Reference already exists: {new.name}")
    stored.repository.point(new.full, target)
