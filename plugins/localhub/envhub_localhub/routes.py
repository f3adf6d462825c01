"""The functions that answer requests, by method and address."""

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

from envhub_localhub import fetching, reading, transfers, writing
from envhub_localhub.access import gated
from envhub_localhub.faults import Gated, Redirect, Status
from envhub_localhub.messages import Answer, Call, Refused
from envhub_localhub.store import NAME

_API = rf"/api/(?P<segment>models|datasets)/(?P<name>{NAME}/{NAME})"
_PAGE = rf"/(?:(?P<segment>datasets)/)?(?P<name>{NAME}/{NAME})"
# With or without .git, which is not part of a name: the `?` makes the pattern of the name lazy.
_GIT = rf"/(?:(?P<segment>datasets)/)?(?P<name>{NAME}/{NAME}?)(?:\.git)?"
_LARGE = (
    rf"/large-files/%s/(?P<segment>models|datasets)/(?P<name>{NAME}/{NAME})"
    "/(?P<sha256>[0-9a-f]{64})"
)
_REVISION = "(?P<revision>[^/]+)"

_ROUTES: list[tuple[str, re.Pattern[str], Callable[..., Answer]]] = [
    (method, re.compile(pattern, re.ASCII), function)
    for method, pattern, function in (
        ("GET", "/api/whoami-v2", reading.whoami),
        ("GET", "/api/(?P<segment>models|datasets)", reading.search),
        ("GET", _API, reading.info),
        ("GET", f"{_API}/revision/{_REVISION}", reading.info),
        ("GET", f"{_API}/tree/{_REVISION}(?:/(?P<path>.+))?", reading.tree),
        ("POST", f"{_API}/paths-info/{_REVISION}", reading.paths_info),
        ("GET", f"{_API}/refs", reading.refs),
        ("GET", f"{_API}/commits/{_REVISION}", reading.commits),
        ("GET", f"{_PAGE}/resolve/{_REVISION}/(?P<path>.+)", reading.resolve),
        ("POST", "/api/validate-yaml", writing.validate_yaml),
        ("POST", "/api/repos/create", writing.create),
        ("POST", f"{_API}/preupload/{_REVISION}", writing.preupload),
        ("POST", f"{_API}/commit/{_REVISION}", writing.commit),
        ("POST", f"{_API}/tag/{_REVISION}", writing.tag),
        ("POST", f"{_API}/branch/(?P<new>[^/]+)", writing.branch),
        ("POST", f"{_GIT}/info/lfs/objects/batch", transfers.batch),
        ("GET", f"{_LARGE % 'download'}/(?P<path>.+)", transfers.download),
        ("PUT", _LARGE % "upload", transfers.upload),
        ("POST", _LARGE % "verify", transfers.verify),
        ("GET", f"{_GIT}/info/refs", fetching.advertise),
        ("POST", f"{_GIT}/git-upload-pack", fetching.upload_pack),
    )
]


def answer(call: Call) -> Answer:
    """Answer a call, or misbehave as the active faults say."""
    try:
        if fault := call.faults.happens(Status, call.path):
            raise Refused(fault.code, "The local Hub simulates a fault.", code=fault.error_code)
        if away := call.faults.happens(Redirect, call.path):
            query = f"?{urlencode(call.query, doseq=True)}" if call.query else ""
            return Answer(away.code, headers={"Location": f"{away.to}{call.quoted}{query}"})
        if call.faults.happens(Gated, call.path):
            raise gated(call)
        if call.token is not None and not call.authorized:
            raise Refused(401, "Invalid credentials in Authorization header")
        return _find(call)()
    except Refused as refused:
        return refused.answer


def _find(call: Call) -> Callable[[], Answer]:
    method = "GET" if call.method == "HEAD" else call.method
    for route, pattern, function in _ROUTES:
        address = pattern.fullmatch(call.quoted)
        if address and route == method:
            return partial(function, call, **address.groupdict())
    raise Refused(404, f"A local Hub does not answer {call.method} {call.path}.")
