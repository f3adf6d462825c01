"""The client of the Hugging Face Hub. The only module that imports `huggingface_hub`."""

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from envhub.errors import HubUnreachable, SourceUnavailable, UsageError
from envhub.offline import is_offline
from envhub.process import EXHAUSTED
from envhub.sources import http
from envhub.sources.answers import Commit, Entry, Model, Refs, Revision
from envhub.sources.profiles import Repositories

TAG = "envhub"
"""The tag of repositories that hold a benchmark."""
_PUBLIC_HUB = "https://huggingface.co"
_MAX_ENTRIES = 50_000
"""Entries of a listing: more than any repository with a benchmark has, and little memory."""
_MAX_PAGES = 100
"""Pages of a listing: twice as many as so many entries need, since the Hub sends 1,000 at once."""
_LISTING_SECONDS = 300.0
"""For all pages of a listing; the Hub takes a second for each."""
_FILE_ERRORS = frozenset(
    (*EXHAUSTED, errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EPERM, errno.EROFS)
)
"""Errors of the files that the client writes, not of the network."""


_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:/[A-Za-z0-9._~/-]*)?"
)
"""An endpoint that every program reads in the same way: no user name, no backslash, no query."""


_Item = TypeVar("_Item", Entry, Model, Commit)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the Hub lists it."""

    path: str
    size: int
    blob_id: str
    large_sha256: str | None
    """The hash of the content, if the file is in large-file storage."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A repository that a search found."""

    repo: str
    commit: str | None
    updated: str | None
    downloads: int
    tags: tuple[str, ...]


def endpoint() -> str:
    """Return the address of the Hub: `HF_ENDPOINT`, or the public Hub.

    Raises:
        UsageError: The address is not one, or is not encrypted and not on this machine.
    """
    address = os.environ.get("HF_ENDPOINT") or _PUBLIC_HUB
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise UsageError(
            f"HF_ENDPOINT is {address!r}, which is not the address of a Hub. Set it to an address "
            f"such as {_PUBLIC_HUB}, or unset it."
        )
    if match["scheme"] == "http" and not http.is_loopback(urlsplit(address).hostname or ""):
        raise UsageError(
            f"HF_ENDPOINT is {address}, where everybody on the way can change what is sent. Set it "
            "to an https address; http is only for Hubs on this machine."
        )
    return address.rstrip("/")


class Hub:
    """A Hub. Requests carry no token unless the user wants a private repository."""

    def __init__(self, *, private: bool = False, repositories: Repositories = "models") -> None:
        """Prepare requests; nothing is asked yet.

        Args:
            private: Whether to send the user's token.
            repositories: The part of the Hub that is asked.

        Raises:
            HubUnreachable: The user says that there is no network.
        """
        if is_offline():
            raise HubUnreachable(
                "It is not on this machine, and --offline asks nothing of the Hub. Where there is "
                "a network, run `envhub fetch` with the same benchmark and policy."
            )
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        from huggingface_hub import HfApi

        self.endpoint = endpoint()
        self._repositories = repositories
        self._token = None if private else False
        self._api = HfApi(endpoint=self.endpoint, token=self._token)

    def token(self) -> str | None:
        """Return the user's token, if the user wants it to be sent."""
        if self._token is False:
            return None
        from huggingface_hub import get_token

        return get_token()

    def page(self, repo: str) -> str:
        """Return the address of a repository, where git finds it too."""
        inside = "datasets/" if self._repositories == "datasets" else ""
        return f"{self.endpoint}/{inside}{repo}"

    def resolve(self, repo: str, revision: str | None) -> str:
        """Return the commit that a revision currently means.

        Raises:
            SourceUnavailable: The revision is not available; says why and what to do.
        """
        at = f"/revision/{quote(revision, safe='')}" if revision else ""
        with self._asking(f"{repo}@{revision or 'main'}"):
            body, _ = self._get(f"{self.endpoint}/api/{self._repositories}/{repo}{at}", None)
            return msgspec.json.decode(body, type=Revision).sha

    def listing(self, repo: str, commit: str) -> list[HubFile]:
        """Return the files of a commit, as the Hub lists them."""
        with self._asking(f"{repo}@{commit}"):
            entries = self._list(
                f"{self._repositories}/{repo}/tree/{commit}", Entry, recursive="true"
            )
        return [
            HubFile(entry.path, entry.size, entry.oid, entry.lfs.oid if entry.lfs else None)
            for entry in entries
            if entry.type == "file"
        ]

    def is_on_branch(self, repo: str, commit: str) -> bool:
        """Whether a branch or tag of a repository leads to a commit, as the Hub lists them.

        Raises:
            SourceUnavailable: The Hub cannot be asked, or the history is too long.
        """
        with self._asking(f"The history of {repo}"):
            body, _ = self._get(f"{self.endpoint}/api/models/{repo}/refs", None)
            refs = msgspec.json.decode(body, type=Refs)
            heads = dict.fromkeys(ref.target_commit for ref in (*refs.branches, *refs.tags))
            try:
                return commit in heads or self._is_in_history(repo, commit, heads)
            except http.BadAnswer as exc:
                raise SourceUnavailable(
                    f"The history of {repo} {exc} ({self.endpoint}), so that nobody can tell "
                    f"whether one of its branches leads to {commit}. Install git, which can."
                ) from exc

    def _is_in_history(self, repo: str, commit: str, heads: Iterable[str]) -> bool:
        seen: set[str] = set()
        ends = time.monotonic() + _LISTING_SECONDS
        for head in heads:
            if head in seen:  # and with it everything that it leads to
                continue
            if time.monotonic() > ends:
                raise http.BadAnswer(f"did not end within {_LISTING_SECONDS:.0f} seconds")
            path = f"models/{repo}/commits/{head}"
            history = self._list(path, Commit, lambda past: commit in {each.id for each in past})
            seen |= {past.id for past in history}
            if commit in seen:
                return True
        return False

    def download(
        self,
        repo: str,
        commit: str,
        path: str,
        size: int,
        into: BinaryIO,
        on_bytes: Callable[[int], None],
    ) -> None:
        """Download one file.

        Args:
            repo: Its repository.
            commit: Its commit.
            path: Its path.
            size: The bytes that it should have.
            into: A file, at the end of what it has; the rest is requested. What the Hub says about
                names and places is not used.
            on_bytes: Receives the number of bytes so far; it may raise to end the download.
        """
        url = f"{self.page(repo)}/resolve/{commit}/{quote(path)}"
        with self._asking(f"{path} of {repo}@{commit}"):
            http.read_file(
                session(),
                url,
                self._headers(),
                into,
                size,
                check=_raise_for_status,
                on_bytes=on_bytes,
            )

    def search(self, words: str, limit: int) -> list[SearchHit]:
        """Return the metadata of repositories with the tag `envhub`."""
        query: dict[str, Any] = {
            "filter": TAG,
            "limit": limit,
            "expand": ["sha", "lastModified", "downloads", "tags"],
        }
        if words:
            query["search"] = words
        with self._asking("The search"):
            models = self._list("models", Model, lambda found: len(found) >= limit, **query)
        return [
            SearchHit(model.id, model.sha, model.last_modified, model.downloads, model.tags)
            for model in models[:limit]
        ]

    def _list(
        self,
        path: str,
        item: type[_Item],
        enough: Callable[[list[_Item]], bool] = lambda _: False,
        **parameters: Any,
    ) -> list[_Item]:
        """Read the pages of a listing of the Hub's API: all, or until the items are enough."""
        items: list[_Item] = []
        url, query = f"{self.endpoint}/api/{path}", parameters or None
        ends = time.monotonic() + _LISTING_SECONDS
        for _ in range(_MAX_PAGES):
            body, url = self._get(url, query)
            items += msgspec.json.decode(body, type=list[item])  # type: ignore[valid-type]
            if not url or enough(items):
                return items
            if len(items) > _MAX_ENTRIES:
                raise http.BadAnswer(f"lists more than {_MAX_ENTRIES:,} entries")
            if time.monotonic() > ends:
                raise http.BadAnswer(f"did not end within {_LISTING_SECONDS:.0f} seconds")
            if not url.startswith(f"{self.endpoint}/"):  # only this Hub may get the token
                raise http.BadAnswer(f"continues at {url}, which is another server")
            query = None  # the address of a page has its own
        raise http.BadAnswer(f"has more than {_MAX_PAGES} pages")

    def _get(self, url: str, query: dict[str, Any] | None) -> tuple[bytes, str]:
        """Return an answer of the Hub's API, and the address of the next page or "".

        The client's own functions retry for minutes, or wait forever, if there is no answer.
        """
        return http.read_answer(session(), url, query, self._headers(), _raise_for_status)

    def _headers(self) -> dict[str, str]:
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        return dict(build_hf_headers(token=self._token))

    def publish(self, repo: str, directory: Path, *, private: bool, ignore: list[str]) -> str:
        """Upload a directory as a model repository; return the new commit.

        Raises:
            UsageError: The repository exists and is public, although a private one is wanted.
        """
        with self._asking(repo):
            exists = self._exists(repo, private=private)
            # Without exist_ok nobody else's new repository, which may be public, is taken for it.
            if not exists:
                self._api.create_repo(repo, private=private)
            done: Any = self._api.upload_folder(
                repo_id=repo,
                folder_path=directory,
                ignore_patterns=ignore,
                commit_message="Publish with envhub",
            )
        return str(done.oid)

    def _exists(self, repo: str, *, private: bool) -> bool:
        """Whether a repository exists, and is private if it must be."""
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            about: Any = self._api.repo_info(repo, timeout=http.SILENCE)
        except RepositoryNotFoundError:
            return False
        if private and about.private is not True:
            raise UsageError(
                f"Nothing was uploaded: {repo} exists already and is public, so that --private "
                f"would not keep the files to yourself. Make it private at {self.endpoint}/{repo}"
                "/settings, choose another name, or leave out --private."
            )
        return True

    @contextmanager
    def _asking(self, subject: str) -> Iterator[None]:
        """Turn every failure of a request into one sentence about its subject, and advice."""
        from huggingface_hub import errors

        try:
            yield
        except errors.GatedRepoError as exc:
            advice = f"Ask for access on its page, then {self._log_in()}."
            raise self._failure(subject, "is gated", advice) from exc
        except errors.RepositoryNotFoundError as exc:
            advice = f"Check the name; for a private repository {self._log_in()}."
            raise self._failure(subject, "does not exist or is private", advice) from exc
        except errors.RevisionNotFoundError as exc:
            advice = "Check the revision on the repository's page."
            raise self._failure(subject, "does not exist: unknown revision", advice) from exc
        except errors.EntryNotFoundError as exc:
            advice = "Check the path after the colon."
            raise self._failure(subject, "does not exist", advice) from exc
        except errors.LocalTokenNotFoundError as exc:
            advice = "Log in with `hf auth login`."
            raise self._failure(
                subject, "needs a token, but you are not logged in", advice
            ) from exc
        except errors.HfHubHTTPError as exc:
            status = getattr(getattr(exc, "response", None), "status_code", None)
            raise self._failure(subject, *self._explain_status(status or 0)) from exc
        except errors.HFValidationError as exc:
            raise self._failure(subject, "is not a valid name on the Hub", str(exc)) from exc
        except (msgspec.DecodeError, http.BadAnswer) as exc:
            problem = "got an answer that is not from a Hub: "
            problem += f"it {exc}" if isinstance(exc, http.BadAnswer) else str(exc)
            raise self._failure(subject, problem, "Check HF_ENDPOINT if it is set.") from exc
        except Exception as exc:
            if not _is_transport_error(exc):
                raise
            problem = f"could not be requested: {type(exc).__name__}"
            advice = "Check the network, and HF_ENDPOINT if it is set."
            if os.environ.get("HF_HUB_OFFLINE"):
                problem, advice = "was not requested", "HF_HUB_OFFLINE is set: unset it to fetch."
            raise HubUnreachable(f"{subject} {problem} ({self.endpoint}). {advice}") from exc

    def _log_in(self) -> str:
        return "log in with `hf auth login`" + (
            " and use --private" if self._token is False else ""
        )

    def _explain_status(self, status: int) -> tuple[str, str]:
        """Return the problem that an HTTP status means, and advice."""
        match status:
            case 401:
                return "requires a login", f"Please {self._log_in()}."
            case 403:
                return "is forbidden", f"Ask its owner for access, then {self._log_in()}."
            case 429:
                advice = "Wait a few minutes"
                more = f", or {self._log_in()}" if self._token is False else ""
                return "was requested too often", f"{advice}{more}."
            case _ if status >= 500:
                return f"failed: the Hub answered HTTP {status}", "Try again in a few minutes."
            case _:
                return f"was refused: HTTP {status}", "Check the reference on the Hub's page."

    def _failure(self, subject: str, problem: str, advice: str) -> SourceUnavailable:
        return SourceUnavailable(f"{subject} {problem} ({self.endpoint}). {advice}")


def session() -> Any:
    """Return the HTTP client of the Hub's client, with the user's proxies and certificates."""
    from huggingface_hub import get_session

    return get_session()


def _raise_for_status(answer: Any) -> None:
    """Raise the client's exception for an answer that is an error.

    The client would read all of the body, and fail with one that it does not expect.
    """
    from huggingface_hub import hf_raise_for_status

    if answer.status_code < 400:
        return
    names = ("X-Error-Code", "X-Error-Message")
    headers = {name: answer.headers[name] for name in names if name in answer.headers}
    hf_raise_for_status(type(answer)(answer.status_code, headers=headers, request=answer.request))


def _is_transport_error(exc: Exception) -> bool:
    """Whether an exception means that the Hub was not reached.

    The client's HTTP library changed with 1.0 and with 2.0, and 1.6 raises a RuntimeError when the
    server is down.
    """
    if isinstance(exc, OSError):
        return exc.errno not in _FILE_ERRORS
    if isinstance(exc, RuntimeError) or http.is_connection_error(exc):
        return True
    return type(exc).__module__.partition(".")[0] == "huggingface_hub"
