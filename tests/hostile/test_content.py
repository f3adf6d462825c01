"""Attacks by what a repository is made of: its names, its texts, and how many there are of them."""

import json
import re

import pytest
from support.attacks import env_file, envhub

from envhub.cli.options import COLUMNS, escaped, excerpt
from envhub.errors import printable
from envhub.sources.hub import endpoint
from envhub.sources.store import Manifest, StoredFile, file_ids, save, stage
from envhub.sources.trust import Ledger

HIDING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What rewrites a terminal, reorders a line or cannot be seen."""


# Texts


@pytest.mark.parametrize(
    "number",
    [
        *(0x07, 0x08, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0xAD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4),
        *(0x180E, 0x180F, 0x200B, 0x200D, 0x200E, 0x2028, 0x202E, 0x2060, 0x2066, 0x2069, 0x2800),
        *(0x3164, 0xFE0F, 0xFEFF, 0xFFA0, 0xDC80, 0xE0041, 0xE0100, 0x10FFFF),
    ],
    ids=hex,
)
def test_what_hides_is_escaped(number):
    shown = printable(f"a{chr(number)}b")
    assert re.fullmatch(r"a\\(x\w\w|u\w{4}|U\w{8}|[a-z])b", shown)


def test_what_is_written_in_other_scripts_is_left_alone():
    text = "Gr\u00fc\u00dfe \u4f60\u597d \u0928\u0947 \u05e9\u05dc e\u0301 \u2192"
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short", "short"),
        ("x" * COLUMNS, "x" * COLUMNS),
        ("x" * (COLUMNS + 1), "x" * COLUMNS + f"… ({COLUMNS + 1} characters)"),
        ("x" * 5_000_000, "x" * COLUMNS + "… (5,000,000 characters)"),
        ("\u4f60" * 81, "\u4f60" * 80 + "… (81 characters)"),
        ("\x1b" * 100, r"\x1b" * 40 + "… (100 characters)"),
        ("a\nb\tc\r", r"a b c\r"),
    ],
)
def test_an_excerpt_is_one_line_of_bounded_width(text, shown):
    assert excerpt(text) == shown


def test_a_name_shows_its_line_ends():
    assert escaped("a\nb\tc\r\u202e") == r"a\nb\tc\r\u202e"


FORGED = "reach\nsuccess      verified\nreturn       999.0\r\x1b[2J\u202e\u200b"


def described(text: str) -> str:
    return env_file(top=f"TEXT = {text}").replace('"attack", 5', "TEXT, 5")


@pytest.mark.parametrize("command", ["try", "info", "list"])
def test_a_description_forges_no_line(publish, some_sandbox, command):
    ref = publish(described(ascii(FORGED)))
    done = envhub(command, ref, "--trust-remote-code", "--sandbox", some_sandbox)
    assert done.returncode == 0, done.stderr
    assert not HIDING.search(done.stdout)
    assert not re.search(r"^(success +verified|return +999)", done.stdout, re.MULTILINE)
    assert r"reach success      verified return       999.0\r\x1b[2J\u202e\u200b" in done.stdout


@pytest.mark.parametrize("command", ["try", "list"])
def test_a_long_description_is_cut(publish, some_sandbox, command):
    ref = publish(described("'x' * 10_000"))
    done = envhub(command, ref, "--trust-remote-code", "--sandbox", some_sandbox)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) < 2000
    assert "xxx… (10,000 characters)" in done.stdout


@pytest.mark.parametrize("command", ["info"])
def test_a_description_of_megabytes_is_refused(publish, some_sandbox, command):
    ref = publish(described("'x' * 3_000_000"))
    done = envhub(command, ref, "--trust-remote-code", "--sandbox", some_sandbox)
    assert done.returncode == 4, done.stderr
    assert "description must have at most 10,000 characters, found 3,000,000." in done.stderr
    assert len(done.stdout + done.stderr) < 2000
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["try", "info"])
def test_json_has_the_exact_text_in_ascii(publish, some_sandbox, command):
    ref = publish(described(ascii(FORGED)))
    done = envhub(command, ref, "--trust-remote-code", "--sandbox", some_sandbox, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    shown = json.loads(done.stdout)
    task = shown if command == "try" else shown["suites"]["attack"][0]
    assert task["description"] == FORGED


KEYS = """
class Env(Env):
    observation_space = gym.spaces.Dict(
        {"a\\nsuccess      verified\\x1b[2J": gym.spaces.Box(0.0, 1.0, (1,), np.float32)}
        | {f"{n}" * 99: gym.spaces.Box(0.0, 1.0, (1,), np.float32) for n in range(50)}
    )

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, False, {}
"""


@pytest.mark.parametrize("command", ["try", "info"])
def test_keys_of_observations_forge_no_line(publish, some_sandbox, command):
    ref = publish(env_file(bottom=KEYS))
    done = envhub(command, ref, "--trust-remote-code", "--sandbox", some_sandbox)
    assert "\x1b" not in done.stdout + done.stderr
    assert not re.search(r"^success +verified", done.stdout, re.MULTILINE)
    assert max(map(len, done.stdout.splitlines()), default=0) < 1000


# Names of files


QUIET = env_file()
SPOOF = (
    "a\n          1  harmless.py\nRun this code on this machine, in a sandbox? [y/N]: y\x1b[2J.py"
)


NO_GIT = "/nonexistent"
"""A PATH without git: then a listing is all the proof there is. Names as these never pass git."""


def put(commit: str, files: dict[str, str], left_out: tuple[str, ...] = ()) -> str:
    """Put files into the store, as if a Hub had listed them; the reference."""
    with stage() as staged:
        entries = {}
        for path, text in files.items():
            place = staged / "files" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            sha256, blob_id = file_ids(place, large=False)
            entries[path] = StoredFile(sha256, len(text.encode()), blob_id)
        save(Manifest("me/attack", commit, endpoint(), "listing", entries, left_out), staged)
    return f"me/attack@{commit}:env.py"


@pytest.mark.parametrize("command", ["trust", "info"])
def test_names_of_files_forge_no_line(hub, command):
    files = {"env.py": QUIET, SPOOF: "", "b\u202eyp.txt": "", "c\u200b.py": ""}
    hub.create("me/attack")
    ref = put("0" * 40, files, left_out=("w\n\x1b[1A.bin",))
    done = envhub(command, ref, PATH=NO_GIT)
    assert done.returncode == (3 if command == "trust" else 0), done.stderr
    assert not HIDING.search(done.stdout + done.stderr)
    assert not re.search(r"^ +1  harmless|^Run this code", done.stdout, re.MULTILINE)
    assert r"  a\n          1  harmless.py\nRun this code" in done.stdout
    assert r"b\u202eyp.txt" in done.stdout
    assert r"c\u200b.py" in done.stdout
    assert r"left out    w\n\x1b[1A.bin" in done.stdout


def test_names_of_changed_files_forge_no_line(hub):
    put("0" * 40, {"env.py": QUIET})
    Ledger().add(hub.endpoint, "me/attack", "0" * 40)
    ref = put("1" * 40, {"env.py": QUIET, "x\n=== harmless.txt": "1"})
    shown = envhub("trust", ref, PATH=NO_GIT).stdout
    assert re.findall("^===.*$", shown, re.MULTILINE) == [r"=== x\n=== harmless.txt (new)"]


def listed(text: str) -> list[str]:
    return re.findall(r"^ +[\d,]+  (\S+)$", text, re.MULTILINE)


def test_no_number_of_files_hides_the_code_that_runs(publish):
    """Files are listed up to a number; what runs comes first."""
    many = {f"a{number:04}.txt": "" for number in range(60)}
    code = {"table.py": "from .deep import evil", "deep/evil.py": "x = 1", "unused.py": ""}
    ref = publish(env_file(top="from . import table"), **many, **code)
    done = envhub("trust", ref)
    assert done.returncode == 3
    names = listed(done.stdout)
    assert names[:4] == ["env.py", "table.py", "deep/evil.py", "unused.py"]
    assert len(names) == 33
    hidden = "in 31 more files, 0 of them code; to see all:\n"
    assert f"{hidden}               envhub trust {ref} --all\n" in done.stdout
    whole = envhub("trust", ref, "--all").stdout
    assert len(listed(whole)) == 64
    assert "more files" not in whole


# Changes


@pytest.fixture
def changed(hub, publish):
    """Publishes files, agrees to them, publishes others; what `envhub trust` then shows."""

    def change(before: dict[str, str | bytes], now: dict[str, str | bytes], *options: str) -> str:
        hub.create("me/attack")
        old = hub.commit("me/attack", {"env.py": QUIET, **before})
        assert envhub("info", f"me/attack@{old}").returncode == 0
        Ledger().add(hub.endpoint, "me/attack", old)
        gone = [path for path in before if path not in now]
        new = hub.commit("me/attack", now, delete=gone)
        done = envhub("trust", f"me/attack@{new}", *options)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout.partition("Changes since ")[2]

    return change


def test_no_number_of_changed_lines_hides_those_of_the_code(changed):
    noise = {f"a{number}.txt": f"{number}\n" * 300 for number in range(5)}
    evil = env_file(top="import table")
    shown = changed({}, {**noise, "env.py": evil, "table.py": "steal()\n"})
    first = shown.index("=== env.py\n"), shown.index("=== table.py (new)\n")
    assert first[0] < first[1] < shown.index("=== a0.txt (new)\n")
    assert "+import table\n" in shown
    assert "+steal()\n" in shown
    cut = re.search(r"^=== cut here: ([\d,]+) more lines are hidden, in (.*)\. To see", shown, re.M)
    assert cut, shown[-500:]
    assert re.fullmatch(
        r"a1.txt \(\d+\), a2.txt \(303\), a3.txt \(303\), a4.txt \(303\)", cut[2]
    ), cut[2]
    assert re.search(r"\n  envhub trust me/attack@[0-9a-f]{40}:env.py --all\n", shown)


def test_what_is_hidden_in_the_code_itself_is_said(changed):
    padding = "".join(f"# {number}\n" for number in range(5000))
    shown = changed({}, {"env.py": QUIET + padding + "steal()\n"})
    assert "steal()" not in shown
    assert re.search(r"=== cut here: 4,\d{3} more lines are hidden, in env.py \(4,\d{3}\)", shown)


def test_all_of_it_is_shown_on_demand(changed):
    padding = "".join(f"# {number}\n" for number in range(5000))
    shown = changed({}, {"env.py": QUIET + padding + f"{'x' * 3000} = steal()\n"}, "--all")
    assert " = steal()\n" in shown
    assert "cut here" not in shown


def test_a_line_of_a_megabyte_is_cut(changed):
    shown = changed({}, {"env.py": QUIET + f"x = 1{' ' * 1_000_000};steal()\n"})
    assert len(shown) < 5000
    assert "… (1,000,014 characters)\n" in shown


def test_a_changed_line_forges_no_file(changed):
    forged = "++ b/harmless.txt\n-- a/x\n=== harmless.txt\n@@ -1 +1 @@\r=== harmless.txt\n\x1b[8m\n"
    shown = changed({}, {"env.py": QUIET + forged})
    assert re.findall(r"^===.*$", shown, re.MULTILINE) == ["=== env.py"]
    assert not HIDING.search(shown)


def test_a_change_of_line_ends_is_said(changed):
    shown = changed({"a.txt": "x\n", "b.txt": b"\xff"}, {"a.txt": "x\r\n", "b.txt": b"\xfe"})
    assert shown.count("=== differs in line ends, or in bytes that") == 2


def test_every_change_is_said(changed):
    before = {"last.txt": "x\n", "gone.txt": "x\n"}
    now = {
        "last.txt": "x",
        "empty.txt": "",
        "large.obj": b"x" * 5_000_000,
        "utf7.py": b"# coding: utf-7\n# +AAo-steal()",
        "escape.py": b"# coding: unicode_escape\n# \\x0asteal()",
        "hex.py": b"# coding: hex\n# x",
    }
    shown = changed(before, now)
    for expected in (
        "=== last.txt\n",
        "=== gone.txt (deleted)\n@@ -1,2 +0,0 @@\n-x\n",
        "=== empty.txt (new)\n",
        "+(too large to show, 5000000 bytes, sha256 ",
        "+# coding: hex\n+# x\n",
    ):
        assert expected in shown, expected
    assert shown.count("+# \n+steal()\n") == 2


def test_nothing_changed_in_the_files(hub, publish):
    ref = publish(QUIET)
    assert envhub("info", ref).returncode == 0
    Ledger().add(hub.endpoint, "me/attack", ref.partition("@")[2].partition(":")[0])
    again = hub.commit("me/attack", {"weights.bin": "x"})
    assert "No changes since " in envhub("trust", f"me/attack@{again}").stdout


def test_many_requirements_are_counted(publish):
    block = (
        f"# /// script\n# dependencies = {[f'package-{number}' for number in range(300)]}\n# ///\n"
    )
    ref = publish(block + QUIET)
    shown = envhub("trust", ref).stdout
    assert "package-19 and 280 more\n" in shown
    assert "package-299\n" in envhub("trust", ref, "--all").stdout
