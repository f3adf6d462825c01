"""Fetching with git itself: the smart HTTP protocol, spoken by `git http-backend`."""

from email.parser import BytesParser
from urllib.parse import urlencode

from envhub_localhub.access import find, require_content
from envhub_localhub.git import run_git
from envhub_localhub.messages import Answer, Call, Refused


def advertise(call: Call, segment: str | None, name: str) -> Answer:
    """`GET /owner/name/info/refs?service=git-upload-pack`."""
    if call.query.get("service") != ["git-upload-pack"]:
        raise Refused(403, "A local Hub supports only fetching, with the smart protocol.")
    return _backend(call, segment, name, "info/refs")


def upload_pack(call: Call, segment: str | None, name: str) -> Answer:
    """`POST /owner/name/git-upload-pack`."""
    return _backend(call, segment, name, "git-upload-pack")


def _backend(call: Call, segment: str | None, name: str, service: str) -> Answer:
    stored = find(call, segment, name)
    require_content(call, stored)
    path = stored.repository.path
    variables = {
        "REQUEST_METHOD": call.method,
        "GIT_PROJECT_ROOT": str(path.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{path.name}/{service}",
        "QUERY_STRING": urlencode(call.query, doseq=True),
        "CONTENT_TYPE": call.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(call.body)),
        "HTTP_CONTENT_ENCODING": call.headers.get("content-encoding", ""),
        "HTTP_GIT_PROTOCOL": call.headers.get("git-protocol", ""),
        "GIT_PROTOCOL": call.headers.get("git-protocol", ""),
    }
    # The exit code is ignored: errors such as "not our ref" are also reported in the protocol.
    return _answer(run_git(path, "http-backend", stdin=call.body, variables=variables).stdout)


def _answer(output: bytes) -> Answer:
    """Parse the output of a CGI program: headers, an empty line, the body."""
    head, _, body = output.partition(b"\r\n\r\n")
    headers = dict(BytesParser().parsebytes(head).items())
    status = int(headers.pop("Status", "200").split()[0])
    return Answer(status, body, headers)
