"""A package index on loopback that answers in JSON, as PEP 691, 658 and 700 have it."""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass
class JsonIndex:
    """What the server does, and what it was asked for."""

    place: Path
    """The index on disk, as `wheels` writes it."""
    uploaded: dict[str, str] = field(default_factory=dict)
    """The time of the upload of a file, by its name; the others have none."""
    files_at: str = ""
    """The server that the files are said to be on; "": this one."""
    address: str = ""
    asked: list[str] = field(default_factory=list)
    redirect: str = ""
    """Where every page of a package leads to, instead of an answer."""


@contextmanager
def serving_json(index: JsonIndex) -> Iterator[JsonIndex]:
    """Serve an index."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            if self.path.startswith("/simple/") and index.redirect:
                self.send_response(302)
                self.send_header("Location", index.redirect + self.path)
                self.end_headers()
                return
            found = _answer(index, self.path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", JSON if self.path.endswith("/") else "text/plain")
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()


def _answer(index: JsonIndex, path: str) -> bytes | None:
    parts = path.strip("/").split("/")
    if parts[0] == "simple":
        return _page(index, parts[1])
    file = index.place / "files" / parts[-1].removesuffix(".metadata")
    if parts[0] != "files" or not file.is_file():
        return None
    return _metadata(file) if path.endswith(".metadata") else file.read_bytes()


def _page(index: JsonIndex, name: str) -> bytes | None:
    files = [
        {
            "filename": file.name,
            "url": f"{index.files_at or index.address}/files/{file.name}",
            "hashes": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
            "core-metadata": {"sha256": hashlib.sha256(_metadata(file)).hexdigest()},
            **({"upload-time": index.uploaded[file.name]} if file.name in index.uploaded else {}),
        }
        for file in sorted((index.place / "files").glob("*.whl"))
        if file.name.split("-")[0].replace("_", "-").lower() == name
    ]
    if not files:
        return None
    return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": files}).encode()


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        [name] = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return archive.read(name)
