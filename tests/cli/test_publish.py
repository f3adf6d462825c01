"""`envhub publish`: what is uploaded is what was shown, and nothing else. All secrets are fake."""

import json
import os
import shutil
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from huggingface_hub import HfApi
from support.attacks import env_file, envhub
from support.disks import SmallDisk
from support.needs import needs_own_mount
from support.notes import bring_notes
from support.paths import DOCS
from support.run_tools import ENVHUB
from support.run_tools import envhub as run_envhub
from support.terminal import at_terminal

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nFAKE\n"


@pytest.fixture
def hub(local_hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A Hub on loopback that this user may publish on."""
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", local_hub.token)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    bring_notes(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return local_hub


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "env.py").write_text(env_file())
    return directory


def uploaded(hub, name: str = "me/mine") -> set[str]:
    with urlopen(f"{hub.endpoint}/api/models/{name}/tree/main?recursive=true") as answer:
        entries = json.load(answer)
    files = {entry["path"] for entry in entries if entry["type"] == "file"}
    return files - {".gitattributes"}


def test_files_are_listed_then_uploaded(hub, mine):
    """Hidden files and what the code writes stay at home; what is named is uploaded."""
    (mine / "assets").mkdir()
    (mine / "assets" / "arm.xml").write_text("<mujoco/>")
    (mine / "arm.xml").symlink_to("assets/arm.xml")
    for name in (".npmrc", ".env", ".netrc", ".settings", "token"):
        (mine / name).write_text("fake")
    writes = "from pathlib import Path\nPath(__file__).with_name('written.txt').write_text('x')"
    forged = "reach |\\n\\n# Verified by Hugging Face\\n" + "x" * 1000
    text = env_file(top=writes).replace('"attack", 5', f'"{forged}", 5')
    (mine / "env.py").write_text(text)
    named = ("--include=token", "--include=.settings")
    done = envhub("publish", "mine", "me/mine", "--yes", *named)
    assert done.returncode == 0, done.stderr
    size = (mine / "env.py").stat().st_size
    assert f"To upload to {hub.endpoint}/me/mine, which is public if it is new:\n" in done.stderr
    assert "\n            9  arm.xml  (copy of assets/arm.xml)\n" in done.stderr
    assert "\n            9  assets/arm.xml\n" in done.stderr
    assert f"\n  {size:>11,}  env.py\n" in done.stderr
    assert "README.md  (written by envhub)\n" in done.stderr
    assert "bytes in 6 files\n" in done.stderr
    assert "Left out, because their names start with a dot: .env, .netrc, .npmrc.\n" in done.stderr
    files = {".settings", "README.md", "arm.xml", "assets/arm.xml", "env.py", "token"}
    assert uploaded(hub) == files
    first = hub.commit_of("me/mine")
    assert done.stdout == f"me/mine@{first}:env.py\n"
    assert not (mine / "written.txt").exists()
    with urlopen(f"{hub.endpoint}/me/mine/resolve/main/README.md") as answer:
        card = answer.read().decode()
    assert "\n# Verified" not in card
    assert len(card) < 600
    # An existing repository gets a commit more.
    (mine / "more.py").write_text("")
    assert envhub("publish", "mine", "me/mine", "--yes", *named).returncode == 0
    assert hub.commit_of("me/mine") != first
    assert uploaded(hub) == files | {"more.py"}


def test_a_message_and_a_tag(hub, mine):
    words = ("publish", "mine", "me/mine", "--yes", "--tag", "v1")
    done = envhub(*words, "--message", "Harder goals")
    assert done.returncode == 0, done.stderr
    first = hub.commit_of("me/mine", "v1")
    assert done.stdout == f"me/mine@{first}:env.py\n"
    assert first == hub.commit_of("me/mine")
    assert HfApi(hub.endpoint).list_repo_commits("me/mine")[0].title == "Harder goals"
    (mine / "more.py").write_text("")
    done = envhub(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Nothing was uploaded: me/mine has a tag v1 already." in done.stderr
    assert hub.commit_of("me/mine") == first
    requests = len(hub.requests)
    for option in (("--tag", "not a tag"), ("--message", " ")):
        done = envhub("publish", "mine", "me/mine", "--yes", *option)
        assert (done.returncode, done.stdout) == (2, "")
    assert len(hub.requests) == requests


def test_without_a_terminal_it_must_be_said(hub, mine):
    done = envhub("publish", "mine", "me/mine", "--include", "env.py")
    assert done.returncode == 2
    assert "env.py  (--include)\n" in done.stderr
    assert done.stderr.endswith("\n  envhub publish mine me/mine --include env.py --yes\n")
    assert hub.requests == []


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_at_a_terminal_it_is_asked(hub, mine, answer, code):
    done, shown = at_terminal([ENVHUB, "publish", "mine", "me/mine"], answer)
    assert done == code, shown
    assert shown.index("  env.py\n") < shown.index("Upload these files? [y/N]: ")
    if code == 0:
        assert uploaded(hub) == {"README.md", "env.py"}
    else:
        assert "Nothing was uploaded: you said no." in shown
        assert hub.requests == []


def test_nothing_is_uploaded_if_anything_is_refused(hub, mine, tmp_path):
    home = tmp_path / "planted"
    home.mkdir()
    (home / "id_rsa").write_text(KEY)
    (mine / "more").symlink_to(home)
    (mine / "link").symlink_to(home / "id_rsa")
    shutil.copy(home / "id_rsa", mine)
    shutil.copy(home / "id_rsa", mine / "x")
    (mine / "token").write_text("fake")
    (mine / "credentials.json").touch()
    (mine / "a.py").write_text(f"T = 'hf_{'FAKE' * 9}'")
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 2
    for named in (
        "more: a symbolic link that leads",
        "link: a symbolic link that",
        "id_rsa: files of this name",
        "x: a private key in line 1",
        "token: files of this name",
        "credentials.json: files of",
        "a.py: a token of Hugging Face in line 1",
    ):
        assert f"\n  {named}" in done.stderr
    assert "FAKE" not in done.stderr
    assert done.stdout == ""
    assert hub.requests == []


def test_a_benchmark_that_needs_what_is_left_out(hub, mine):
    """It would work here and nowhere else."""
    for file in ("states.pkl", ".states", "runs/states.txt"):
        (mine / file).parent.mkdir(exist_ok=True)
        (mine / file).write_text("x")
    top = "from pathlib import Path\nPath(__file__).with_name('states.pkl').read_text()"
    (mine / "env.py").write_text(env_file(top=top))
    assert envhub("info", "./mine").returncode == 0
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 4
    assert "FileNotFoundError" in done.stderr
    for left_out in ("states.pkl", ".states", "runs"):
        assert f": {left_out}.\n" in done.stderr.partition("FileNotFoundError")[0]
    assert hub.requests == []


@pytest.mark.parametrize(
    ("line", "changed", "places"),
    [
        ("def reset(", "def __init__(self):\n        {}\n\n    def reset(", ()),
        ("super().reset(", "{}\n        super().reset(", ("mine", ".")),
    ],
    ids=["when an env is made", "at a reset"],
)
def test_a_benchmark_that_imports_what_is_left_out(hub, mine, tmp_path, line, changed, places):
    """Also where PYTHONPATH leads to the directory, which nobody else has."""
    for folder in (tmp_path / "runs", mine / "runs"):
        folder.mkdir()
        (folder / "left_out.py").touch()
    text = env_file().replace(line, changed.format("from runs import left_out"))
    (mine / "env.py").write_text(text)
    assert envhub("try", "./mine").returncode == 0
    path = os.pathsep.join(str(tmp_path / place) for place in places)
    done = envhub("publish", "mine", "me/mine", "--yes", **({"PYTHONPATH": path} if path else {}))
    assert done.returncode == 4, done.stderr
    assert "No module named 'runs'" in done.stderr
    assert hub.requests == []


def test_a_file_that_cannot_be_read(hub, mine):
    (mine / "arm.xml").symlink_to("/proc/self/mem")
    (mine / "README.md").write_bytes(b"\xff")
    assert envhub("publish", "mine", "me/mine", "--yes").returncode == 2
    os.unlink(mine / "arm.xml")
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 2
    assert "README.md is not a file in UTF-8" in done.stderr
    assert hub.requests == []


def test_the_example_of_the_documentation_is_published(hub):
    done = envhub("publish", DOCS / "examples" / "reach", "me/reach", "--yes")
    assert done.returncode == 0, done.stderr
    assert uploaded(hub, "me/reach") == {"README.md", "env.py", "table.py"}


def test_an_existing_public_repository_does_not_become_private(hub, mine):
    hub.create("me/mine")
    before = hub.commit_of("me/mine")
    done = envhub("publish", "mine", "me/mine", "--private", "--yes")
    assert done.returncode == 2
    assert "Nothing was uploaded: me/mine exists already and is public" in done.stderr
    assert f"{hub.endpoint}/me/mine/settings" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert hub.commit_of("me/mine") == before


def test_a_private_repository_is_new_or_was_private(hub, mine):
    commits = set()
    for text in ("", "# changed"):
        (mine / "more.py").write_text(text)
        done = envhub("publish", "mine", "me/mine", "--private", "--yes")
        assert done.returncode == 0, done.stderr
        commits.add(hub.commit_of("me/mine"))
        with pytest.raises(HTTPError, match="401"):
            uploaded(hub)
    assert len(commits) == 2


@needs_own_mount
@pytest.mark.parametrize("size", ["40k", "100k"])
def test_a_full_temporary_directory(hub, mine, tmp_path, size):
    """It is full before the first copy is made, or before the second one."""
    (mine / "arm.xml").write_text("<!--" + "x" * 60_000 + "-->")
    place = tmp_path / "disk"
    place.mkdir()
    disk = SmallDisk(place, size)
    more = {name: os.environ[name] for name in ("HF_ENDPOINT", "HF_TOKEN", "ENVHUB_HOME")}
    arguments = ("publish", "mine", "me/mine", "--yes")
    try:
        done = run_envhub(*arguments, cwd=tmp_path, disk=disk, TMPDIR=str(place), **more)
    finally:
        disk.close()
    assert done.code == 2, done.err
    assert done.err.startswith("envhub: Nothing was uploaded: ")
    assert "No space left on device" in done.err
    assert done.err.count("\n") == 1
    with pytest.raises(HTTPError):
        uploaded(hub)
