"""The page: foreign text stays text, and a real browser shows it."""

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from support.forgery import save_arrays
from support.needs import needs_chromium

from envhub.errors import RunDirectoryError
from envhub.results.arrays import STEP
from envhub.results.report.page import render, report
from envhub.results.run import open_run

HOSTILE = "<script>document.title='taken'</script>\"'><img src=x onerror=alert(1)>&amp;"


class Tags(HTMLParser):
    """The tags of a page, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def count(self, tag):
        return sum(name == tag for name, _ in self.seen)


def hostile(info):
    """Foreign text everywhere that a run can have it; names of tasks are refused, see below."""
    info["benchmark"] |= {
        "ref": HOSTILE,
        "files": {HOSTILE: HOSTILE},
        "env_args": {HOSTILE: HOSTILE},
    }
    info["policy"] |= {"ref": HOSTILE, "args": {HOSTILE: HOSTILE}}
    info["runtime"]["packages"] = {HOSTILE: HOSTILE}


@pytest.fixture
def attacked(make_run):
    return open_run(make_run("attacked", hostile, near="10pe"))


def test_foreign_text_stays_text(attacked, make_run):
    tame = Tags(render(open_run(make_run("tame", near="10pe"))))
    seen = Tags(render(attacked))
    assert seen.count("img") == 0
    assert seen.count("script") == tame.count("script") == 2
    assert not any(name.startswith("on") for _, attributes in seen.seen for name in attributes)


def test_names_that_no_task_can_have_are_refused(make_run):
    def named(info):
        info["plan"] |= {
            "tasks": {HOSTILE: info["plan"]["tasks"]["near"]},
            "suites": {HOSTILE: [HOSTILE]},
        }

    with pytest.raises(RunDirectoryError, match=r"plan\.suites"):
        open_run(make_run("named", named))


def test_only_its_own_script_and_style_are_allowed(attacked):
    tags = Tags(render(attacked)).seen
    (allowed,) = (
        attributes["content"]
        for tag, attributes in tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert allowed.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in allowed
    assert not any("style" in attributes for _, attributes in tags)
    assert not any("src" in attributes or tag == "link" for tag, attributes in tags)


def test_a_large_run_is_a_small_file(make_run):
    """Every fifth episode fails, and has curves of seven numbers."""
    names = [f"pick_up_the_object_number_{i:03}_and_place_it_in_the_box" for i in range(130)]

    def many(info):
        info["plan"]["tasks"] = dict.fromkeys(names, info["plan"]["tasks"]["near"])
        info["plan"]["suites"] = {f"s{i}": names[i * 26 : i * 26 + 26] for i in range(5)}
        info["plan"]["episodes"] = 50

    run = open_run(make_run("large", many, **dict.fromkeys(names, "11011" * 10)))
    steps = np.zeros(64, STEP)
    for record in run.records():
        if not record.success:
            save_arrays(run.directory, record.number, np.zeros((64, 7)), steps)
    assert len(run.records()) == 6500
    assert len(render(run).encode()) <= 500_000


def test_the_file(make_run, tmp_path):
    run = open_run(make_run("run", near="10"))
    assert report(run) == run.directory / "report.html"
    out = tmp_path / "other.html"
    assert report(run, out) == out
    assert out.read_bytes() == (run.directory / "report.html").read_bytes()
    with pytest.raises(RunDirectoryError, match=r"cannot be written to .*Name another file"):
        report(run, tmp_path / "missing" / "x.html")


def test_without_a_script_only_details_and_filters_are_missing(make_run):
    text = render(open_run(make_run("run", near="10p")))
    hidden = {attributes.get("id") for _, attributes in Tags(text).seen if "hidden" in attributes}
    assert hidden == {
        *("controls", "copy", "all", "error", "video", "fast", "replayed", "draw", "curves"),
        "trace",
    }
    assert "policy_error: ValueError" in text
    assert "<noscript>" in text


def dom(address: str, profile, *options: str) -> str:
    """The page as a browser has it once its script has run."""
    flags = ("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    more = ("--disable-component-update", "--disable-sync", f"--user-data-dir={profile}")
    # Its own sandbox needs privileges that containers lack; the page is ours.
    command = [shutil.which("chromium"), *flags, *more, "--no-sandbox", *options, "--dump-dom"]
    done = subprocess.run(
        [*command, address],
        env={**os.environ, "HOME": str(profile)},
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout


@needs_chromium
class TestInABrowser:
    def test_an_address_opens_its_episode(self, make_run, tmp_path):
        page = report(open_run(make_run("run", near="10p")))
        seen = dom(f"{page.as_uri()}#near.2", tmp_path / "profile")
        assert re.search(r'<dialog id="episode"[^>]* open', seen)
        assert re.search(r"near(<wbr>)?, episode 2</h2>", seen)
        assert "ValueError in the policy at step 1: no</pre>" in seen

    def test_foreign_text_runs_nothing(self, attacked, tmp_path):
        page = report(attacked, tmp_path / "page.html")
        seen = dom(page.as_uri(), tmp_path / "profile")
        assert "<title>taken</title>" not in seen
        assert 'id="controls">' in seen.replace(' hidden=""', " hidden"), "its own script has run"
