"""`envhub publish`: what is uploaded is what was shown, and nothing else. All secrets are fake."""

import json
import os
import shutil
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
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
    (mine / "assets").mkdir()
    (mine / "assets" / "arm.xml").write_text("<mujoco/>")
    (mine / "arm.xml").symlink_to("assets/arm.xml")
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 0, done.stderr
    size = (mine / "env.py").stat().st_size
    assert f"To upload to {hub.endpoint}/me/mine, which is public if it is new:\n" in done.stderr
    assert "\n            9  arm.xml  (copy of assets/arm.xml)\n" in done.stderr
    assert "\n            9  assets/arm.xml\n" in done.stderr
    assert f"\n  {size:>11,}  env.py\n" in done.stderr
    assert "README.md  (written by envhub)\n" in done.stderr
    assert "bytes in 4 files\n" in done.stderr
    assert uploaded(hub) == {"README.md", "arm.xml", "assets/arm.xml", "env.py"}
    assert done.stdout == f"me/mine@{hub.commit_of('me/mine')}:env.py\n"


def test_without_a_terminal_it_must_be_said(hub, mine):
    done = envhub("publish", "mine", "me/mine", "--include", "env.py")
    assert done.returncode == 2
    assert "env.py  (--include)\n" in done.stderr
    assert done.stderr.endswith("\n  envhub publish mine me/mine --include env.py --yes\n")
    assert hub.requests == []


@pytest.mark.parametrize(("answer", "code"), [("", 2), ("y", 0)])
def test_at_a_terminal_it_is_asked(hub, mine, answer, code):
    done, shown = at_terminal([ENVHUB, "publish", "mine", "me/mine"], answer)
    assert done == code, shown
    assert shown.index("  env.py\n") < shown.index("Upload these files? [y/N]: ")
    if code == 0:
        assert uploaded(hub) == {"README.md", "env.py"}
    else:
        assert "Nothing was uploaded: you said no." in shown
        assert hub.requests == []


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        (lambda mine, home: (mine / "more").symlink_to(home), "more: a symbolic link that leads"),
        (lambda mine, home: (mine / "x").symlink_to(home / "id_rsa"), "x: a symbolic link that"),
        (lambda mine, home: shutil.copy(home / "id_rsa", mine), "id_rsa: files of this name"),
        (lambda mine, home: shutil.copy(home / "id_rsa", mine / "x"), "x: a private key in line 1"),
        (lambda mine, home: (mine / "token").write_text("fake"), "token: files of this name"),
        (lambda mine, home: (mine / "credentials.json").touch(), "credentials.json: files of"),
        (
            lambda mine, home: (mine / "a.py").write_text(f"T = 'hf_{'FAKE' * 9}'"),
            "a.py: a token of Hugging Face in line 1",
        ),
    ],
)
def test_nothing_is_uploaded_if_anything_is_refused(hub, mine, tmp_path, plant, named):
    home = tmp_path / "planted"
    home.mkdir()
    (home / "id_rsa").write_text(KEY)
    plant(mine, home)
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 2
    assert f"\n  {named}" in done.stderr
    assert "FAKE" not in done.stderr
    assert done.stdout == ""
    assert hub.requests == []


def test_hidden_files_stay_at_home(hub, mine):
    for name in (".npmrc", ".env", ".netrc"):
        (mine / name).write_text("fake")
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Left out, because their names start with a dot: .env, .netrc, .npmrc.\n" in done.stderr
    assert uploaded(hub) == {"README.md", "env.py"}


def test_what_is_named_is_uploaded(hub, mine):
    (mine / "token").write_text("words for the vocabulary")
    (mine / ".settings").write_text("x")
    done = envhub("publish", "mine", "me/mine", "--yes", "--include=token", "--include=.settings")
    assert done.returncode == 0, done.stderr
    assert uploaded(hub) == {".settings", "README.md", "env.py", "token"}


@pytest.mark.parametrize("file", ["states.pkl", "runs/states.txt"])
def test_a_benchmark_that_needs_what_is_left_out(hub, mine, file):
    """It would work here and nowhere else."""
    (mine / file).parent.mkdir(exist_ok=True)
    (mine / file).write_text("x")
    top = f"from pathlib import Path\nPath(__file__).with_name('env.py').parent.joinpath({file!r})"
    (mine / "env.py").write_text(env_file(top=f"{top}.read_text()"))
    assert envhub("info", "./mine").returncode == 0
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 4
    assert "FileNotFoundError" in done.stderr
    assert f": {file.partition('/')[0]}.\n" in done.stderr.partition("FileNotFoundError")[0]
    assert hub.requests == []


LATER = {
    "when an env is made": ("def reset(", "def __init__(self):\n        {}\n\n    def reset("),
    "at a reset": ("super().reset(", "{}\n        super().reset("),
}


@pytest.mark.parametrize(
    ("when", "place"),
    [("when an env is made", ""), ("at a reset", "mine"), ("at a reset", ".")],
)
def test_a_benchmark_that_imports_what_is_left_out(hub, mine, tmp_path, when, place):
    """Also where PYTHONPATH leads to the directory, which nobody else has."""
    for folder in (tmp_path / "runs", mine / "runs"):
        folder.mkdir()
        (folder / "left_out.py").touch()
    line, changed = LATER[when]
    text = env_file().replace(line, changed.format("from runs import left_out"))
    (mine / "env.py").write_text(text)
    assert envhub("try", "./mine").returncode == 0
    found = {"PYTHONPATH": str(tmp_path / place)} if place else {}
    done = envhub("publish", "mine", "me/mine", "--yes", **found)
    assert done.returncode == 4, done.stderr
    assert "No module named 'runs'" in done.stderr
    assert hub.requests == []


def test_what_the_code_writes_beside_itself_is_not_uploaded(hub, mine):
    top = "from pathlib import Path\nPath(__file__).with_name('written.txt').write_text('x')"
    (mine / "env.py").write_text(env_file(top=top))
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 0, done.stderr
    assert uploaded(hub) == {"README.md", "env.py"}
    assert not (mine / "written.txt").exists()


def test_a_file_that_cannot_be_read(hub, mine):
    (mine / "arm.xml").symlink_to("/proc/self/mem")
    (mine / "README.md").write_bytes(b"\xff")
    assert envhub("publish", "mine", "me/mine", "--yes").returncode == 2
    os.unlink(mine / "arm.xml")
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 2
    assert "README.md is not a file in UTF-8" in done.stderr
    assert hub.requests == []


def test_a_description_cannot_write_the_card(hub, mine):
    forged = "reach |\\n\\n# Verified by Hugging Face\\n" + "x" * 1000
    text = env_file().replace('"attack", 5', f'"{forged}", 5')
    (mine / "env.py").write_text(text)
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 0, done.stderr
    with urlopen(f"{hub.endpoint}/me/mine/resolve/main/README.md") as answer:
        card = answer.read().decode()
    assert "\n# Verified" not in card
    assert len(card) < 600


def test_the_example_of_the_documentation_is_published(hub):
    done = envhub("publish", DOCS / "examples" / "reach", "me/reach", "--yes")
    assert done.returncode == 0, done.stderr
    assert uploaded(hub, "me/reach") == {"README.md", "env.py", "table.py"}


@pytest.mark.parametrize("private", [False, True])
def test_a_private_repository_is_private_before_anything_is_uploaded(hub, mine, private):
    """An existing public repository stays public, so that nothing is uploaded to it."""
    hub.create("me/mine", private=private)
    before = hub.commit_of("me/mine")
    done = envhub("publish", "mine", "me/mine", "--private", "--yes")
    if private:
        assert done.returncode == 0, done.stderr
        assert hub.commit_of("me/mine") != before
    else:
        assert done.returncode == 2
        assert "Nothing was uploaded: me/mine exists already and is public" in done.stderr
        assert f"{hub.endpoint}/me/mine/settings" in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert hub.commit_of("me/mine") == before


def test_a_new_private_repository(hub, mine):
    done = envhub("publish", "mine", "me/mine", "--private", "--yes")
    assert done.returncode == 0, done.stderr
    with pytest.raises(HTTPError, match="401"):
        uploaded(hub)


def test_an_existing_repository_gets_a_commit_more(hub, mine):
    assert envhub("publish", "mine", "me/mine", "--yes").returncode == 0
    first = hub.commit_of("me/mine")
    (mine / "more.py").write_text("")
    done = envhub("publish", "mine", "me/mine", "--yes")
    assert done.returncode == 0, done.stderr
    assert hub.commit_of("me/mine") != first
    assert uploaded(hub) == {"README.md", "env.py", "more.py"}


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
