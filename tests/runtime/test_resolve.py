"""From requirements to pins, with real uv and an index of our own."""

import http.server
import os
import threading
from pathlib import Path

import pytest
from support.wheels import make_sdist, make_wheel, stand_ins

from envhub.errors import ExitCode, RuntimeUnavailable
from envhub.runtime.resolve import forget, resolve
from envhub.sources.requirements import Requirements

LINE = "envhub runtime build ./x"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """What workers need is empty here: nothing is run."""
    place = tmp_path_factory.mktemp("small")
    stand_ins(place)
    make_wheel(place, "gadget", "1.0")
    make_wheel(place, "gadget", "2.0")
    make_wheel(place, "widget", "1.0", requires=["gadget<2"])
    make_sdist(place, "rawthing", "1.0")
    return place


@pytest.fixture(autouse=True)
def _home(index, only_index, monkeypatch, tmp_path):
    only_index(index)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))


def names(*packages: str) -> dict[str, str]:
    pins = resolve(Requirements(packages=packages), name="x", line=LINE)
    assert all(pin.hashes for pin in pins.pins)
    return {pin.name: pin.version for pin in pins.pins}


def fails(*packages: str) -> RuntimeUnavailable:
    with pytest.raises(RuntimeUnavailable) as caught:
        names(*packages)
    assert caught.value.exit_code == ExitCode.RUNTIME
    return caught.value


def test_what_a_worker_needs_is_always_there():
    assert {"gymnasium", "msgspec", "numpy", "pluggy"} == set(names())
    assert names("gadget")["gadget"] == "2.0"
    found = names("widget", "envhub-core")
    assert (found["widget"], found["gadget"]) == ("1.0", "1.0")
    assert "envhub-core" not in found


def test_what_was_resolved_stays_so(monkeypatch, tmp_path, index):
    before = resolve(Requirements(packages=("gadget",)), name="x", line=LINE)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    assert resolve(Requirements(packages=("gadget",)), name="x", line=LINE) == before
    forget(before.here().digest)
    assert "no package index could be reached" in str(fails("gadget"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.as_uri()}/simple")
    assert resolve(Requirements(packages=("gadget",)), name="x", line=LINE) == before
    (kept,) = (tmp_path / "home/resolved").glob("*.txt")
    kept.write_text("damaged")
    forget(before.here().digest)
    assert resolve(Requirements(packages=("gadget",)), name="x", line=LINE) == before


@pytest.mark.parametrize(
    ("packages", "requirement", "said"),
    [
        (("absent-thing>=3",), "absent-thing>=3", "absent-thing was not found"),
        (("gadget>7",), "gadget>7", "gadget"),
        (("widget", "gadget==2.0"), "gadget==2.0", "gadget<2"),
        (("rawthing",), "rawthing", "no usable wheels"),
    ],
)
def test_what_cannot_be_had(packages, requirement, said):
    error = fails(*packages)
    assert error.requirement == requirement
    assert said in error.said
    assert str(error).startswith(f"The runtime of x cannot be built: {requirement}.\nuv said:\n  |")
    assert str(error).endswith(f"Correct the requirement, or your index settings, and run: {LINE}")


@pytest.mark.parametrize(
    "variables",
    [{"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple"}, {"UV_OFFLINE": "1", "UV_NO_CACHE": "1",
     "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple"}],
)  # fmt: skip
def test_without_a_network_it_says_what_to_type_when_there_is_one(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    error = fails("gadget")
    assert "is not built yet, and no package index could be reached" in str(error)
    assert str(error).endswith(f"When online, run: {LINE}")


def test_without_uv_it_says_what_to_install(monkeypatch, tmp_path):
    import uv

    monkeypatch.setattr(uv, "find_uv_bin", _raise)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert str(fails("gadget")) == (
        "Runtimes are built with uv, which is not installed. pip install uv"
    )


def _raise() -> str:
    raise FileNotFoundError


class _Recorder(http.server.SimpleHTTPRequestHandler):
    """An index, and a proxy for plain addresses."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        if self.path.startswith("http://"):
            self.path = "/" + self.path.split("/", 3)[3]
        super().do_GET()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server(index):
    def handler(*args: object) -> _Recorder:
        return _Recorder(*args, directory=str(index))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        found.seen = []
        found.address = f"http://127.0.0.1:{found.server_address[1]}"
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Nothing is known yet of any index."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_DEFAULT_INDEX")


def test_pips_index_with_its_password(server, fresh, monkeypatch):
    address = server.address.replace("http://", "http://me:secret@")
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
    assert names("gadget")["gadget"] == "2.0"
    assert any(path == "/simple/gadget/" for path, _ in server.seen)
    assert any(password for _, password in server.seen)


def test_uvs_configuration(server, fresh, tmp_path):
    path = Path(os.environ["HOME"], ".config/uv/uv.toml")
    path.parent.mkdir(parents=True)
    path.write_text(f'[[index]]\nurl = "{server.address}/simple"\ndefault = true\n')
    assert names("gadget")["gadget"] == "2.0"


def test_a_proxy(server, fresh, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://index.invalid/simple")
    monkeypatch.setenv("HTTP_PROXY", server.address)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert names("gadget")["gadget"] == "2.0"
    assert any(path == "http://index.invalid/simple/gadget/" for path, _ in server.seen)


def test_no_settings_of_the_current_directory(server, monkeypatch, tmp_path):
    """A benchmark's directory may be the current one: what it says of indexes is not heard."""
    foreign = f'[[index]]\nname = "x"\nurl = "{server.address}/simple"\ndefault = true\n'
    (tmp_path / "uv.toml").write_text(foreign)
    (tmp_path / "pyproject.toml").write_text(foreign.replace("[[index]]", "[[tool.uv.index]]"))
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path.parent / f"{tmp_path.name}-home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_NO_CACHE", "1")
    assert names("gadget")["gadget"] == "2.0"
    assert server.seen == []
