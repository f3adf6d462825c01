import ast
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.errors import InvalidReference, UsageError
from envhub.refs import HubRef, NameRef, PathRef, parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
ALMOST_COMMIT = re.compile("[0-9a-fA-F]{7,64}")

# Valid references


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("metaworld", NameRef("metaworld")),
        ("Meta-World_3.1+cpu", NameRef("Meta-World_3.1+cpu")),
        ("3d", NameRef("3d")),
        ("env.py", NameRef("env.py")),
        ("n" * 200, NameRef("n" * 200)),
        (".", PathRef(".")),
        ("..", PathRef("..")),
        ("./my_env", PathRef("./my_env")),
        ("./my_env/env.py", PathRef("./my_env/env.py")),
        ("../my_env", PathRef("../my_env")),
        ("/srv/my env/\u00fcber@2:1.py", PathRef("/srv/my env/\u00fcber@2:1.py")),
        ("./a\\b", PathRef("./a\\b")),
        ("owner/repo", HubRef("owner", "repo")),
        ("owner/repo:other.py", HubRef("owner", "repo", None, "other.py")),
        ("owner/repo@main", HubRef("owner", "repo", "main")),
        ("owner/repo@v1.0+b_2-c", HubRef("owner", "repo", "v1.0+b_2-c")),
        ("owner/repo@refs/pr/1", HubRef("owner", "repo", "refs/pr/1")),
        ("owner/repo@abcdef", HubRef("owner", "repo", "abcdef")),
        (f"owner/repo@{COMMIT}", HubRef("owner", "repo", COMMIT)),
        (f"owner/repo@{COMMIT}:a/b/env.py", HubRef("owner", "repo", COMMIT, "a/b/env.py")),
        ("owner/repo:.hidden/_x.py", HubRef("owner", "repo", None, ".hidden/_x.py")),
        ("owner/repo:.../.gitignore.py", HubRef("owner", "repo", None, ".../.gitignore.py")),
        ("Ow-n_e.r/_re.po_", HubRef("Ow-n_e.r", "_re.po_")),
        ("o/r.-r", HubRef("o", "r.-r")),
        ("o" * 96 + "/" + "r" * 96, HubRef("o" * 96, "r" * 96)),
        (f"hf://owner/repo@{COMMIT}:x.py", HubRef("owner", "repo", COMMIT, "x.py")),
        ("hf://owner/repo", HubRef("owner", "repo")),
    ],
)
def test_a_valid_text_is_a_reference(text, ref):
    assert parse(text) == ref


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        (NameRef("metaworld"), "metaworld"),
        (PathRef("./my_env"), "./my_env"),
        (HubRef("owner", "repo"), "owner/repo:env.py"),
        (HubRef("owner", "repo", "main", "a/b.py"), "owner/repo@main:a/b.py"),
    ],
)
def test_a_reference_is_written_out(ref, text):
    assert str(ref) == text


@pytest.mark.parametrize(
    ("revision", "pinned"),
    [
        (COMMIT, True),
        (None, False),
        ("main", False),
        (COMMIT[:39], False),
        (COMMIT + "0", False),
        (COMMIT.upper(), False),
        (COMMIT + "\n", False),
    ],
)
def test_only_a_full_commit_is_a_pin(revision, pinned):
    assert HubRef("owner", "repo", revision).pinned is pinned


def test_a_repository_has_the_name_that_the_hub_gives_it():
    assert parse("hf://owner/repo@main:x.py").repo_id == "owner/repo"


# Refused texts: what stands before the first wrong character, the rest, and what is said

OWNER = "no such owner or repository can exist"
REVISION = "no branch, tag or commit is called so"
FILE = "not a path inside a repository"
NAME = "not the name of a benchmark"


@pytest.mark.parametrize(
    ("before", "rest", "problem"),
    [
        ("", "", "it is empty"),
        # Names
        ("", " metaworld", NAME),
        ("meta", " world", NAME),
        ("metaworld", "@main", NAME),
        ("metaworld", ":env.py", NAME),
        ("env", "\\env.py", NAME),
        ("", "_private", NAME),
        ("", "...", NAME),
        ("", "\u0441art", NAME),
        ("c", "\u0430rt", NAME),
        ("cart", "\uff0epy", NAME),
        ("n" * 200, "n", NAME),
        ("", "-metaworld", "cannot start with a dash"),
        ("", "--help", "cannot start with a dash"),
        ("", "-o/r", "cannot start with a dash"),
        # What nobody sees
        ("metaworld", "\n", "character U+000A cannot be seen"),
        ("owner/repo:env.py", "\n", "character U+000A cannot be seen"),
        ("meta", "\0world", "character U+0000 cannot be seen"),
        ("./my", "\x1b[31m", "character U+001B cannot be seen"),
        ("./my", "\x9b31m", "character U+009B cannot be seen"),
        ("owner/", "\u202eoper", "RIGHT-TO-LEFT OVERRIDE cannot be seen"),
        ("./my", "\u2066env", "LEFT-TO-RIGHT ISOLATE cannot be seen"),
        ("meta", "\u200bworld", "ZERO WIDTH SPACE cannot be seen"),
        ("", "\ufeffmetaworld", "ZERO WIDTH NO-BREAK SPACE cannot be seen"),
        ("./my", "\u2028env", "LINE SEPARATOR cannot be seen"),
        ("./my", "\u2029env", "PARAGRAPH SEPARATOR cannot be seen"),
        ("./my", "\udc80env", "character U+DC80 cannot be seen"),
        # Owners and repositories
        ("owner", "/", "an empty owner or repository"),
        ("owner/", "/repo", "an empty owner or repository"),
        ("owner/repo", "/", "an empty owner or repository"),
        ("owner/", "@main", "an empty owner or repository"),
        ("owner/", ":env.py", "an empty owner or repository"),
        ("", "@main/x", "an empty owner or repository"),
        ("hf:/", "/", "an empty owner or repository"),
        ("hf://", "/repo", "an empty owner or repository"),
        ("hf://owne", "r", "a repository is owner/name"),
        ("hf://owner", "@main", "a repository is owner/name"),
        ("https", "://huggingface.co/owner/repo", "a repository is owner/name"),
        ("HF", "://owner/repo", "a repository is owner/name"),
        ("my_env/sub", "/env.py", "a repository is owner/name"),
        ("own", "\u0435r/repo", OWNER),
        ("ow-n", "\u0435r/repo", OWNER),
        ("owner/r", "\u0435po", OWNER),
        ("owner/re", " po", OWNER),
        ("owner", "\\/repo", OWNER),
        ("", "~/my_env", OWNER),
        ("hf://", "-owner/repo", OWNER),
        ("owner/", "-repo", OWNER),
        ("owner/", ".repo", OWNER),
        ("owner/", "..", OWNER),
        ("owner/", "../repo", OWNER),
        ("owner/repo", "-", OWNER),
        ("owner/repo", ".@main", OWNER),
        ("owner/re-", "-po", OWNER),
        ("owner/re.", ".po", OWNER),
        ("owner/" + "r" * 96, "r", OWNER),
        ("owner/" + "r" * 94 + "-r", "r", OWNER),
        ("owner/repo", ".git", "a repository's name does not end in .git"),
        ("owner/repo", ".git@main", "a repository's name does not end in .git"),
        # Revisions
        ("owner/repo", "@", "an empty revision"),
        ("owner/repo@", ":env.py", "an empty revision"),
        ("owner/repo@", "/main", "an empty revision"),
        ("owner/repo@refs/", "/1", "an empty revision"),
        ("owner/repo@refs", "/", "an empty revision"),
        ("owner/repo@", "-x", REVISION),
        ("owner/repo@", "../x", REVISION),
        ("owner/repo@a.", ".b", REVISION),
        ("owner/repo@main", "~1", REVISION),
        ("owner/repo@m", "\u0430in", REVISION),
        ("owner/repo@feature", "\\x", REVISION),
        ("owner/repo@main", "@main", "a second '@'"),
        ("owner/repo@main", "@", "a second '@'"),
        ("owner/repo:env.py", "@main", "the revision must stand before the path"),
        ("owner/repo:env", "@main", "the revision must stand before the path"),
        ("owner/repo@main:env.py", "@main", "a second '@'"),
        ("owner/repo@", COMMIT[:7], "40 lower-case hex digits, this has 7"),
        ("owner/repo@", COMMIT[:39], "40 lower-case hex digits, this has 39"),
        ("owner/repo@", COMMIT + "0", "40 lower-case hex digits, this has 41"),
        ("owner/repo@", COMMIT[:7].upper() + ":x.py", "40 lower-case hex digits, this has 7"),
        ("owner/repo@0123456789", COMMIT.upper()[10:], "a commit is written in lower case"),
        ("owner/repo@" + COMMIT[:39], "F:env.py", "a commit is written in lower case"),
        # Paths inside a repository
        ("owner/repo", ":", "an empty name in the path"),
        ("owner/repo@main", ":", "an empty name in the path"),
        ("owner/repo:", "/etc/env.py", "an empty name in the path"),
        ("owner/repo:envs/", "/env.py", "an empty name in the path"),
        ("owner/repo:envs", "/", "an empty name in the path"),
        ("owner/repo:", "../env.py", "'..' in a path"),
        ("owner/repo:envs/", "../env.py", "'..' in a path"),
        ("owner/repo:", "./env.py", "'.' in a path"),
        ("owner/repo:", ".git/hooks.py", "'.git' in a path"),
        ("owner/repo:envs/", ".GiT/env.py", "'.GiT' in a path"),
        ("owner/repo:envs", "\\env.py", FILE),
        ("owner/repo:", "\\env.py", FILE),
        ("owner/repo:C", ":\\env.py", "a second ':'"),
        ("owner/repo:", "-env.py", FILE),
        ("owner/repo:e", " nv.py", FILE),
        ("owner/repo:", "\u0435nv.py", FILE),
        ("owner/repo:" + "e" * 200, "e.py", FILE),
        ("owner/repo:env.py", ":make", "a second ':'"),
        ("owner/repo:env.py", ":", "a second ':'"),
        ("owner/repo:", "env", "not a Python file"),
        ("owner/repo:", "env.PY", "not a Python file"),
        ("owner/repo@main:", "envs/.py", "not a Python file"),
        ("owner/repo:", ".py", "not a Python file"),
    ],
)
def test_a_refused_text_says_where_and_why(before, rest, problem):
    with pytest.raises(InvalidReference) as caught:
        parse(before + rest)
    assert caught.value.text == before + rest
    assert caught.value.position == len(before)
    assert f", at character {len(before) + 1}: " in str(caught.value)
    assert problem in str(caught.value)


WHOLE_COMMIT = "Write the whole commit as the Hub shows it."
HUB_FORM = "Write owner/repo@<40-digit commit>:env.py."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("''", "1: it is empty. Name a benchmark, a ./path or an owner/repo."),
        (r"'own\u0435r/repo'", f"4: no such owner or repository can exist. {HUB_FORM}"),
        (
            "'my_env/sub/env.py'",
            f"11: a repository is owner/name. {HUB_FORM} A local path starts with ./",
        ),
        ("'o/r:env.py@main'", f"11: the revision must stand before the path. {HUB_FORM}"),
        ("'o/r:../env.py'", "5: '..' in a path. Name a file inside the repository."),
        (
            r"'metaworld\n'",
            "10: character U+000A cannot be seen. Type the reference by hand.",
        ),
        (
            "'o/r@0123456'",
            f"5: a commit has 40 lower-case hex digits, this has 7. {WHOLE_COMMIT}",
        ),
    ],
)
def test_messages_say_what_where_and_what_to_write_instead(text, said):
    with pytest.raises(InvalidReference) as caught:
        parse(ast.literal_eval(text))
    assert str(caught.value) == f"Invalid reference {text}, at character {said}"


def test_a_long_text_is_cut_in_the_message():
    with pytest.raises(InvalidReference) as caught:
        parse("n" * 300)
    assert str(caught.value).startswith(f"Invalid reference '{'n' * 77}...', at character 201: ")


@pytest.mark.parametrize(
    "value", [None, 5, 1.5, True, b"metaworld", Path("./my_env"), ["metaworld"], {}, object(), str]
)
def test_what_is_no_text_is_refused(value):
    with pytest.raises(InvalidReference, match="an object of this type is not text") as caught:
        parse(value)
    assert caught.value.text == type(value).__name__


def test_the_error_is_a_usage_error_and_a_value_error():
    assert issubclass(InvalidReference, UsageError)
    assert issubclass(InvalidReference, ValueError)


# Properties


def joined(part, separator, most):
    return st.lists(part, min_size=1, max_size=most).map(separator.join)


repo_parts = st.from_regex(r"\A[A-Za-z0-9_]([.-]?[A-Za-z0-9_]){0,40}\Z").filter(
    lambda part: not part.endswith(".git")
)
branches = joined(st.from_regex(r"\A[A-Za-z0-9_](\.?[A-Za-z0-9_+-]){0,40}\Z"), "/", most=3).filter(
    lambda branch: not ALMOST_COMMIT.fullmatch(branch)
)
commits = st.text("0123456789abcdef", min_size=40, max_size=40)
folders = st.from_regex(r"\A[A-Za-z0-9_.][A-Za-z0-9._+-]{0,40}\Z").filter(
    lambda part: part not in (".", "..") and part.lower() != ".git"
)
files = st.builds(
    lambda inside, stem: "/".join([*inside, stem + ".py"]), st.lists(folders, max_size=3), folders
)
names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\Z").map(NameRef)
paths = st.one_of(
    st.sampled_from([".", ".."]),
    st.builds(
        str.__add__,
        st.sampled_from(["./", "../", "/"]),
        st.text(st.characters(exclude_categories=HIDDEN)),
    ),
).map(PathRef)
hubs = st.builds(HubRef, repo_parts, repo_parts, st.none() | branches | commits, files)


@settings(deadline=None)
@given(st.one_of(names, paths, hubs))
def test_a_valid_reference_comes_back_from_its_text(ref):
    assert parse(str(ref)) == ref


@settings(deadline=None)
@given(hubs)
def test_a_hub_reference_may_be_spelled_out(ref):
    assert parse(f"hf://{ref}") == ref


@settings(deadline=None)
@given(hubs, st.sampled_from(" \\\u0430\uff0f\u00e9%~'\"\t\u202e"), st.data())
def test_a_wrong_character_is_found_where_it_stands(ref, wrong, data):
    text = str(ref)
    at = data.draw(st.integers(0, len(text)))
    with pytest.raises(InvalidReference) as caught:
        parse(text[:at] + wrong + text[at:])
    assert caught.value.position == at


almost_valid = st.lists(
    st.sampled_from(
        ["owner", "/", "@", ":", ".", "-", "env.py", "hf://", ".git", COMMIT, "main", "\\", "\n"]
    ),
    max_size=9,
).map("".join)


@settings(deadline=None, max_examples=500)
@given(st.text(st.characters(exclude_categories=())) | almost_valid)
def test_any_text_is_a_reference_or_refused_in_order(text):
    refused = None
    try:
        ref = parse(text)
    except InvalidReference as exc:
        refused = exc
    if refused is None:
        assert parse(str(ref)) == ref
        return
    assert refused.text == text
    assert 0 <= refused.position < max(1, len(text))
    assert str(refused).isascii()
    assert str(refused).isprintable()
