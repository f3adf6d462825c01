"""The requirements that an env file declares."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub.errors import ContractError
from envhub.sources.requirements import Requirements, _find_blocks, read_requirements


def block(*lines: str) -> str:
    return "\n".join(["import os", "# /// script", *(f"# {line}" for line in lines), "# ///", ""])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os\n", Requirements()),
        (block('dependencies = ["mujoco==3.3.0"]'), Requirements(None, ("mujoco==3.3.0",))),
        (
            block(
                'requires-python = ">=3.11"', 'dependencies = ["a", "b[x]>1; python_version<\'4\'"]'
            ),
            Requirements(">=3.11", ("a", 'b[x]>1; python_version < "4"')),
        ),
        (
            block("dependencies = []", "[tool.envhub]", 'lock = "runtime.txt"'),
            Requirements(None, (), "runtime.txt"),
        ),
    ],
)
def test_what_is_accepted(text, expected):
    assert read_requirements(text) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['dependencies = ["x @ https://example.org/x.whl"]'], "not URLs"),
        (['dependencies = ["-r other.txt"]'], "not a valid requirement"),
        (["dependencies = ['x; python_version > \"3\\n--index-url y\"']"], "in one line"),
        (["dependencies = ['x; python_version > \"3\\u2028-r y\"']"], "in one line"),
        (['dependencies = "x"'], "list of strings"),
        (["dependencies = [1]"], "list of strings"),
        (["[tool.uv]", 'index-url = "https://example.org"'], "tool.uv"),
        (["[tool.uv.sources]", 'x = { git = "https://example.org" }'], "tool.uv"),
        (['index = "x"'], "'index'"),
        (['requires-python = "three"'], "not a version"),
        (["requires-python = 3"], "not a version"),
        (["dependencies = ["], "not valid TOML"),
        (["[tool.envhub]", 'lock = "../runtime.txt"'], "in its directory"),
    ],
)
def test_what_is_refused(lines, message):
    with pytest.raises(ContractError, match=message):
        read_requirements(block(*lines))


def test_two_blocks_are_refused():
    with pytest.raises(ContractError, match=r"^env\.py, line 6: more than one requirements block"):
        read_requirements(block("dependencies = []") + block("dependencies = []"))


def test_a_byte_order_mark_hides_nothing():
    text = block('dependencies = ["a"]').removeprefix("import os\n")
    assert read_requirements("\ufeff" + text) == Requirements(None, ("a",))


PEP_723 = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""The regular expression of the reference implementation."""
LINES = st.sampled_from(
    ["# /// script", "# ///", "#", "# dependencies = ['a']", "# [tool]", "#x", "x = 1", "# /// x"]
)


@given(st.lists(LINES, max_size=12))
def test_blocks_are_those_of_the_reference_implementation(lines):
    text = "\n".join(lines) + "\n"
    found = ["\n".join(block.lines) for block in _find_blocks(text, "env.py")]
    expected = [
        "\n".join(line[2:] for line in match["content"].splitlines())
        for match in PEP_723.finditer(text)
    ]
    assert found == expected


def test_the_line_that_is_wrong_is_named():
    text = block('requires-python = ">=3.11"', "dependencies = [", '  "a",', '  "-r b",', "]")
    with pytest.raises(ContractError, match=r"^envs/env\.py, line 6: '-r b' is not a valid"):
        read_requirements(text, "envs/env.py")
