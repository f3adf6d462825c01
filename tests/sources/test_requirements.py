"""The requirements that an env file declares."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub.errors import ContractError
from envhub.sources.requirements import (
    Requirements,
    _find_blocks,
    read_requirements,
    read_requirements_file,
    requirements_at,
)


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


# requirements.txt beside the file


@pytest.mark.parametrize(
    ("content", "packages"),
    [
        (b"gym-pusht\nnumpy>=1.26 # arrays\n", ("gym-pusht", "numpy>=1.26")),
        (b"# only a comment\n\n   \n", ()),
        (b"\xef\xbb\xbfnumpy\r\nscipy\r\n", ("numpy", "scipy")),
        (b"numpy \\\n  >=1.26\n", ("numpy>=1.26",)),
        (b"# a comment does not go on \\\nnumpy\n", ("numpy",)),
        (b"a[x]; python_version < '4'", ('a[x]; python_version < "4"',)),
        (b"a#b\n"[:1], ("a",)),
    ],
)
def test_lines_of_requirements_txt(content, packages):
    file = "requirements.txt" if packages else None
    assert read_requirements_file(content) == Requirements(packages=packages, file=file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-r other.txt", "'-r other.txt' is an option"),
        ("-e .", "'-e .' is an option"),
        ("-c constraints.txt", "is an option"),
        ("--index-url https://example.org", "is an option"),
        ("--extra-index-url=https://example.org", "is an option"),
        ("numpy --no-binary :all:", "is an option"),
        ("numpy -i https://example.org", "is an option"),
        ("numpy==1.0 --hash=sha256:00", 'has hashes; .* lock = "requirements.txt"'),
        ("https://example.org/x.whl", "not URLs or files"),
        ("git+https://example.org/x", "not URLs or files"),
        ("x @ file:///x.whl", "not URLs or files"),
        ("./x", "not URLs or files"),
        ("/x/y.whl", "not URLs or files"),
        ("x.whl", "not URLs or files"),
        ("${SECRET}", "is not a valid requirement"),
        ("numpy>=1 scipy", "is not a valid requirement"),
        ("caf\u00e9", "is not a valid requirement"),
        ("x" * 600, "more than 500 characters"),
    ],
)
def test_lines_that_are_refused(line, message):
    content = f"numpy\n\n{line}\n".encode()
    with pytest.raises(ContractError, match=rf"^requirements\.txt, line 3: .*{message}"):
        read_requirements_file(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("numpy".encode("utf-16"), "requirements.txt is not UTF-8 text"),
        (b"\xff\xfe\xfa", "requirements.txt is not UTF-8 text"),
        (b"#" * 70_000, "more than 65,536 bytes"),
        (b"a\n" * 501, "501 packages are required; at most 500"),
    ],
)
def test_files_that_are_refused(content, message):
    with pytest.raises(ContractError, match=message):
        read_requirements_file(content)


def test_a_block_wins_over_the_file_beside(tmp_path):
    env = tmp_path / "env.py"
    (tmp_path / "requirements.txt").write_text("scipy\n")
    env.write_text("import os\n")
    assert requirements_at(env) == Requirements(packages=("scipy",), file="requirements.txt")
    env.write_text(block('dependencies = ["numpy"]'))
    assert requirements_at(env) == Requirements(packages=("numpy",))
    env.write_text(block("dependencies = []"))
    assert requirements_at(env) == Requirements()


def test_without_either_nothing_is_required(tmp_path):
    (tmp_path / "env.py").write_text("import os\n")
    (tmp_path / "requirements.txt").mkdir()
    assert requirements_at(tmp_path / "env.py") == Requirements()
