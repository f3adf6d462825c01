"""The Hugging Face Hub. The only importer of `huggingface_hub`."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from envhub.errors import HubUnreachable, SourceUnavailable

_PUBLIC = "https://huggingface.co"

TAG = "envhub"
"""The tag of repositories that hold a benchmark."""

_TIMEOUT = 10.0
"""Seconds that the Hub may be silent."""

_MOST = 50_000
"""Entries of a listing: no Hub can fill the memory."""


class _Large(msgspec.Struct):
    oid: str


class _Entry(msgspec.Struct):
    """Of a tree, as the Hub's API tells it."""

    type: str
    path: str
    oid: str
    size: int = 0
    lfs: _Large | None = None


class _Model(msgspec.Struct, rename="camel"):
    """Of a search, as the Hub's API tells it."""

    id: str
    sha: str | None = None
    last_modified: str | None = None
    downloads: int = 0
    tags: tuple[str, ...] = ()


_Told = TypeVar("_Told", _Entry, _Model)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the Hub lists it."""

    path: str
    size: int
    blob_id: str
    large_sha256: str | None
    """The hash of its content, if it is in large-file storage."""


@dataclass(frozen=True, slots=True)
class Found:
    """A repository that a search found."""

    repo: str
    commit: str | None
    updated: str | None
    downloads: int
    tags: tuple[str, ...]


def endpoint() -> str:
    """The Hub that is asked: `HF_ENDPOINT`, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or _PUBLIC).rstrip("/")


class Hub:
    """A Hub, asked without a token unless the user wants a private repository."""

    def __init__(self, *, private: bool = False) -> None:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        from huggingface_hub import HfApi

        self.endpoint = endpoint()
        self._token = None if private else False
        self._api = HfApi(endpoint=self.endpoint, token=self._token)

    def token(self) -> str | None:
        """The user's token, if they want it to be used."""
        if self._token is False:
            return None
        from huggingface_hub import get_token

        return get_token()

    def resolve(self, repo: str, revision: str | None) -> str:
        """The commit that a revision is now.

        Raises:
            SourceUnavailable: It cannot be had; says why and what to do.
        """
        with self._asking(f"{repo}@{revision or 'main'}"):
            info = self._api.repo_info(repo, revision=revision, timeout=_TIMEOUT)
        return str(info.sha)

    def listing(self, repo: str, commit: str) -> list[Listed]:
        """The files of a commit, as the Hub lists them."""
        with self._asking(f"{repo}@{commit}"):
            entries = self._listed(f"models/{repo}/tree/{commit}", _Entry, recursive="true")
        return [
            Listed(e.path, e.size, e.oid, e.lfs.oid if e.lfs else None)
            for e in entries
            if e.type == "file"
        ]

    def download(self, repo: str, commit: str, path: str, into: Path) -> Path:
        """One file, below a directory that nobody else uses."""
        from huggingface_hub import hf_hub_download

        with self._asking(f"{path} of {repo}@{commit}"):
            found = hf_hub_download(
                repo,
                path,
                revision=commit,
                cache_dir=into,
                token=self._token,
                endpoint=self.endpoint,
            )
        return Path(found)

    def search(self, words: str, limit: int) -> list[Found]:
        """Repositories with the tag `envhub`; metadata only."""
        wanted = {
            "filter": TAG,
            "limit": limit,
            "expand": ["sha", "lastModified", "downloads", "tags"],
        }
        if words:
            wanted["search"] = words
        with self._asking("the search"):
            found = self._listed("models", _Model, most=limit, **wanted)
        return [
            Found(model.id, model.sha, model.last_modified, model.downloads, model.tags)
            for model in found
        ]

    def _listed(
        self, path: str, kind: type[_Told], most: int = _MOST, **parameters: Any
    ) -> list[_Told]:
        """What the Hub's API lists, from as many pages as it has.

        The client's own listings try again for minutes, or wait for ever, if there is no answer.
        """
        from huggingface_hub import get_session, hf_raise_for_status
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        told: list[_Told] = []
        headers = build_hf_headers(token=self._token)
        url, query = f"{self.endpoint}/api/{path}", parameters or None
        while url and len(told) < most:
            if not url.startswith(f"{self.endpoint}/"):  # the token is not for others
                raise OSError(f"it goes on at {url}")
            answer = get_session().get(url, params=query, headers=headers, timeout=_TIMEOUT)
            hf_raise_for_status(answer)
            told += msgspec.json.decode(answer.content, type=list[kind])  # type: ignore[valid-type]
            url, query = answer.links.get("next", {}).get("url", ""), None  # it has its own
        return told[:most]

    def publish(self, repo: str, directory: Path, *, private: bool, ignore: list[str]) -> str:
        """Upload a directory as a model repository; the commit that came of it."""
        from huggingface_hub.errors import RepositoryNotFoundError

        with self._asking(repo):
            with suppress(RepositoryNotFoundError):  # asked first, because this ends in any case
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
    def _asking(self, what: str) -> Iterator[None]:
        """Turn every way in which a request can fail into one sentence and the next step."""
        from huggingface_hub import errors

        try:
            yield
        except errors.GatedRepoError as exc:
            advice = f"Ask for access on its page, then {self._log_in()}."
            raise self._failed(what, "is gated", advice) from exc
        except errors.RepositoryNotFoundError as exc:
            advice = f"Check its name; for a private one {self._log_in()}."
            raise self._failed(what, "is not there, or is private", advice) from exc
        except errors.RevisionNotFoundError as exc:
            raise self._failed(
                what, "is a revision that is not there", "Check the commit on its page."
            ) from exc
        except errors.EntryNotFoundError as exc:
            raise self._failed(what, "is not there", "Check the path after the colon.") from exc
        except errors.LocalTokenNotFoundError as exc:
            raise self._failed(
                what, "needs a token, and there is none", "Log in with `hf auth login`."
            ) from exc
        except errors.HfHubHTTPError as exc:
            status = getattr(getattr(exc, "response", None), "status_code", None)
            raise self._failed(what, *self._status(status or 0)) from exc
        except errors.HFValidationError as exc:
            raise self._failed(what, "is no name that the Hub knows", str(exc)) from exc
        except msgspec.DecodeError as exc:
            advice = "Check HF_ENDPOINT if it is set."
            raise self._failed(what, f"got no answer of a Hub ({exc})", advice) from exc
        except Exception as exc:
            if not _of_transport(exc):
                raise
            problem = f"could not be asked for ({type(exc).__name__})"
            advice = "Check the network, and HF_ENDPOINT if it is set."
            if os.environ.get("HF_HUB_OFFLINE"):
                problem, advice = "was not asked for", "HF_HUB_OFFLINE is set: unset it to fetch."
            raise HubUnreachable(f"{what} {problem} at {self.endpoint}. {advice}") from exc

    def _log_in(self) -> str:
        return "log in with `hf auth login`" + (
            " and use --private" if self._token is False else ""
        )

    def _status(self, status: int) -> tuple[str, str]:
        """What an HTTP status means, and what to do."""
        match status:
            case 401:
                return "needs a login", f"Please {self._log_in()}."
            case 403:
                return "is forbidden", f"Ask its owner for access, then {self._log_in()}."
            case 429:
                advice = "Wait a few minutes"
                more = f", or {self._log_in()}" if self._token is False else ""
                return "was asked for too often", f"{advice}{more}."
            case _ if status >= 500:
                return f"met an error of the Hub (HTTP {status})", "Try again in a few minutes."
            case _:
                return f"was refused (HTTP {status})", "Check the reference on the Hub's page."

    def _failed(self, what: str, problem: str, advice: str) -> SourceUnavailable:
        return SourceUnavailable(f"{what} {problem} at {self.endpoint}. {advice}")


_OF_FILES = frozenset(
    (errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EPERM, errno.EROFS)
)
"""Errors of what the client writes, not of the network."""

_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "requests", "urllib3", "huggingface_hub"})


def _of_transport(exc: Exception) -> bool:
    """Whether it means that the Hub was not reached.

    The client's HTTP library changed with 1.0 and with 2.0, and 1.6 raises a RuntimeError when the
    server is down.
    """
    if isinstance(exc, OSError):
        return exc.errno not in _OF_FILES
    return isinstance(exc, RuntimeError) or type(exc).__module__.partition(".")[0] in _TRANSPORT
