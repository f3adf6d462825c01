"""Check access, and make the answers for missing repositories, revisions and files."""

from urllib.parse import unquote

from envhub_localhub.faults import OtherCommit
from envhub_localhub.git import is_commit
from envhub_localhub.messages import Call, Refused
from envhub_localhub.store import Kind, Stored

# Git asks for a name and password only where a server names a realm.
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="LocalHub", charset="UTF-8"'}


def find(call: Call, segment: str | None, name: str) -> Stored:
    """Return the repository that an address names.

    Args:
        call: The request.
        segment: `datasets`, or anything else for a model.
        name: The repository's full name.

    Raises:
        Refused: The repository does not exist, or is private: a Hub does not say which.
    """
    kind: Kind = "dataset" if segment == "datasets" else "model"
    stored = call.store.find(name, kind)
    if stored is None or (stored.private and not call.authorized):
        if call.authorized:
            raise Refused(404, "Repository not found", code="RepoNotFound")
        message = "Invalid username or password."
        raise Refused(401, message, code="RepoNotFound", headers=_CHALLENGE)
    return stored


def require_token(call: Call) -> None:
    """Refuse a request without the token."""
    if not call.authorized:
        raise Refused(401, "Invalid username or password.", headers=_CHALLENGE)


def require_content(call: Call, stored: Stored) -> None:
    """Refuse the content of a gated repository to a request without the token."""
    if stored.gated and not call.authorized:
        raise gated(call)


def gated(call: Call) -> Refused:
    """Return the refusal of gated content."""
    if call.authorized:
        return Refused(403, "Access is restricted and you are not in the authorized list.",
                       code="GatedRepo")  # fmt: skip
    message = "Access is restricted. You must have access to it and be authenticated."
    return Refused(401, message, code="GatedRepo", headers=_CHALLENGE)


def commit_of(call: Call, stored: Stored, quoted: str) -> str:
    """Return the commit that a revision in an address means.

    Raises:
        Refused: The revision does not exist.
    """
    revision = unquote(quoted)
    commit = stored.repository.commit_of(revision)
    if commit is None:
        raise Refused(404, f"Invalid rev id: {revision}", code="RevisionNotFound")
    if is_commit(revision):
        return next((lie.commit for lie in call.faults.lies(OtherCommit)), commit)
    return commit


def no_entry(commit: str) -> Refused:
    """Return the refusal of a path that a commit does not have."""
    headers = {"X-Repo-Commit": commit}
    return Refused(404, "Entry not found", code="EntryNotFound", headers=headers)
