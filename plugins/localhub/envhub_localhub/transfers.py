"""The requests that carry large files: the batch API of git-lfs, uploads, downloads.

A Hub answers the request for a large file with an address in another storage, and asks for no token
there: the address is signed. Here the storage is another port.
"""

from urllib.parse import quote, unquote

from envhub_localhub.access import find, require_token
from envhub_localhub.large import Pointer
from envhub_localhub.messages import Answer, Call, Refused, file_answer, json_answer
from envhub_localhub.store import Kind, Stored


def redirect(call: Call, stored: Stored, commit: str, path: str, pointer: Pointer) -> Answer:
    """Answer the request for a large file with the address of its content."""
    headers = {
        "Location": _address(call, stored, "download", pointer, path),
        "ETag": f'"{pointer.sha256}"',
        "X-Linked-ETag": f'"{pointer.sha256}"',
        "X-Linked-Size": str(pointer.size),
        "X-Repo-Commit": commit,
    }
    return Answer(302, headers=headers)


def download(call: Call, segment: str, name: str, sha256: str, path: str) -> Answer:
    """`GET /large-files/download/models/owner/name/<sha256>/<path>?signature=...`."""
    stored = _signed(call, segment, name, sha256)
    pointer = stored.repository.large.find(sha256)
    if pointer is None:
        raise Refused(404, "No such object")
    data = call.faults.falsify(unquote(path), stored.repository.large.read(pointer))
    return file_answer(call, data, {"ETag": f'"{sha256}"'})


def batch(call: Call, segment: str | None, name: str) -> Answer:
    """`POST /owner/name.git/info/lfs/objects/batch`: where to send contents, if at all."""
    require_token(call)
    stored = find(call, segment, name)
    wanted = call.json()
    if wanted.get("operation") != "upload" or "basic" not in wanted.get("transfers", ["basic"]):
        raise Refused(400, "A local Hub supports only uploads, each in one request.")
    pointers = [Pointer(each["oid"], each["size"]) for each in wanted["objects"]]
    objects = [_instructions(call, stored, pointer) for pointer in pointers]
    return json_answer({"transfer": "basic", "objects": objects})


def upload(call: Call, segment: str, name: str, sha256: str) -> Answer:
    """`PUT /large-files/upload/models/owner/name/<sha256>?signature=...`."""
    stored = _signed(call, segment, name, sha256)
    if Pointer.of(call.body).sha256 != sha256:
        raise Refused(400, "The content is not that of the object.")
    stored.repository.large.write(call.body)
    return Answer(headers={"ETag": f'"{sha256}"'})


def verify(call: Call, segment: str, name: str, sha256: str) -> Answer:
    """`POST /large-files/verify/models/owner/name/<sha256>`: whether an upload has come."""
    require_token(call)
    stored = find(call, segment, name)
    if not stored.repository.large.has(Pointer(sha256, call.json()["size"])):
        raise Refused(404, "No such object")
    return json_answer({})


def _instructions(call: Call, stored: Stored, pointer: Pointer) -> dict[str, object]:
    about: dict[str, object] = {"oid": pointer.sha256, "size": pointer.size}
    if stored.repository.large.has(pointer):
        return about
    actions = {
        action: {"href": _address(call, stored, action, pointer)} for action in ("upload", "verify")
    }
    return {**about, "authenticated": True, "actions": actions}


def _address(call: Call, stored: Stored, action: str, pointer: Pointer, path: str = "") -> str:
    inside = f"/{quote(path)}" if path else ""
    server = call.endpoint if action == "verify" else call.storage
    place = f"{server}/large-files/{action}/{stored.kind}s/{stored.name}/{pointer.sha256}"
    return f"{place}{inside}?signature={call.store.sign(f'{stored.page} {pointer.sha256}')}"


def _signed(call: Call, segment: str, name: str, sha256: str) -> Stored:
    """Return the repository of a signed address; the signature stands for the token."""
    kind: Kind = "dataset" if segment == "datasets" else "model"
    stored = call.store.find(name, kind)
    given = call.query.get("signature", [""])[-1]
    if stored is None or given != call.store.sign(f"{stored.page} {sha256}"):
        raise Refused(403, "The signature of the address is wrong.")
    return stored
