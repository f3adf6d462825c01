"""The client of the Hugging Face Hub. The only module that imports `huggingface_hub`."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from envhub.errors import HubUnreachable, SourceUnavailable

TAG = "envhub"
"""The tag of repositories that hold a benchmark."""
_PUBLIC_HUB = "https://huggingface.co"
_TIMEOUT = 10.0
"""Seconds that the Hub may be silent."""
_MAX_ENTRIES = 50_000
"""Entries of a listing that are read, so that no Hub can fill the memory."""
_FILE_ERRORS = frozenset(
    (errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EPERM, errno.EROFS)
)
"""Errors of the files that the client writes, not of the network."""
_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "requests", "urllib3", "huggingface_hub"})
"""Packages whose exceptions mean that the Hub was not reached."""


class _Large(msgspec.Struct):
    oid: str


class _Entry(msgspec.Struct):
    """An entry of a tree, as the Hub's API returns it."""

    type: str
    path: str
    oid: str
    size: int = 0
    lfs: _Large | None = None


class _Model(msgspec.Struct, rename="camel"):
    """A search result, as the Hub's API returns it."""

    id: str
    sha: str | None = None
    last_modified: str | None = None
    downloads: int = 0
    tags: tuple[str, ...] = ()


_Item = TypeVar("_Item", _Entry, _Model)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the Hub lists it."""

    path: str
    size: int
    blob_id: str
    large_sha256: str | None
    """The hash of the content, if the file is in large-file storage."""


@dataclass(frozen=True, slots=True)
class Found:
    """A repository that a search found."""

    repo: str
    commit: str | None
    updated: str | None
    downloads: int
    tags: tuple[str, ...]


def endpoint() -> str:
    """Return the address of the Hub: `HF_ENDPOINT`, or the public Hub."""
    return (os.environ.get("HF_ENDPOINT") or _PUBLIC_HUB).rstrip("/")


class Hub:
    """A Hub. Requests carry no token unless the user wants a private repository."""

    def __init__(self, *, private: bool = False) -> None:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        from huggingface_hub import HfApi

        self.endpoint = endpoint()
        self._token = None if private else False
        self._api = HfApi(endpoint=self.endpoint, token=self._token)

    def token(self) -> str | None:
        """Return the user's token, if the user wants it to be sent."""
        if self._token is False:
            return None
        from huggingface_hub import get_token

        return get_token()

    def resolve(self, repo: str, revision: str | None) -> str:
        """Return the commit that a revision currently means.

        Raises:
            SourceUnavailable: The revision is not available; says why and what to do.
        """
        with self._asking(f"{repo}@{revision or 'main'}"):
            info = self._api.repo_info(repo, revision=revision, timeout=_TIMEOUT)
        return str(info.sha)

    def listing(self, repo: str, commit: str) -> list[Listed]:
        """Return the files of a commit, as the Hub lists them."""
        with self._asking(f"{repo}@{commit}"):
            entries = self._list(f"models/{repo}/tree/{commit}", _Entry, recursive="true")
        return [
            Listed(entry.path, entry.size, entry.oid, entry.lfs.oid if entry.lfs else None)
            for entry in entries
            if entry.type == "file"
        ]

    def download(self, repo: str, commit: str, path: str, into: Path) -> Path:
        """Download one file into a directory that nobody else uses; return its path there."""
        from huggingface_hub import hf_hub_download

        with self._asking(f"{path} of {repo}@{commit}"):
            downloaded = hf_hub_download(
                repo,
                path,
                revision=commit,
                cache_dir=into,
                token=self._token,
                endpoint=self.endpoint,
            )
        return Path(downloaded)

    def search(self, words: str, limit: int) -> list[Found]:
        """Return the metadata of repositories with the tag `envhub`."""
        query: dict[str, Any] = {
            "filter": TAG,
            "limit": limit,
            "expand": ["sha", "lastModified", "downloads", "tags"],
        }
        if words:
            query["search"] = words
        with self._asking("The search"):
            models = self._list("models", _Model, limit, **query)
        return [
            Found(model.id, model.sha, model.last_modified, model.downloads, model.tags)
            for model in models
        ]

    def _list(
        self, path: str, item: type[_Item], most: int = _MAX_ENTRIES, **parameters: Any
    ) -> list[_Item]:
        """Read all pages of a listing of the Hub's API.

        The client's own listings retry for minutes, or wait forever, if there is no answer.
        """
        from huggingface_hub import get_session, hf_raise_for_status
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        items: list[_Item] = []
        headers = build_hf_headers(token=self._token)
        url, query = f"{self.endpoint}/api/{path}", parameters or None
        while url and len(items) < most:
            if not url.startswith(f"{self.endpoint}/"):  # only this Hub may get the token
                raise OSError(f"the next page is at {url}")
            answer = get_session().get(url, params=query, headers=headers, timeout=_TIMEOUT)
            hf_raise_for_status(answer)
            items += msgspec.json.decode(answer.content, type=list[item])  # type: ignore[valid-type]
            url, query = answer.links.get("next", {}).get("url", ""), None  # it has its own query
        return items[:most]

    def publish(self, repo: str, directory: Path, *, private: bool, ignore: list[str]) -> str:
        """Upload a directory as a model repository; return the new commit."""
        from huggingface_hub.errors import RepositoryNotFoundError

        with self._asking(repo):
            with suppress(RepositoryNotFoundError):  # first, because this request has a timeout
                self._api.repo_info(repo, timeout=_TIMEOUT)
            self._api.create_repo(repo, private=private, exist_ok=True)
            done: Any = self._api.upload_folder(
                repo_id=repo,
                folder_path=directory,
                ignore_patterns=ignore,
                commit_message="Publish with envhub",
            )
        return str(done.oid)

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
        except msgspec.DecodeError as exc:
            problem = f"got an answer that is not from a Hub: {exc}"
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


def _is_transport_error(exc: Exception) -> bool:
    """Whether an exception means that the Hub was not reached.

    The client's HTTP library changed with 1.0 and with 2.0, and 1.6 raises a RuntimeError when the
    server is down.
    """
    if isinstance(exc, OSError):
        return exc.errno not in _FILE_ERRORS
    return isinstance(exc, RuntimeError) or type(exc).__module__.partition(".")[0] in _TRANSPORT
