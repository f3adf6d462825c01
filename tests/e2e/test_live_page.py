"""The live page in a real browser, while another process plays the run."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.browser import Browser
from support.needs import axe_script, needs_axe, needs_chromium
from support.processes import descendants, wait_until
from support.run_tools import WALK, counted, ended, envhub, outcomes, start

GATE = ("far.2", "far.4")
QUESTION = ("--policy", "zero", "--task", "far", "--episodes", 5, "--seeding", "shared")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    gate = tmp_path / "gate"
    gate.mkdir()
    for name in GATE:
        (gate / name).touch()
    return gate


@pytest.fixture
def playing(gate: Path, tmp_path: Path):
    """A run that waits at its third episode, and the address of its page."""
    words = ("--env-arg", f"gate={gate}", "--workers", 1, "--out", tmp_path / "run", "--watch")
    command = start("eval", WALK, *QUESTION, *words, "--quiet")
    line = command.stderr.readline()
    yield command, re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)[0]
    for name in GATE:
        (gate / name).unlink(missing_ok=True)
    command.kill()
    ended(command)


def ask(address: str, **headers: str) -> int:
    asked = urllib.request.Request(
        address, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


def test_only_this_page_is_answered(playing):
    _, address = playing
    host = address.split("/")[2]
    assert (ask(address), ask(f"{address}report"), ask(f"{address}nothing")) == (200, 200, 404)
    assert ask(f"http://{host}/") == 403
    assert ask(f"http://{host}/{'x' * 32}/") == 403
    assert ask(address.rstrip("/")) == 403
    assert ask(address, Origin="http://example.org") == 403
    assert ask(address, Host="example.org") == 403
    assert ask(address, Sec_Fetch_Site="cross-site") == 403
    assert ask(address, Origin=f"http://{host}", Sec_Fetch_Site="same-origin") == 200
    posted = urllib.request.Request(address, data=b"x")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(posted, timeout=20)


def test_killing_the_page_costs_the_run_nothing(playing, gate, tmp_path):
    command, _ = playing
    (page,) = [
        pid
        for pid in descendants(command.pid)
        if b"--parent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(page, signal.SIGKILL)
    for name in GATE:
        (gate / name).unlink()
    answer = ended(command)
    assert answer.code == 0, answer
    words = ("--env-arg", f"gate={gate}", "--out", tmp_path / "alone", "--quiet")
    assert envhub("eval", WALK, *QUESTION, *words).code == 0
    assert outcomes(tmp_path / "run") == outcomes(tmp_path / "alone")
    assert not descendants(command.pid)


@needs_chromium
@needs_axe
def test_a_browser_sees_episodes_as_they_end(playing, gate, tmp_path):
    command, address = playing
    with Browser(tmp_path / "profile") as browser:
        browser.resize(1200, 900)
        browser.open(address)
        browser.until("document.getElementById('status').textContent.includes('2 of 5 episodes')")
        first = int(browser.run("document.body.dataset.version"))
        (gate / GATE[0]).unlink()
        browser.until("document.getElementById('status').textContent.includes('4 of 5 episodes')")
        assert int(browser.run("document.body.dataset.version")) > first
        assert "truncated after 20 steps" in browser.run("document.body.innerText")
        for width, scheme in ((390, "light"), (1200, "dark")):
            browser.resize(width, 800)
            browser.media(prefers_color_scheme=scheme)
            assert browser.run("document.documentElement.scrollWidth") <= width
        for scheme in ("light", "dark"):
            browser.media(prefers_color_scheme=scheme)
            browser.run(axe_script())
            found = json.loads(browser.run("axe.run().then((r) => JSON.stringify(r.violations))"))
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert [each["id"] for each in serious] == []
        (gate / GATE[1]).unlink()
        browser.until("document.body.dataset.ended === 'yes'")
        assert "5 of 5 episodes" in browser.run("document.getElementById('status').textContent")
        assert browser.complaints() == []
    assert ended(command).code == 0
    assert counted(tmp_path / "run") == 5


def test_a_page_about_an_experiment_that_another_process_played(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        f'[policies]\nzero = "zero"\n[benchmarks.walk]\nref = "{WALK}"\n'
        'tasks = ["near"]\nepisodes = 1\n'
    )
    assert envhub("eval", path, "--out", tmp_path / "out", "--quiet").code == 0
    page = start("report", tmp_path / "out", "--watch")
    address = page.stdout.readline().strip()

    def shown() -> str:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.read().decode()

    wait_until(lambda: "1 of 1 episodes" in shown())
    assert "Success by policy and benchmark" in shown()
    assert ask(f"{address}zero-walk-seed0") == 200
    page.send_signal(signal.SIGINT)
    assert ended(page).code in (0, 130)
    refused = envhub("report", tmp_path, "--watch")
    assert (refused.code, "is not a run or an experiment" in refused.err) == (2, True)
