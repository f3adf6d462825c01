"""Local directories and files as sources."""

import hashlib
import re
from pathlib import Path

from envhub.errors import UsageError
from envhub.refs import PathRef
from envhub.types import FileSource


def locate(ref: PathRef) -> FileSource:
    """The file that a local reference means.

    Raises:
        UsageError: There is none.
    """
    path = Path(ref.path)
    try:
        return _locate(ref, path)
    except OSError as exc:
        raise UsageError(f"{ref} cannot be read: {exc.strerror or exc}.") from exc
    except UnicodeEncodeError as exc:
        problem = f"{ref} is at a path that is not UTF-8: {exc.object!a}. Rename its directory."
        raise UsageError(problem) from exc


def _locate(ref: PathRef, path: Path) -> FileSource:
    if path.is_dir():
        if not (path / "env.py").is_file():
            raise UsageError(f"{ref} has no env.py: name the file that makes its envs.")
        path /= "env.py"
    elif not path.exists():
        raise UsageError(f"{ref} does not exist.")
    elif path.suffix != ".py" or not path.is_file():
        raise UsageError(f"{ref} is not a Python file: name a .py file or a directory.")
    file = path.resolve(strict=True)
    with file.open("rb") as opened:  # readable: said here rather than by a worker
        opened.read(1)
    plain = file.parent.name if file.stem == "env" else file.stem
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", plain).lstrip("._+-")[:200] or "local"
    digest = hashlib.sha256(str(file.parent).encode()).hexdigest()[:16]
    return FileSource(str(file.parent), file.name, f"envhub_local_{digest}", name)
