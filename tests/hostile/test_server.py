"""Attacks of a server: a Hub or a mirror that lies, wanders off or never ends, and a store that
somebody changed. Nothing of it runs, nothing is left behind, and one sentence says why."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from envhub_localhub import faults
from envhub_localhub.large import Pointer
from support.attacks import env_file, envhub, python
from support.notes import NOTES

from envhub.files import set_writable
from envhub.sources import store
from envhub.testing import LocalHub

QUICK = ("--trust-remote-code", "--sandbox", "none", "--workers", "1", "--episodes", "1")

HURRIED = """
import sys
from envhub.cli import main
from envhub.sources import download, git, http, hub

http.ANSWER_SECONDS = git._TIMEOUT = download._SECONDS = 3.0
http._PAUSE = 0.01
sys.argv[0] = "envhub"
main()
"""
"""The command with limits that a test can wait for: what they are is in the messages."""


@pytest.fixture(autouse=True)
def _temporary(monkeypatch, tmp_path):
    """Git's temporary repositories are below the test's directory too."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


@pytest.fixture
def other(hub, tmp_path):
    """Another server; it knows another token."""
    with LocalHub(tmp_path / "other") as server:
        yield server


@pytest.fixture
def without_git(tmp_path):
    """The variables of a machine without git."""
    (tmp_path / "bin").mkdir()
    return {"PATH": str(tmp_path / "bin")}


def hurried(*arguments: object) -> subprocess.CompletedProcess[str]:
    return python(HURRIED, *arguments)


def left_behind(tmp_path: Path) -> list[str]:
    """All files and directories but those that the servers and this test have made."""
    ours = {"hub", "other", "home", "temporary", "bin"}
    noted = {"sources", *NOTES}
    home = [path for path in (tmp_path / "home").rglob("*") if path.name not in noted]
    temporary = (tmp_path / "temporary").rglob("*")
    found = [path for path in tmp_path.iterdir() if path.name not in ours]
    cache = Path(os.environ["HOME"], ".cache", "envhub")
    user = {*Path(os.environ["HOME"]).rglob("*")} - {cache, cache.parent}
    user -= {cache / name for name in NOTES}
    return [str(path) for path in (*found, *home, *temporary, *user)]


def assert_refused(
    done: subprocess.CompletedProcess[str], tmp_path: Path, message: str, code: int = 6
) -> None:
    assert done.returncode == code, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert left_behind(tmp_path) == []


def leaving(mark: Path) -> str:
    """An env file that leaves a mark when it is executed."""
    return f"open({str(mark)!r}, 'w').close()\n"


class TestNames:
    """Files are written where EnvHub says, under names that are what they seem."""

    @pytest.mark.parametrize("etag", ["../../../../../../escaped", "{tmp_path}/escaped", "e" * 999])
    def test_an_etag_names_no_file(self, hub, publish, tmp_path, etag):
        ref = publish(env_file())
        value = f'"{etag.format(tmp_path=tmp_path)}"'
        with hub.fault(faults.Header("ETag", value, "/resolve/")):
            done = envhub("info", ref)
        assert done.returncode == 0, done.stderr
        assert {path.name for path in tmp_path.iterdir()} == {"hub", "home", "temporary"}
        kept = {path.name for path in (tmp_path / "home").iterdir()} - {*NOTES}
        assert kept == {"sources", "fetched", "newest"}
        assert [path.name for path in (tmp_path / "home" / "sources").iterdir()] == ["me--attack"]

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("a\\b.py", r"'a\\\\b\.py'"),
            ("a\x1b[2Kb.py", r"'a\\x1b\[2Kb\.py'"),
            ("txt.\u202eyp", r"'txt\.\\u202eyp'"),
            ("n" * 256, "'n+': too long"),
            ("/".join(["n" * 100] * 11), "'n+[^ ]*': too long"),
        ],
        ids=["backslash", "control", "bidi", "name", "path"],
    )  # fmt: skip
    def test_odd_names_in_a_commit(self, publish, tmp_path, name, shown):
        done = envhub("info", publish(env_file(), **{name: "x = 1\n"}))
        assert_refused(done, tmp_path, f"has a file that is not fetched: .*{shown}")
        assert not {"\x1b", "\u202e", "\u200b"} & set(done.stderr)

    @pytest.mark.parametrize("path", ["../../../escaped", "{tmp_path}/escaped",
                                      ".GIT/config", "env.py/escaped"])  # fmt: skip
    def test_paths_of_a_listing_that_lead_elsewhere(
        self, hub, publish, tmp_path, without_git, path
    ):
        """Without git, a listing can hold what no commit can."""
        ref, lie = publish(env_file()), faults.Symlink(path.format(tmp_path=tmp_path), "x = 1")
        with hub.fault(lie):
            done = envhub("info", ref, **without_git)
        assert_refused(done, tmp_path, "has a file that is not fetched: .*Nothing was executed")

    def test_a_submodule_in_a_commit(self, hub, publish, tmp_path):
        """Its files are of another repository, and nobody agreed to that."""
        publish(env_file())
        place = tmp_path / "hub" / "models" / "me" / "attack.git"

        def git(*arguments: str, given: bytes = b"") -> str:
            who = ("-c", "user.name=a", "-c", "user.email=a@b")
            argv = ["git", *who, *arguments]
            done = subprocess.run(argv, cwd=place, input=given, capture_output=True, check=True)
            return done.stdout.decode().strip()

        entries = git("ls-tree", "main") + f"\n160000 commit {'1' * 40}\tmore\n"
        tree = git("mktree", "--missing", given=entries.encode())
        commit = git("commit-tree", "-p", "main", "-m", "more", tree)
        git("update-ref", "refs/heads/main", commit)
        done = envhub("info", f"me/attack@{commit}")
        assert_refused(done, tmp_path, "more of .* is not a regular file|more differs")

    def test_a_filter_of_the_repository_is_not_run(self, publish, tmp_path, monkeypatch):
        """Not even one that the user's own git has under this name: git only passes objects on."""
        mark, config = tmp_path / "temporary" / "ran", tmp_path / "temporary" / "config"
        run = f"touch {mark}; cat"
        config.write_text(f'[filter "mark"]\n\tsmudge = "{run}"\n\tclean = "{run}"\n')
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        done = envhub("info", publish(env_file(), **{".gitattributes": "*.py filter=mark\n"}))
        assert done.returncode == 0, done.stderr
        assert not mark.exists()

    @pytest.mark.parametrize(
        ("stored", "lies"),
        [(b"v 3 2 1", ()), (b"v 1 2 3", (faults.WrongTree("mesh.obj"),))],
        ids=["another file is stored", "the listing has another hash"],
    )
    def test_a_pointer_that_lies(self, hub, publish, tmp_path, stored, lies):
        """What a commit has of a large file is its hash: neither storage nor listing changes it."""
        pointer = Pointer.of(b"v 1 2 3")
        ref = publish(env_file(), **{"mesh.obj": pointer.data.decode()})
        large = tmp_path / "hub" / "models" / "me" / "attack.git" / "lfs" / "objects"
        place = large / pointer.sha256[:2] / pointer.sha256[2:4] / pointer.sha256
        place.parent.mkdir(parents=True)
        place.write_bytes(stored)
        with ExitStack() as lying:
            for lie in lies:
                lying.enter_context(hub.fault(lie))
            done = envhub("info", ref)
        assert_refused(done, tmp_path, "mesh.obj")

    def test_compiled_code_is_not_fetched(self, publish, tmp_path):
        """Python would run it instead of the file beside it that was read."""
        files = {"__pycache__/env.cpython-311.pyc": "compiled"}
        done = envhub("info", publish(env_file(), **files), "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["left_out"] == [".gitattributes", *files]
        assert not list((tmp_path / "home").rglob("*.pyc"))


class TestEndpoints:
    """Whoever is between can change what comes unencrypted."""

    @pytest.mark.parametrize("command", ["info", "eval", "search"])
    def test_a_hub_without_encryption(self, tmp_path, hub, command):
        mirror = {"HF_ENDPOINT": "http://mirror.invalid"}
        done = envhub(command, f"me/attack@{'0' * 40}", **mirror)
        assert_refused(done, tmp_path, "HF_ENDPOINT is http://mirror.invalid, .*https address", 2)

    def test_this_machine_needs_none(self, hub, publish):
        ref = publish(env_file())
        address = hub.endpoint.replace("127.0.0.1", "localhost")
        done = envhub("info", ref, HF_ENDPOINT=address, NO_PROXY="localhost")
        assert done.returncode == 0, done.stderr


def poison(directory: Path, text: str, **changes: object) -> None:
    """Change the stored env.py, and the manifest so that it agrees with it."""
    place = directory.parent
    set_writable(place, writable=True)
    content = json.loads((place / "manifest.json").read_text())
    (directory / "env.py").write_text(text)
    sha256, blob_id = store.file_ids(directory / "env.py", large=False)
    content["files"]["env.py"] |= {"sha256": sha256, "blob_id": blob_id, "size": len(text)}
    (place / "manifest.json").write_text(json.dumps(content | changes))


def stored_at(tmp_path: Path) -> Path:
    [file] = (tmp_path / "home").glob("sources/*/*/files/env.py")
    return file.parent


class TestStore:
    """The store is a cache: what it says about itself is not believed."""

    @pytest.mark.parametrize(("hub_is_there", "known"), [(True, False), (False, True)])
    def test_a_manifest_that_says_it_was_only_listed(
        self, hub, publish, tmp_path, hub_is_there, known
    ):
        ref = publish(env_file())
        assert envhub("info", ref).returncode == 0
        poison(stored_at(tmp_path), leaving(tmp_path / "executed"), proof="listing", objects={})
        if not known:
            [digest] = (tmp_path / "home").glob("fetched/*/*.json")
            digest.unlink()
        if not hub_is_there:
            hub.close()
        done = envhub("eval", ref, *QUICK)
        assert not (tmp_path / "executed").exists()
        assert done.returncode == (0 if hub_is_there else 6), done.stderr
        assert "Traceback" not in done.stderr
        if not hub_is_there:
            assert "is damaged: " in done.stderr
            assert "It was removed" in done.stderr

    def test_a_manifest_and_digest_that_fit_but_do_not_prove_the_commit(
        self, hub, publish, tmp_path
    ):
        """Even if somebody changes both, git says what the commit is."""
        ref = publish(env_file())
        assert envhub("info", ref).returncode == 0
        poison(stored_at(tmp_path), leaving(tmp_path / "executed"), proof="listing", objects={})
        manifest = (stored_at(tmp_path).parent / "manifest.json").read_bytes()
        [known] = (tmp_path / "home").glob("fetched/*/*.json")
        known.write_text(json.dumps({"manifest": hashlib.sha256(manifest).hexdigest()}))
        hub.close()
        done = envhub("eval", ref, *QUICK)
        assert done.returncode == 6
        assert "was only checked against the Hub's listing. git could not fetch" in done.stderr
        hub.start()
        done = envhub("eval", ref, *QUICK)
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "executed").exists()

    @pytest.mark.parametrize("hub_is_there", [True, False])
    def test_a_changed_store_without_git(self, hub, publish, tmp_path, without_git, hub_is_there):
        ref = publish(env_file())
        assert envhub("info", ref, **without_git).returncode == 0
        poison(stored_at(tmp_path), leaving(tmp_path / "executed"))
        if not hub_is_there:
            hub.close()
        done = envhub("eval", ref, *QUICK, **without_git)
        assert not (tmp_path / "executed").exists()
        assert done.returncode == (0 if hub_is_there else 6), done.stderr
        if not hub_is_there:
            assert "its manifest has changed since it was fetched" in done.stderr

    def test_a_file_that_is_said_to_be_left_out(self, hub, publish, tmp_path):
        """A benchmark without one of its files is another benchmark."""
        ref = publish(env_file(), **{"check.py": "x = 1\n"})
        assert envhub("info", ref).returncode == 0
        place = stored_at(tmp_path).parent
        set_writable(place, writable=True)
        content = json.loads((place / "manifest.json").read_text())
        (place / "files" / "check.py").unlink()
        del content["files"]["check.py"]
        content["left_out"].append("check.py")
        (place / "manifest.json").write_text(json.dumps(content))
        for path in (tmp_path / "home").glob("fetched/*/*.json"):
            path.unlink()
        done = envhub("info", ref, "--json")
        assert done.returncode == 0, done.stderr
        assert "check.py" in json.loads(done.stdout)["files"]

    def test_a_listing_is_upgraded_as_soon_as_there_is_git(
        self, hub, publish, tmp_path, without_git
    ):
        ref = publish(env_file())
        assert json.loads(envhub("info", ref, "--json", **without_git).stdout)["proof"] == "listing"
        assert json.loads(envhub("info", ref, "--json").stdout)["proof"] == "git"
        hub.close()
        assert envhub("eval", ref, *QUICK).returncode == 0

    @pytest.mark.parametrize("git_is_there", [True, False])
    def test_the_listing_of_a_mirror_proves_nothing_for_the_hub(
        self, other, publish, tmp_path, without_git, git_is_there
    ):
        """Looking at a mirror once must not decide what the Hub's commit runs."""
        ref = publish(env_file())
        shutil.copytree(tmp_path / "hub", tmp_path / "other", dirs_exist_ok=True)
        other.misbehave(faults.Symlink("env.py", leaving(tmp_path / "executed")))
        mirrored = envhub("info", ref, HF_ENDPOINT=other.endpoint, **without_git)
        assert mirrored.returncode == 0, mirrored.stderr
        assert "executed" in (stored_at(tmp_path) / "env.py").read_text()
        done = envhub("eval", ref, *QUICK, **({} if git_is_there else without_git))
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "executed").exists()

    @pytest.mark.parametrize("text", ['{"format": 1, "files": []}', "[" * 9999, "\xff"])
    def test_a_manifest_that_is_none(self, publish, tmp_path, text):
        ref = publish(env_file())
        assert envhub("info", ref).returncode == 0
        place = stored_at(tmp_path).parent
        set_writable(place, writable=True)
        (place / "manifest.json").write_text(text, encoding="latin-1")
        done = envhub("info", ref)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def secret(hub, other, monkeypatch, tmp_path) -> str:
    """A private repository of the Hub; the other server has a public copy."""
    monkeypatch.setenv("HF_TOKEN", hub.token)
    hub.create("me/secret", private=True)
    commit = hub.commit("me/secret", {"env.py": env_file()})
    shutil.copytree(tmp_path / "hub", tmp_path / "other", dirs_exist_ok=True)
    about = tmp_path / "other" / "models" / "me" / "secret.git" / "hub.json"
    about.write_text(about.read_text().replace('"private": true', '"private": false'))
    return f"me/secret@{commit}:env.py"


class TestToken:
    """The token goes to the Hub that the user named, and to nobody else."""

    @pytest.mark.parametrize("code", [301, 308])
    def test_git_is_sent_elsewhere(self, hub, other, secret, tmp_path, code):
        with hub.fault(faults.Redirect(other.endpoint, "/info/refs$|/git-upload-pack$", code)):
            done = envhub("info", secret, "--private")
        assert_refused(done, tmp_path, "git could not fetch")
        assert other.requests == []
        assert envhub("info", secret, "--private").returncode == 0

    @pytest.mark.parametrize("path", ["/revision/", "/tree/"])
    def test_the_api_is_sent_elsewhere(self, hub, other, secret, tmp_path, path):
        with hub.fault(faults.Redirect(other.endpoint, path)):
            done = envhub("info", secret, "--private")
        assert_refused(done, tmp_path, f"is a redirect to {other.endpoint}/.*set HF_ENDPOINT")
        assert other.requests == []

    def test_the_next_page_is_elsewhere(self, hub, other, secret, tmp_path):
        link = f'<{other.endpoint}/api/models/me/secret>; rel="next"'
        with hub.fault(faults.Header("Link", link, "/tree/")):
            done = envhub("info", secret, "--private")
        assert_refused(done, tmp_path, "which is another server")
        assert other.requests == []

    def test_files_come_from_large_file_storage_without_the_token(self, hub, other, secret):
        """The Hub itself sends such requests to servers of others."""
        with hub.fault(faults.Redirect(other.endpoint, "/resolve/")):
            done = envhub("info", secret, "--private")
        assert done.returncode == 0, done.stderr
        assert [request.token for request in other.requests] == [None]
        assert all(request.authorized for request in hub.requests)

    def test_a_token_is_not_sent_again_after_a_detour(self, hub, other, secret, tmp_path):
        """There and back again: the other server could read what it sends back."""
        other.misbehave(faults.Redirect(hub.endpoint, "/resolve/"))
        with hub.fault(faults.Redirect(other.endpoint, "/resolve/", times=1)):
            done = envhub("info", secret, "--private")
        assert_refused(done, tmp_path, "does not exist or is private|requires a login")
        assert [request.token for request in other.requests] == [None]

    @pytest.mark.parametrize("to", ["http://192.0.2.1", "file://", "http://["])
    def test_a_file_is_sent_to_an_address_that_is_not_encrypted(self, hub, publish, tmp_path, to):
        ref = publish(env_file())
        with hub.fault(faults.Redirect(to, "/resolve/")):
            done = envhub("info", ref)
        assert_refused(done, tmp_path, "is a redirect to .*not an (https )?address|redirects")

    def test_redirects_in_a_circle(self, hub, publish, tmp_path):
        ref = publish(env_file())
        with hub.fault(faults.Redirect(hub.endpoint, "/resolve/")):
            done = envhub("info", ref)
        assert_refused(done, tmp_path, "a chain of more than 5 redirects")


class TestBounds:
    """Whatever a server sends, it ends."""

    @pytest.mark.parametrize(
        ("path", "fault", "message"),
        [
            ("/tree/", {"pause": 0.0}, "it has more than 16 MB|did not end within 3 seconds"),
            ("/revision/", {"pause": 0.05}, "did not end within 3 seconds"),
            ("/tree/", {"pause": 0.05, "part": "head"}, "did not end within 3 seconds"),
        ],
        ids=["fast", "drip", "head"],
    )
    def test_an_answer_that_never_ends(self, hub, publish, tmp_path, path, fault, message):
        ref = publish(env_file())
        with hub.fault(faults.Endless(path, **fault)):
            done = hurried("info", ref)
        assert_refused(done, tmp_path, f"{message}.*Check HF_ENDPOINT")

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ({"pause": 0.0}, "env.py of .* it has more than the \\d+ bytes that are listed"),
            ({"pause": 0.05, "part": "head"}, "was not fetched within 3 seconds: 0 of \\d+ bytes"),
        ],
        ids=["fast", "head"],
    )
    def test_a_file_that_never_ends(self, hub, publish, tmp_path, fault, message):
        ref = publish(env_file())
        with hub.fault(faults.Endless("/env.py$", **fault)):
            done = hurried("info", ref)
        assert_refused(done, tmp_path, message)

    def test_a_large_file_that_drips(self, hub, publish, tmp_path):
        ref = publish(env_file(), **{"mesh.obj": "x"})
        size = faults.WrongSize("mesh.obj", 2**17)
        with hub.fault(size), hub.fault(faults.Endless("/mesh.obj$", pause=0.02)):
            done = hurried("info", ref)
        assert_refused(done, tmp_path, r"was not fetched within 5 seconds: \d+ of \d+ bytes came")

    @pytest.mark.parametrize("more", [1, 2**24])
    def test_a_file_with_more_bytes_than_were_listed(self, hub, publish, tmp_path, more):
        ref = publish(env_file())
        with hub.fault(faults.MoreBytes("env.py", more)):
            done = envhub("info", ref)
        assert_refused(done, tmp_path, r"it has more than the \d+ bytes that are listed")

    @pytest.mark.parametrize(
        ("size", "message"),
        [
            (-1, "not from a Hub: .*`int` >= 0"),
            (2**70, "a benchmark may have 2000 of 500 MB"),
            (7, "it has more than the 7 bytes that are listed"),
            (10**6, "has [0-9]+ bytes instead of 1000000"),
        ],
    )
    def test_sizes_that_cannot_be(self, hub, publish, tmp_path, size, message):
        ref = publish(env_file())
        with hub.fault(faults.WrongSize("env.py", size)):
            done = envhub("info", ref)
        assert_refused(done, tmp_path, message)

    def test_a_listing_whose_pages_never_end(self, hub, publish, tmp_path):
        ref = publish(env_file())
        commit = ref.partition("@")[2].partition(":")[0]
        link = f'<{hub.endpoint}/api/models/me/attack/tree/{commit}>; rel="next"'
        with hub.fault(faults.Header("Link", link, "/tree/")):
            done = envhub("info", ref)
        assert_refused(done, tmp_path, "it has more than 100 pages")
        assert sum("/tree/" in request.path for request in hub.requests) == 100

    @pytest.mark.parametrize("path", ["/tree/", "/resolve/"])
    def test_an_answer_that_is_compressed(self, hub, publish, tmp_path, path):
        """Some KB could be many GB, and compressed more than once even more."""
        ref = publish(env_file())
        with hub.fault(faults.Header("Content-Encoding", "gzip, gzip", path)):
            done = envhub("info", ref)
        assert_refused(done, tmp_path, "it is compressed")

    def test_a_connection_that_is_cut_again_and_again(self, hub, publish, tmp_path):
        ref = publish(env_file())
        with hub.fault(faults.Cut(1)):
            done = hurried("info", ref)
        assert_refused(done, tmp_path, "env.py of .*could not be requested: RemoteProtocolError")
        assert sum("/resolve/" in request.path for request in hub.requests) == 5

    @pytest.mark.parametrize(("path", "pause"), [("/info/refs$", 0.0), ("/git-upload-pack$", 0.05)])
    def test_git_never_ends(self, hub, publish, tmp_path, path, pause):
        ref = publish(env_file())
        with hub.fault(faults.Endless(path, pause=pause)):
            done = hurried("info", ref)
        assert_refused(done, tmp_path, "git could not fetch")

    def test_directories_without_end(self, publish, tmp_path):
        done = envhub("info", publish(env_file(), **{"d/" * 70 + "x.py": "x = 1\n"}))
        assert_refused(done, tmp_path, "nested more than 64 deep")

    @pytest.mark.parametrize("command", ["search", "trust"])
    def test_other_commands_have_the_same_bounds(self, hub, publish, tmp_path, command):
        publish(env_file())
        with hub.fault(faults.Endless("/api/models", pause=0.05)):
            done = hurried(command, "me/attack@main" if command == "trust" else "attack")
        assert_refused(done, tmp_path, "did not end within 3 seconds")


def test_the_limits_are_those_of_the_command():
    """A hurried command differs in its limits only."""
    done = python(HURRIED, "--version")
    assert done.stdout == envhub("--version").stdout
