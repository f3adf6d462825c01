"""Which files of a directory are published, left out and refused. All secrets are fake."""

import os
from pathlib import Path

import pytest

from envhub.errors import UsageError
from envhub.sources.publish import copy_published, find_secret, is_secret_name

FAKE = "FAKE0" * 20


def fill(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"{name}\n", errors="replace")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    directory = tmp_path / "mine"
    fill(directory, "env.py", "assets/arm.xml")
    return directory


def copied(into: Path) -> dict[str, str]:
    paths = (path for path in into.rglob("*") if path.is_file())
    return {str(path.relative_to(into)): path.read_text() for path in paths}


# What is published and left out


def test_files_are_copied(mine, tmp_path):
    selection = copy_published(mine, tmp_path / "copy")
    assert selection.published == {"assets/arm.xml": "", "env.py": ""}
    assert selection.left_out == {}
    assert copied(tmp_path / "copy") == {
        "assets/arm.xml": "assets/arm.xml\n",
        "env.py": "env.py\n",
    }


def test_what_is_left_out_is_told_but_for_caches(mine, tmp_path):
    hidden = (".env", ".git/config", ".npmrc", "assets/.netrc")
    data = ("w.safetensors", "data/states.pkl")
    runs = ("runs/a/x.txt", "old/run.json", "old/episodes.jsonl")
    fill(mine, *hidden, *data, *runs, "__pycache__/env.pyc", "env.pyc", "a/node_modules/x.js")
    selection = copy_published(mine, tmp_path / "copy")
    assert set(selection.published) == {"assets/arm.xml", "env.py"}
    assert selection.left_out == {
        "checkpoints and data sets are never fetched with a benchmark": (
            "data/states.pkl",
            "w.safetensors",
        ),
        "their names start with a dot": (".env", ".git", ".npmrc", "assets/.netrc"),
        "they are runs": ("old", "runs"),
    }
    assert set(copied(tmp_path / "copy")) == {"assets/arm.xml", "env.py"}


def test_hidden_files_and_secrets_are_published_by_name_only(mine, tmp_path):
    fill(mine, ".config", ".hidden/a.json", ".hidden/b.json", "token", "runs/best/x.txt")
    include = ("./token", ".config", ".hidden/a.json", "runs/best/x.txt")
    selection = copy_published(mine, tmp_path / "copy", include)
    expected = {".config", ".hidden/a.json", "token", "runs/best/x.txt"}
    assert {path for path, note in selection.published.items() if note == "--include"} == expected
    assert set(copied(tmp_path / "copy")) == {*expected, "env.py", "assets/arm.xml"}


def test_a_link_to_a_published_file_is_a_copy_of_it(mine, tmp_path):
    (mine / "assets" / "same.xml").symlink_to("arm.xml")
    (mine / "again.xml").symlink_to("assets/same.xml")
    (mine / "absolute.xml").symlink_to(mine / "assets" / "arm.xml")
    selection = copy_published(mine, tmp_path / "copy")
    notes = {path: note for path, note in selection.published.items() if note}
    assert set(notes) == {"assets/same.xml", "again.xml", "absolute.xml"}
    assert set(notes.values()) == {"copy of assets/arm.xml"}
    for path in notes:
        assert (tmp_path / "copy" / path).read_text() == "assets/arm.xml\n"
        assert not (tmp_path / "copy" / path).is_symlink()


def test_the_directory_itself_may_be_a_link(mine, tmp_path):
    (tmp_path / "link").symlink_to(mine)
    assert "env.py" in copy_published(tmp_path / "link", tmp_path / "copy").published


# What is refused


def refusal(directory: Path, tmp_path: Path, include: tuple[str, ...] = ()) -> str:
    with pytest.raises(UsageError) as caught:
        copy_published(directory, tmp_path / "copy", include)
    return str(caught.value)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    fill(tmp_path / "home", "id_rsa", "notes/plan.txt")
    return tmp_path / "home"


OUT = "a symbolic link that leads out of the directory, to "
LINKS = {
    "a file": ({"key.txt": "../home/id_rsa"}, "key.txt", OUT + "{home}/id_rsa"),
    "an absolute file": ({"key.txt": "{home}/id_rsa"}, "key.txt", OUT + "{home}/id_rsa"),
    "a directory": ({"more": "../home"}, "more", OUT + "{home}"),
    "below": ({"assets/key.txt": "../../home/id_rsa"}, "assets/key.txt", OUT + "{home}/id_rsa"),
    "a chain": ({"a.txt": "b.txt", "b.txt": "../home/id_rsa"}, "a.txt", OUT + "{home}/id_rsa"),
    "through a directory": (
        {"more": "../home", "a.txt": "more/notes/plan.txt"},
        "a.txt",
        OUT + "{home}/notes/plan.txt",
    ),
    "above": ({"up": ".."}, "up", OUT + "{home}/.."),
    "itself": ({"me": "me"}, "me", "a symbolic link that leads nowhere"),
    "nothing": ({"gone": "nowhere"}, "gone", "a symbolic link that leads nowhere"),
    "the directory": ({"again": "."}, "again", "a symbolic link to the directory ."),
    "a directory inside": ({"x": "assets"}, "x", "a symbolic link to the directory assets"),
    "a hidden file": ({"x.txt": ".env"}, "x.txt", "a symbolic link to .env, which is not uploaded"),
}


@pytest.mark.parametrize("case", LINKS)
def test_other_links_are_refused(mine, outside, tmp_path, case):
    links, path, problem = LINKS[case]
    fill(mine, ".env")
    for name, target in links.items():
        (mine / name).symlink_to(target.format(home=outside))
    said = refusal(mine, tmp_path)
    expected = problem.format(home=outside).replace(f"{outside}/..", str(tmp_path))
    assert f"\n  {path}: {expected}" in said
    assert not any("id_rsa" in text for text in copied(tmp_path / "copy").values())


def test_including_a_link_does_not_open_it(mine, outside, tmp_path):
    (mine / "key.txt").symlink_to(outside / "id_rsa")
    (mine / "more").symlink_to(outside)
    assert OUT in refusal(mine, tmp_path, ("key.txt",))
    with pytest.raises(UsageError, match="behind a symbolic link"):
        copy_published(mine, tmp_path / "other", ("more/id_rsa",))


def test_what_is_no_file_is_refused(mine, tmp_path):
    os.mkfifo(mine / "pipe")
    assert "  pipe: it is neither a file nor a directory\n" in refusal(mine, tmp_path)


@pytest.mark.parametrize("name", ["a\nb.txt", "a\x1b[2J.txt", "a\u202etxt.py", "a\udcff.txt"])
def test_a_name_that_cannot_be_printed_is_refused(mine, tmp_path, name):
    fill(mine, name)
    said = refusal(mine, tmp_path)
    assert "its name cannot be printed\n" in said
    assert said.count("\n") == 2
    assert "\x1b" not in said


SECRET_NAMES = [
    *("id_rsa", "id_ed25519", "keys/id_ecdsa.bak", "server.pem", "server.KEY", "passwords.kdbx"),
    *("token", "Token", "token.txt", "hf_token", "stored_tokens", "credentials"),
    *("credentials.json", "credentials-prod.json", "gcp_credentials.json"),
    *("client_secret_1.json", "service-account.json", "secrets.toml", "netrc", "prod.env"),
    *(".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "kubeconfig", "main.tfstate"),
]
HARMLESS_NAMES = [
    *("env.py", "tokenizer.json", "keyboard.py", "keys.py", "monkey.obj", "environment.yml"),
    *("arm.xml", "README.md", "LICENSE", "env", "pass.py"),
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_harmless_names(name):
    assert not is_secret_name(name)


def test_secret_names_are_refused_unless_included(mine, tmp_path):
    fill(mine, "token", "assets/server.pem")
    said = refusal(mine, tmp_path, ("token",))
    assert said.startswith("Nothing was uploaded: a file is refused.\n")
    assert "\n  assets/server.pem: files of this name hold secrets\n" in said
    assert "--include FILE" in said
    assert "  token" not in said


SECRETS = {
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nFAKE",
    "a private key in JSON": '{"private_key": "-----BEGIN PRIVATE KEY-----\\nFAKE"}',
    "a private key of PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    "Hugging Face": f"TOKEN = 'hf_{FAKE[:34]}'",
    "GitHub": f"ghp_{FAKE[:36]}",
    "GitHub, fine-grained": f"github_pat_{FAKE[:22]}_{FAKE[:59]}",
    "GitLab": f"glpat-{FAKE[:20]}",
    "AWS": "key: AKIAFAKEFAKEFAKEFAKE",
    "AWS, the secret": f"aws_secret_access_key = {FAKE[:40]}",
    "Google": f"AIza{FAKE[:35]}",
    "Slack": f"xoxb-{FAKE[:24]}",
    "OpenAI": f"sk-{FAKE[:48]}",
    "Anthropic": f"sk-ant-{FAKE[:48]}",
    "npm": f"//registry/:_authToken=npm_{FAKE[:36]}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{FAKE[:40]}",
    "Weights & Biases": f"WANDB_API_KEY={'0' * 40}",
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_contents_of_secrets(mine, tmp_path, kind, encoding):
    (mine / "notes.txt").write_bytes(f"first\nsecond\n{SECRETS[kind]}\n".encode(encoding))
    said = refusal(mine, tmp_path)
    assert "\n  notes.txt: a" in said
    assert " in line 3\n" in said
    assert FAKE[:10] not in said  # what is found is not shown
    assert copy_published(mine, tmp_path / "again", ("notes.txt",)).published["notes.txt"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import hf_transfer_and_many_other_words_of_this_length",
        "task-0123456789-0123456789-0123456789",
        "sk-learn-estimator-html-documentation-link",
        "hf_short",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----",
        "TAKIAFAKEFAKEFAKEFAKE",
        "a token, a secret and a password",
    ],
)
def test_harmless_contents(tmp_path, text):
    (tmp_path / "notes.txt").write_text(text)
    assert find_secret(tmp_path / "notes.txt") is None


def test_a_secret_far_behind_in_a_binary_file(tmp_path):
    path = tmp_path / "mesh.stl"
    path.write_bytes(bytes(5 * 2**20) + SECRETS["a private key"].encode() + bytes(100))
    assert find_secret(path) == "a private key in line 1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing.txt", "there is no such file"),
        ("assets", "there is no such file"),
        ("../home/id_rsa", "by its path inside the directory"),
        ("/etc/hostname", "by its path inside the directory"),
        (".git/config", "files of git"),
        ("w.bin", "never fetched"),
    ],
)
def test_what_cannot_be_included(mine, outside, tmp_path, text, problem):
    fill(mine, ".git/config", "w.bin")
    assert problem in refusal(mine, tmp_path, (text,))
    assert not (tmp_path / "copy").exists()


def test_more_than_is_ever_fetched_is_refused(mine, tmp_path):
    for number in range(2000):
        (mine / f"{number}.txt").touch()
    said = refusal(mine, tmp_path)
    assert "has 2,002 files of 0 MB, but at most 2,000 of 500 MB are fetched" in said
    assert not (tmp_path / "copy").exists()


def test_many_refusals_are_counted(mine, tmp_path):
    fill(mine, *(f"{number:02}.pem" for number in range(25)))
    said = refusal(mine, tmp_path)
    assert "25 files are refused" in said
    assert "\n  and 5 more\n" in said
