"""What an index says of packages, asked over loopback; nothing else is asked."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from support.attacks import envhub as command
from support.json_index import JsonIndex, serving_json
from support.wheels import make_wheel, serving, stand_ins

from envhub.runtime.index import describe_packages
from envhub.runtime.pins import parse_pins

OLD = "2020-01-02T03:04:05.678901Z"
NEW = (datetime.now(UTC) - timedelta(days=8)).isoformat()
PAGE = "https://example.invalid/gadget"
ABOUT = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"


@pytest.fixture
def index(tmp_path, only_index, monkeypatch):
    """An index with an old package that has a page, and a new one that has none."""
    place = tmp_path / "index"
    pins = []
    for name, version, more in (
        ("gadget", "1.0", ""),
        ("gadget", "2.0", f"Project-URL: Docs, https://example.invalid\nHome-page: {PAGE}\n"),
        ("mimic", "1.0", ""),
    ):
        about = ABOUT.format(name=name, version=version, more=more)
        files = {f"{name}-{version}.dist-info/METADATA": about}
        pins.append(make_wheel(place, name, version, files))
    only_index(place)
    uploaded = {
        "gadget-1.0-py3-none-any.whl": OLD,
        "gadget-2.0-py3-none-any.whl": NEW,
        "mimic-1.0-py3-none-any.whl": NEW,
    }
    with serving_json(JsonIndex(place, uploaded)) as served:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{served.address}/simple")
        served.pins = parse_pins("\n".join(pins[1:]), "pins")
        yield served


def doubts(index) -> dict[str, tuple[str, ...]]:
    now = datetime.now(UTC)
    return {facts.name: facts.doubts(now) for facts in describe_packages(index.pins)}


def test_dates_and_pages(index):
    gadget, mimic = describe_packages(index.pins)
    assert gadget.first_upload == datetime.fromisoformat(OLD)
    assert (gadget.page, mimic.page) == (PAGE, "")
    assert doubts(index) == {"gadget": (), "mimic": ("younger than 90 days", "no project page")}


def test_a_date_that_is_missing_is_unknown(index):
    del index.uploaded["gadget-1.0-py3-none-any.whl"]
    assert describe_packages(index.pins)[0].first_upload is None


def test_no_other_server_is_asked(index, tmp_path):
    """Neither for files that an index has elsewhere, nor after a redirect."""
    with serving_json(JsonIndex(index.place)) as other:
        index.files_at = other.address
        assert [facts.page for facts in describe_packages(index.pins)] == [None, None]
        index.redirect = other.address
        facts = describe_packages(index.pins)
        assert [(f.first_upload, f.page) for f in facts] == [(None, None)] * 2
        assert other.asked == []
    assert index.asked != []


def test_the_index_that_has_the_pinned_file_counts(index, monkeypatch, tmp_path):
    """Another one, which is asked first, has something else of the same name."""
    make_wheel(tmp_path / "other", "gadget", "2.0", {"more.py": ""})
    uploaded = {"gadget-2.0-py3-none-any.whl": NEW}
    with serving_json(JsonIndex(tmp_path / "other", uploaded)) as other:
        monkeypatch.setenv("UV_INDEX", f"{other.address}/simple")
        assert describe_packages(index.pins)[0].first_upload == datetime.fromisoformat(OLD)


@pytest.mark.parametrize("how", ["html", "closed", "disk"])
def test_an_index_that_cannot_be_asked(index, how, monkeypatch):
    def unknown() -> bool:
        facts = describe_packages(index.pins)
        return all(f.first_upload is None and f.page is None for f in facts)

    match how:
        case "html":
            with serving(index.place) as address:
                monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
                assert unknown()
        case "closed":
            monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
            assert unknown()
        case "disk":
            monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.place.as_uri()}/simple")
            assert unknown()


ENV = "# /// script\n# dependencies = ['mimic', 'gadget']\n# ///\n"


def test_commands_list_what_would_be_installed(index, local_hub, monkeypatch, tmp_path):
    stand_ins(index.place)
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    local_hub.create("me/mimics")
    ref = f"me/mimics@{local_hub.commit('me/mimics', {'env.py': ENV})}"
    # What workers need has neither dates nor pages in this index.
    mimic = f"first upload {NEW[:10]}  project none  <- younger than 90 days, no project page\n"
    gadget = f"first upload 2020-01-02  project {PAGE}\n"
    for words in (("info", ref), ("trust", ref), ("lock", ref)):
        done = command(*words)
        assert mimic in done.stdout, done.stderr
        assert gadget in done.stdout
        assert done.stdout.index("mimic==1.0") < done.stdout.index("gadget==2.0")
        [named] = re.findall("Check that you know (.*): a name on an index", done.stdout)
        assert "mimic" in named.split(", ")
        assert "gadget" not in named
    told = json.loads(command("info", ref, "--json").stdout)["installs"]
    by_name = {package["name"]: package for package in told}
    assert by_name["mimic"]["doubts"] == ["younger than 90 days", "no project page"]
    assert (by_name["gadget"]["page"], by_name["gadget"]["doubts"]) == (PAGE, [])
    assert by_name["numpy"]["first_upload"] is None
    locked = json.loads((tmp_path / "envhub.lock").read_text())["sources"]["me/mimics"]
    pins = locked["requirements"]["pins"]
    assert all("--hash=sha256:" in pin for pin in pins)
    assert any(pin.startswith("mimic==1.0 ") for pin in pins)


def test_packages_that_cannot_be_found_are_told_and_hide_nothing(
    index, local_hub, monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    local_hub.create("me/absent")
    ref = f"me/absent@{local_hub.commit('me/absent', {'env.py': ENV.replace('mimic', 'absent')})}"
    done = command("info", ref)
    assert done.returncode == 0, done.stderr
    assert "installs    unknown: The runtime of absent cannot be built: " in done.stdout
    assert "requires    absent, gadget" in done.stdout
