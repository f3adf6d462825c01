"""The requests that read: information, listings, files."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

from envhub_localhub import transfers
from envhub_localhub.access import commit_of, find, no_entry, require_content, require_token
from envhub_localhub.faults import Symlink, WrongSize, WrongTree
from envhub_localhub.git import Blob, Entry
from envhub_localhub.large import Pointer
from envhub_localhub.messages import Answer, Call, Refused, file_answer, json_answer
from envhub_localhub.store import Kind, Stored

_PAGE = 1000
"""Entries per page of a listing, as on the Hub."""
_BRIEF = ("id", "modelId", "private", "gated", "likes", "downloads", "tags", "createdAt")


def whoami(call: Call) -> Answer:
    """`GET /api/whoami-v2`."""
    require_token(call)
    token = {"displayName": "local", "role": "write", "createdAt": _written(datetime.now(UTC))}
    return json_answer({
        "type": "user", "id": "local", "name": "local", "fullname": "local", "isPro": False,
        "orgs": [], "auth": {"type": "access_token", "accessToken": token},
    })  # fmt: skip


def info(call: Call, segment: str, name: str, revision: str = "main") -> Answer:
    """`GET /api/models/owner/name[/revision/main]`."""
    stored = find(call, segment, name)
    about = _describe(call, stored, commit_of(call, stored, revision))
    return json_answer(_chosen(call, about, tuple(about)))


def search(call: Call, segment: str) -> Answer:
    """`GET /api/models?search=...&filter=...&author=...`: a filter is a tag, and all must match."""
    kind: Kind = "dataset" if segment == "datasets" else "model"
    results = []
    for stored in call.store.all(kind):
        if (stored.private and not call.authorized) or not _is_named(call, stored):
            continue
        about = _describe(call, stored, commit_of(call, stored, "main"))
        if set(call.query.get("filter", [])) <= set(about["tags"]):
            results.append(_chosen(call, about, tuple(about) if call.option("full") else _BRIEF))
    return _page(call, results)


def tree(call: Call, segment: str, name: str, revision: str, path: str | None = None) -> Answer:
    """`GET /api/models/owner/name/tree/main[/directory]?recursive=true`."""
    stored = find(call, segment, name)
    commit = commit_of(call, stored, revision)
    inside = unquote(path or "")
    entries = stored.repository.entries(commit, inside, recursive=call.option("recursive"))
    if entries is None:
        raise no_entry(commit)
    return _page(call, [_listed(entry) for entry in _claimed(call, entries)])


def paths_info(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`POST /api/models/owner/name/paths-info/main`: the entries of a tree for some paths."""
    stored = find(call, segment, name)
    commit = commit_of(call, stored, revision)
    entries = stored.repository.entries(commit, recursive=True) or []
    paths = set(parse_qs(call.body.decode(errors="replace")).get("paths", []))
    listed = [_listed(entry) for entry in _claimed(call, entries) if entry.path in paths]
    return json_answer(listed)


def refs(call: Call, segment: str, name: str) -> Answer:
    """`GET /api/models/owner/name/refs`."""
    listed: dict[str, list[dict[str, str]]] = {"branches": [], "converts": [], "tags": []}
    for ref in find(call, segment, name).repository.refs():
        group = "tags" if ref.full.startswith("refs/tags/") else "branches"
        listed[group].append({"name": ref.name, "ref": ref.full, "targetCommit": ref.commit})
    return json_answer(listed | {"pullRequests": []})


def commits(call: Call, segment: str, name: str, revision: str) -> Answer:
    """`GET /api/models/owner/name/commits/main`."""
    stored = find(call, segment, name)
    history = stored.repository.history(commit_of(call, stored, revision))
    return _page(call, [
        {"id": past.id, "title": past.title, "message": "", "authors": [],
         "date": _written(past.time)}
        for past in history
    ])  # fmt: skip


def resolve(call: Call, segment: str | None, name: str, revision: str, path: str) -> Answer:
    """`HEAD` and `GET /owner/name/resolve/main/env.py`."""
    stored = find(call, segment, name)
    require_content(call, stored)
    commit = commit_of(call, stored, revision)
    inside = unquote(path)
    file = _read(call, stored, commit, inside)
    pointer = Pointer.parse(file.data)
    if pointer and stored.repository.large.has(pointer):
        return transfers.redirect(call, stored, commit, inside, pointer)
    data = call.faults.falsify(inside, file.data)
    return file_answer(call, data, {"ETag": f'"{file.id}"', "X-Repo-Commit": commit})


def _describe(call: Call, stored: Stored, commit: str) -> dict[str, Any]:
    """Return all information about a repository at a commit."""
    entries = stored.repository.entries(commit, recursive=True) or []
    files = [entry for entry in _claimed(call, entries) if not entry.is_directory]
    tags = stored.tags(commit)
    about: dict[str, Any] = {
        "id": stored.name,
        "author": stored.owner,
        "sha": commit,
        "lastModified": _written(stored.repository.time_of(commit)),
        "createdAt": _written(stored.created),
        "private": stored.private,
        "gated": "auto" if stored.gated else False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": tags,
        "cardData": {"tags": tags},
        "siblings": [_sibling(entry, blobs=call.option("blobs")) for entry in files],
    }
    return about if stored.kind == "dataset" else {"modelId": stored.name, **about}


def _written(time: datetime) -> str:
    """Return a time in the only format that the client reads."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _sibling(entry: Entry, *, blobs: bool) -> dict[str, object]:
    if not blobs:
        return {"rfilename": entry.path}
    about = {"rfilename": entry.path, "size": entry.size, "blobId": entry.id}
    return {**about, **_lfs(entry, "sha256")}


def _chosen(call: Call, about: dict[str, Any], usual: Iterable[str]) -> dict[str, Any]:
    """Return the requested fields, or the usual ones if the request names none."""
    names = {"id", *call.query["expand"]} if "expand" in call.query else set(usual)
    return {name: value for name, value in about.items() if name in names}


def _is_named(call: Call, stored: Stored) -> bool:
    """Whether a repository's name matches a search."""
    author = call.query.get("author", [stored.owner])[-1]
    words = call.query.get("search", [])
    return stored.owner == author and all(word.lower() in stored.name.lower() for word in words)


def _claimed(call: Call, entries: list[Entry]) -> list[Entry]:
    """Apply the active lies to a tree's listing."""
    claimed = {entry.path: entry for entry in entries}
    for link in call.faults.lies(Symlink):
        blob = Blob.of(link.target.encode())
        claimed[link.path] = Entry(link.path, blob.id, len(blob.data), is_directory=False)
    for lie in call.faults.lies(WrongTree):
        for path, entry in claimed.items():
            if not entry.is_directory and lie.path in (None, path):
                claimed[path] = replace(entry, id=entry.id[::-1])
    for size in call.faults.lies(WrongSize):
        if size.path in claimed:
            claimed[size.path] = replace(claimed[size.path], size=size.size)
    return list(claimed.values())


def _listed(entry: Entry) -> dict[str, object]:
    entry_type = "directory" if entry.is_directory else "file"
    listed = {"type": entry_type, "oid": entry.id, "size": entry.size, "path": entry.path}
    return {**listed, **_lfs(entry, "oid")}


def _lfs(entry: Entry, hash_name: str) -> dict[str, object]:
    """Return what a listing adds for a file in large-file storage."""
    pointer = entry.pointer
    if pointer is None:
        return {}
    about = {"size": pointer.size, "pointerSize": len(pointer.data), hash_name: pointer.sha256}
    return {"lfs": about}


def _page(call: Call, entries: list[dict[str, Any]]) -> Answer:
    """Return one page of a listing, with the address of the next one."""
    try:
        start = int(call.query.get("cursor", ["0"])[-1])
        end = start + min(int(call.query.get("limit", [str(_PAGE)])[-1]), _PAGE)
    except ValueError as exc:
        raise Refused(400, "limit and cursor are numbers.") from exc
    if end >= len(entries):
        return json_answer(entries[start:end])
    query = urlencode({**call.query, "cursor": [str(end)]}, doseq=True)
    link = f'<{call.endpoint}{call.quoted}?{query}>; rel="next"'
    return json_answer(entries[start:end], headers={"Link": link})


def _read(call: Call, stored: Stored, commit: str, path: str) -> Blob:
    """Read a committed file, or the link that it is said to be."""
    for link in call.faults.lies(Symlink):
        if link.path == path:
            return Blob.of(link.target.encode())
    blob = stored.repository.read(commit, path)
    if blob is None:
        raise no_entry(commit)
    return blob
