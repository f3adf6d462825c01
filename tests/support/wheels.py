"""A package index on disk: tiny wheels, and wheels made of what is installed here."""

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread

NEEDED = (
    "cloudpickle", "farama-notifications", "gymnasium", "msgspec", "numpy", "pluggy",
    "typing-extensions",
)  # fmt: skip
"""What a worker needs, with what that needs in turn."""


def make_wheel(
    index: Path, name: str, version: str, files: dict[str, str] | None = None, requires=()
) -> str:
    """Add a pure wheel to an index; returns its pin."""
    plain = name.replace("-", "_")
    about = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    about += [f"Requires-Dist: {one}" for one in requires]
    content = {
        plain + ".py" if "-" not in name else plain + "/__init__.py": f"VERSION = {version!r}\n",
        f"{plain}-{version}.dist-info/METADATA": "\n".join(about) + "\n",
        f"{plain}-{version}.dist-info/WHEEL": _wheel("py3-none-any", pure=True),
    }
    encoded = {path: text.encode() for path, text in {**content, **(files or {})}.items()}
    path = _write(index, f"{plain}-{version}-py3-none-any.whl", encoded, f"{plain}-{version}")
    return pin(path)


_BACKEND = """
import zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    stem = "{name}-{version}"
    with zipfile.ZipFile(f"{{directory}}/{{stem}}-py3-none-any.whl", "w") as archive:
        archive.write("{name}.py")
        archive.write("PKG-INFO", f"{{stem}}.dist-info/METADATA")
        archive.writestr(f"{{stem}}.dist-info/WHEEL", {wheel!r})
        archive.writestr(f"{{stem}}.dist-info/RECORD", "")
    return f"{{stem}}-py3-none-any.whl"
"""


def make_sdist(index: Path, name: str, version: str) -> str:
    """Add a package that has no wheel and builds itself; returns its pin."""
    wheel = _wheel("py3-none-any", pure=True)
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "backend.py": _BACKEND.format(name=name, version=version, wheel=wheel),
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
        'backend-path = ["."]\n',
    }
    path = index / "files" / f"{name}-{version}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            member = tarfile.TarInfo(f"{name}-{version}/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    _list(index, name)
    return pin(path)


def repack(index: Path, name: str) -> str:
    """Add what is installed here to an index, as a wheel again, without its own tests."""
    distribution = metadata.distribution(name)
    about = distribution.read_text("WHEEL") or ""
    tag = next(line[5:] for line in about.splitlines() if line.startswith("Tag: "))
    plain = distribution.metadata["Name"].replace("-", "_")
    stem = f"{plain}-{distribution.version}"
    content = {
        str(file): Path(file.locate()).read_bytes()
        for file in distribution.files or ()
        if not {"..", "__pycache__", "tests"} & set(file.parts)
        and file.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    }
    folder = next(part.partition("/")[0] for part in content if ".dist-info/" in part)
    renamed = {path.replace(folder, f"{stem}.dist-info", 1): c for path, c in content.items()}
    return pin(_write(index, f"{stem}-{tag}.whl", renamed, stem))


def stand_ins(index: Path) -> list[str]:
    """Empty packages for what a worker needs: enough for building, not for running."""
    versions = {name: metadata.version(name) for name in NEEDED}
    return [make_wheel(index, name, version) for name, version in versions.items()]


@contextmanager
def serving(index: Path) -> Iterator[str]:
    """Serve an index on loopback; its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    handler = partial(Quiet, directory=str(index))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def pin(path: Path) -> str:
    """The line that pins a file of an index."""
    name, version = path.name.removesuffix(".tar.gz").split("-")[:2]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name.replace('_', '-').lower()}=={version} --hash=sha256:{digest}"


def _wheel(tag: str, *, pure: bool) -> str:
    purity = str(pure).lower()
    return f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {purity}\nTag: {tag}\n"


def _write(index: Path, name: str, content: dict[str, bytes], stem: str) -> Path:
    path = index / "files" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    record = "".join(f"{file},{_digest(data)},{len(data)}\n" for file, data in content.items())
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in content.items():
            archive.writestr(file, data)
        archive.writestr(f"{stem}.dist-info/RECORD", f"{record}{stem}.dist-info/RECORD,,\n")
    _list(index, stem.rpartition("-")[0])
    return path


def _list(index: Path, name: str) -> None:
    """Write the pages of an index, as PEP 503 has them."""
    normal = name.replace("_", "-").lower()
    links = [
        f'<a href="../../files/{path.name}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}">'
        f"{path.name}</a><br>"
        for path in sorted((index / "files").iterdir())
        if path.name.split("-")[0].replace("_", "-").lower() == normal
    ]
    page = index / "simple" / normal / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
