"""The Hugging Face Hub. The only importer of `huggingface_hub`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.errors import SourceUnavailable

_PUBLIC = "https://huggingface.co"
TAG = "envhub"
"""The tag of repositories that hold a benchmark."""


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
            info = self._api.repo_info(repo, revision=revision, timeout=10.0)
        return str(info.sha)

    def listing(self, repo: str, commit: str) -> list[Listed]:
        """The files of a commit, as the Hub lists them."""
        from huggingface_hub.hf_api import RepoFile

        with self._asking(f"{repo}@{commit}"):
            entries = list(self._api.list_repo_tree(repo, recursive=True, revision=commit))
        return [
            Listed(e.path, e.size, e.blob_id, e.lfs.sha256 if e.lfs else None)
            for e in entries
            if isinstance(e, RepoFile)
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
        with self._asking("the search"):
            found = list(self._api.list_models(filter=TAG, search=words or None, limit=limit))
        return [
            Found(
                repo=model.id,
                commit=model.sha,
                updated=model.last_modified.isoformat() if model.last_modified else None,
                downloads=model.downloads or 0,
                tags=tuple(model.tags or ()),
            )
            for model in found
        ]

    def publish(self, repo: str, directory: Path, *, private: bool, ignore: list[str]) -> str:
        """Upload a directory as a model repository; the commit that came of it."""
        with self._asking(repo):
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
            raise self._failed(
                what, "is gated", "Ask for access on its page, then log in and use --private."
            ) from exc
        except errors.RepositoryNotFoundError as exc:
            raise self._failed(
                what,
                "is not there, or is private",
                "Check its name; for a private one log in with `hf auth login` and use --private.",
            ) from exc
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
            raise self._failed(what, *_STATUS.get(status or 0, _other(status))) from exc
        except errors.HFValidationError as exc:
            raise self._failed(what, "is no name that the Hub knows", str(exc)) from exc
        except Exception as exc:
            # The client's own transport errors: its HTTP library changed with 1.0 and with 2.0,
            # and 1.6 raises a RuntimeError when the server is down.
            if type(exc).__module__.partition(".")[0] not in _TRANSPORT and not isinstance(
                exc, OSError | RuntimeError
            ):
                raise
            problem = f"could not be asked for ({type(exc).__name__})"
            advice = "Check the network, and HF_ENDPOINT if it is set."
            if os.environ.get("HF_HUB_OFFLINE"):
                problem, advice = "was not asked for", "HF_HUB_OFFLINE is set: unset it to fetch."
            raise self._failed(what, problem, advice) from exc

    def _failed(self, what: str, problem: str, advice: str) -> SourceUnavailable:
        return SourceUnavailable(f"{what} {problem} at {self.endpoint}. {advice}")


_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "requests", "urllib3", "huggingface_hub"})
_STATUS = {
    401: ("needs a login", "Log in with `hf auth login` and use --private."),
    403: ("is forbidden", "Ask its owner for access, then use --private."),
    429: ("was asked for too often", "Wait a few minutes, or log in and use --private."),
}


def _other(status: int | None) -> tuple[str, str]:
    if status is not None and status >= 500:
        return f"met an error of the Hub (HTTP {status})", "Try again in a few minutes."
    return f"was refused (HTTP {status})", "Check the reference on the Hub's page."
