import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub import errors
from envhub.errors import (
    EnvHubError,
    ExitCode,
    InvalidEnvs,
    InvalidObservation,
    InvalidReference,
    PluginError,
    UnknownName,
    WorkerDied,
    WorkerRaised,
    printable,
)

# The tree


def drawn():
    """What the module's docstring draws: name -> (parent, exit code, further bases)."""
    tree, path = {}, []
    for line in errors.__doc__.splitlines():
        row = re.fullmatch(r"    ((?:[│ ]   )*(?:[├└]── )?)(\w+)(?: +(\d+)  (\S.*))?", line)
        if row is None:
            continue
        branch, name, code, text = row.groups()
        path = [*path[: len(branch) // 4], name]
        also = re.findall(r"\balso an? (\w+)", text or "")
        tree[name] = (path[-2] if path[1:] else None, int(code) if code else None, also)
    return tree


def real():
    """The same of the classes."""
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, EnvHubError)
    ]
    tree = {}
    for cls in classes:
        ours = [base.__name__ for base in cls.__bases__ if issubclass(base, EnvHubError)]
        others = [base.__name__ for base in cls.__bases__ if not issubclass(base, EnvHubError)]
        root = cls is EnvHubError
        tree[cls.__name__] = (
            None if root else " and ".join(ours),
            None if root else int(cls.exit_code),
            [] if root else others,
        )
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    assert drawn() == real()
    assert len(drawn()) > 10


def test_the_drawing_ends_every_branch():
    rows = [line for line in errors.__doc__.splitlines() if re.search("[├└]──", line)]
    columns = [(row.index("── ") - 1, row[row.index("── ") - 1]) for row in rows]
    for here, (column, corner) in enumerate(columns):
        following = [at for at, _ in columns[here + 1 :] if at <= column]
        assert corner == ("├" if following[:1] == [column] else "└"), rows[here]


def test_every_error_says_what_it_is():
    for name in drawn():
        assert getattr(errors, name).__doc__, name


def test_exit_codes_are_those_that_the_command_line_documents():
    assert ExitCode.DONE == 0
    assert ExitCode.FOUND == 1
    assert ExitCode.USAGE == 2
    assert ExitCode.CONTRACT == 4
    assert ExitCode.INTERRUPTED == 130


# Messages and what they carry


def test_a_reference_that_cannot_be_shown_in_full_is_cut():
    error = InvalidReference("x" * 100, 3, "wrong", "Write y.")
    assert str(error) == f"Invalid reference '{'x' * 77}...', at character 4: wrong. Write y."
    assert (error.text, error.position) == ("x" * 100, 3)


@pytest.mark.parametrize(
    ("name", "known", "matches", "message"),
    [
        ("reech", ["reach", "push"], ("reach",), "Did you mean 'reach'?"),
        ("pick", ["pick-1", "pick-2"], ("pick-2", "pick-1"), "Did you mean 'pick-2' or 'pick-1'?"),
        ("push", [], (), "None is available."),
        ("zzz", ["push", "reach"], (), "Available: push, reach."),
        ("zzz", list("abcdefgh"), (), "Available: a, b, c, d, e, f, g, h."),
        ("zzz", list("ihgfedcba"), (), "Available: a, b, c, d, e, f, g, h and 1 more."),
        ("zzz", (name for name in "ab"), (), "Available: a, b."),
        ("x1", {"x2": 0, "x3": 0, "x4": 0}, ("x4", "x3", "x2"), "Did you mean 'x4', 'x3' or 'x2'?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest(name, known, matches, message):
    error = UnknownName("task", name, known)
    assert str(error) == f"No task is called {name!r}. {message}"
    assert (error.kind, error.name, error.matches) == ("task", name, matches)


def test_an_unknown_name_may_come_with_advice():
    error = UnknownName("suite", "far", ["near"], advice="List them first.")
    assert str(error) == "No suite is called 'far'. Did you mean 'near'? List them first."


def test_at_most_three_names_are_suggested():
    assert len(UnknownName("task", "pull", [f"pull-{i}" for i in range(9)]).matches) == 3


@pytest.mark.parametrize(
    ("error", "message", "attributes"),
    [
        (
            PluginError("table", "is broken."),
            "Plugin 'table' is broken.",
            {"plugin": "table", "distribution": None},
        ),
        (
            PluginError("table", "is broken.", distribution="envhub-table"),
            "Plugin 'table' of envhub-table is broken.",
            {"plugin": "table", "distribution": "envhub-table"},
        ),
        (
            InvalidObservation("pixels/image", "is 4-D."),
            "Observation 'pixels/image': is 4-D.",
            {"path": "pixels/image"},
        ),
        (
            WorkerDied("Step 3", "was killed."),
            "Step 3: was killed.",
            {"doing": "Step 3", "problem": "was killed.", "log": ""},
        ),
        (
            WorkerDied("Step 3", "was killed.", log="\none\n\x1b[2Jtwo\n"),
            "Step 3: was killed.\nIts last lines:\n  | one\n  | \\x1b[2Jtwo",
            {"log": "\none\n\\x1b[2Jtwo\n"},
        ),
        (
            WorkerRaised("Step 3", "KeyError", "'x'", traceback="Traceback ..."),
            "Step 3: KeyError: 'x'",
            {"kind": "KeyError", "message": "'x'", "contract": False, "traceback": "Traceback ..."},
        ),
        (
            WorkerRaised("Step 3", "KeyboardInterrupt", ""),
            "Step 3: KeyboardInterrupt",
            {"problem": "KeyboardInterrupt"},
        ),
        (
            WorkerRaised("Loading ./x", "InvalidEnvs", "make_env must ...", contract=True),
            "Loading ./x: make_env must ...",
            {"contract": True},
        ),
    ],
)
def test_messages_and_attributes(error, message, attributes):
    assert str(error) == message
    assert {name: getattr(error, name) for name in attributes} == attributes


def test_invalid_envs_lists_what_is_allowed():
    error = InvalidEnvs("found an int.", ("near", "a"))
    assert str(error) == (
        "make_env must return a gymnasium Env or VectorEnv, a callable that makes an Env or a list "
        "of them, {task: env} or {suite: {task: env}}: found an int."
    )
    assert error.key == ("near", "a")
    assert InvalidEnvs("found an int.").key == ()


# Foreign text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, \u00fcber \u65b9\u5757", "plain text, \u00fcber \u65b9\u5757"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("over\rwritten\b\x7f", r"over\rwritten\x08\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("zero\u200bwidth\u2028", r"zero\u200bwidth\u2028"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\0", r"\x00"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_but_printable_text_lines_and_tabs_is_left(text):
    shown = printable(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    assert printable(shown) == shown
    shown.encode("utf-8")
