"""The requirements that an env file declares."""

import pytest

from envhub.errors import ContractError
from envhub.sources.requirements import Requirements, read_requirements


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
    with pytest.raises(ContractError, match="more than one requirements block"):
        read_requirements(block("dependencies = []") + block("dependencies = []"))
