"""`envhub fetch` where there is a network, then `--offline` where there is none."""

import json
import re
import subprocess
import sys

import pytest
from support.attacks import envhub as run_envhub
from support.forked import ENVHUB
from support.needs import needs_own_network
from support.notes import bring_notes
from support.paths import DOCS
from support.published import publish

REACH = DOCS / "examples" / "reach"
CONSENT = "--trust-remote-code"


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    bring_notes(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return local_hub


def test_what_was_fetched_is_evaluated_without_a_request(hub):
    ref = publish(hub, REACH)
    words = ("eval", ref, CONSENT, "--task", "reach-red", "--episodes", "1", "--workers", "1")
    missing = run_envhub(*words, "--offline", "--out", "a")
    assert missing.returncode == 6
    said = f"{ref.partition(':')[0]}: It is not on this machine, and --offline asks nothing of the"
    assert said in missing.stderr
    assert "envhub fetch" in missing.stderr
    assert not hub.requests
    fetched = run_envhub("fetch", ref, CONSENT, "--json")
    assert fetched.returncode == 0, fetched.stderr
    assert json.loads(fetched.stdout)["benchmark"] == ref
    assert hub.requests
    hub.requests.clear()
    played = run_envhub(*words, "--offline", "--out", "b")
    assert played.returncode == 0, played.stderr
    again = run_envhub(*words, "--out", "c", ENVHUB_OFFLINE="1")
    assert again.returncode == 0, again.stderr
    assert not hub.requests


@needs_own_network
def test_offline_plays_where_there_is_no_network(hub):
    """In a network namespace of its own, whose loopback is down: a connection would be an error."""
    ref = publish(hub, REACH)
    assert run_envhub("fetch", ref, CONSENT).returncode == 0
    inside = ("unshare", "--map-root-user", "--net", str(ENVHUB))
    words = ("eval", ref, CONSENT, "--task", "reach-red", "--episodes", "1", "--workers", "1")
    play = subprocess.run(
        [*inside, *words, "--offline", "--out", "run"], capture_output=True, text=True, check=False
    )
    assert play.returncode == 0, play.stderr
    other = ref.replace(ref.partition("@")[2][:40], "0" * 40)
    asked = subprocess.run(
        [*inside, "fetch", other, CONSENT], capture_output=True, text=True, check=False
    )
    assert asked.returncode == 6, "what is not there is asked for, and nobody answers"


def test_all_that_is_missing_is_said_at_once(hub):
    """The source and the policy, of a benchmark of the Hub; nothing was begun."""
    commit = "0" * 40
    done = run_envhub(
        "eval", f"me/env@{commit}:env.py", CONSENT, "--policy", f"lerobot:me/model@{commit}",
        "--offline", "--out", "run",
    )  # fmt: skip
    assert done.returncode == 6
    assert "2 things are not on this machine, and nothing may be asked of a network." in done.stderr
    assert [line[:3] for line in done.stderr.splitlines() if re.match(r"\d\. ", line)] == [
        "1. ",
        "2. ",
    ]
    assert not hub.requests


def test_a_plugins_runtime_and_assets_are_said_at_once(hub, tmp_path):
    done = run_envhub(
        "eval", "libero", "--runtime", "isolated", "--task", "libero_goal/*", "--offline",
        "--out", "run", UV_CACHE_DIR=str(tmp_path / "uv"),
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    assert "2 things are not on this machine" in done.stderr
    assert "needs the files of the Hub dataset lerobot/libero-assets" in done.stderr
    assert "is not built yet" in done.stderr
    assert not (tmp_path / "run").exists()


def test_nothing_is_connected_to(tmp_path):
    """By the interpreter's own account, of the host and what it imports."""
    watch = """if True:
        import sys

        def hook(event, args):
            if event == "socket.connect" and not isinstance(args[1], (str, bytes)):
                print("connected to", args[1], file=sys.stderr)

        sys.addaudithook(hook)
        from envhub.cli import main
        main()
        """
    words = ("eval", str(REACH), "--task", "reach-red", "--episodes", "1", "--offline", "--json")
    done = subprocess.run(
        [sys.executable, "-c", watch, *words], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"connected to" not in done.stderr
