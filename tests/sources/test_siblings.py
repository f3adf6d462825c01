"""The files that a Python file imports from below its directory."""

import hashlib

import pytest

from envhub.sources.siblings import hash_siblings

TREE = {
    "near.py": "import far.deep\n",
    "far/__init__.py": "",
    "far/deep.py": "from . import other\nfrom ..near import x\n",
    "far/other.py": "",
    "far/unused.py": "",
    "alone.py": "import json, numpy\n",
    "torn.py": "def f(:\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("", []),
        ("import json\nimport numpy as np", []),
        ("import alone", ["alone.py"]),
        ("from . import alone, torn", ["alone.py", "torn.py"]),
        ("from alone import x", ["alone.py"]),
        ("def f():\n    import far.other", ["far/__init__.py", "far/other.py"]),
        ("from far import other", ["far/__init__.py", "far/other.py"]),
        ("import near", ["far/__init__.py", "far/deep.py", "far/other.py", "near.py"]),
        ("from .... import alone", []),
        ("def f(:", []),
    ],
)
def test_what_is_imported(tree, code, found):
    (tree / "policy.py").write_text(code)
    hashes = hash_siblings(tree / "policy.py")
    assert sorted(hashes) == found
    for name, digest in hashes.items():
        assert digest == f"sha256:{hashlib.sha256(TREE[name].encode()).hexdigest()}"


def test_the_package_of_the_file_is_executed_before_it(tree):
    (tree / "__init__.py").write_text("import alone\n")
    (tree / "policy.py").write_text("")
    assert sorted(hash_siblings(tree / "policy.py")) == ["__init__.py", "alone.py"]
