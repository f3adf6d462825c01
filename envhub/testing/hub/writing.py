"""What changes a Hub: new repositories, commits, branches, tags. All of it needs the token."""

import json
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from envhub.testing.hub.access import commit_of, find, no_entry, require_token
from envhub.testing.hub.git import HeadMoved, Ref
from envhub.testing.hub.messages import Answer, Call, Refused, json_answer
from envhub.testing.hub.store import Kind, Stored

_USER = "local"
"""Whose a repository is that is created without saying so; `whoami` says the same."""


def validate_yaml(call: Call) -> Answer:
    """`POST /api/validate-yaml`: any card will do."""
    return json_answer({"errors": [], "warnings": []})


def create(call: Call) -> Answer:
    """`POST /api/repos/create`."""
    require_token(call)
    asked = call.json()
    kind = _kind(asked.get("type") or "model")
    name = f"{asked.get('organization') or _USER}/{asked.get('name')}"
    # Clients before 2.0 say private: true; later ones say visibility: private.
    private = asked.get("private") is True or asked.get("visibility") == "private"
    return _create(call, name, kind, private=private)


def preupload(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`POST .../preupload/main`: how to send files, and what is there already."""
    stored, commit = _writable(call, segment, name, revision)
    paths = [file["path"] for file in call.json()["files"]]
    found = {path: stored.repository.read(commit, path) for path in paths}
    return json_answer({
        "files": [
            {"path": path, "uploadMode": "regular", "shouldIgnore": False,
             "oid": blob.id if blob else None}
            for path, blob in found.items()
        ]
    })  # fmt: skip


def commit(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`POST .../commit/main`: one JSON value a line, a header and then operations."""
    stored, head = _writable(call, segment, name, revision)
    if call.option("create_pr"):
        raise Refused(400, "A local Hub has no pull requests.")
    asked = _read_change(call.body)
    _check_deletions(stored, head, asked.delete)
    try:
        made = stored.repository.commit(
            asked.files,
            message=asked.message,
            branch=unquote(revision),
            delete=asked.delete,
            expected=asked.parent,
        )
    except HeadMoved as exc:
        message = "A commit has happened since. Please refresh and try again."
        raise Refused(412, message) from exc
    except ValueError as exc:
        raise Refused(400, str(exc)) from exc
    address = f"{call.endpoint}/{stored.page}/commit/{made}"
    return json_answer({"success": True, "commitOid": made, "commitUrl": address, "hookOutput": ""})


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


def _kind(asked: str) -> Kind:
    match asked:
        case "model" | "dataset":
            return asked
    raise Refused(400, f"A local Hub has models and datasets, no {asked}s.")


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
    """The repository of a change, and the head of the branch that it is for."""
    require_token(call)
    stored = find(call, segment, name)
    full = f"refs/heads/{unquote(revision)}"
    head = stored.repository.commit_of(full)
    if head is None:
        raise Refused(404, f"Invalid rev id: {unquote(revision)}", code="RevisionNotFound")
    return stored, head


@dataclass(slots=True)
class _Change:
    """A commit that is asked for."""

    message: str = ""
    parent: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    delete: list[str] = field(default_factory=list)


def _read_change(body: bytes) -> _Change:
    change = _Change()
    try:
        for line in body.splitlines():
            operation = json.loads(line)
            _add(change, operation["key"], operation["value"])
    except (ValueError, KeyError, TypeError) as exc:
        raise Refused(400, f"The commit cannot be read: {exc!r}") from exc
    return change


def _add(change: _Change, key: str, value: dict[str, Any]) -> None:
    match key:
        case "header":
            parts = (value["summary"], value.get("description"))
            change.message = "\n\n".join(part for part in parts if part)
            change.parent = value.get("parentCommit") or ""
        case "file":
            change.files[value["path"]] = b64decode(value["content"])
        case "deletedFile" | "deletedFolder":
            change.delete.append(value["path"].rstrip("/"))
        case _:
            raise Refused(400, f"A local Hub does not know the operation {key}.")


def _check_deletions(stored: Stored, head: str, paths: list[str]) -> None:
    entries = stored.repository.entries(head, recursive=True) or []
    if not set(paths) <= {entry.path for entry in entries}:
        raise no_entry(head)


def _point(stored: Stored, full: str, target: str) -> None:
    new = Ref(full, target)
    if any(ref.full == new.full for ref in stored.repository.refs()):
        raise Refused(409, f"Reference already exists: {new.name}")
    stored.repository.point(new.full, target)
