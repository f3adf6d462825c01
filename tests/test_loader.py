"""Loading files, in this process: what a worker does with one."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from support.sources import confined

from envhub.errors import ContractError
from envhub.loader import load_file, load_object, load_source
from envhub.types import Confinement, FileSource

PACKAGE = "envhub_local_test"


@pytest.fixture(autouse=True)
def _as_in_a_worker(monkeypatch):
    """Loading adds to `sys.path` and `sys.modules`; take it back."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - before:
        if name == "helper" or name.partition(".")[0].startswith(PACKAGE):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    """Writes files into a directory."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


class TestLoadFile:
    def test_a_relative_sibling_and_data_beside_the_file(self, assets):
        module = load_file(assets / "hooks", "env.py", PACKAGE)
        assert module.__name__ == f"{PACKAGE}.env"
        assert module.__package__ == PACKAGE
        assert module.__file__ == str(assets / "hooks" / "env.py")
        assert module.Counting.__module__ == f"{PACKAGE}.counting"
        assert [row.goal for row in module.rows()] == [3, 5, 9]

    def test_a_dataclass_with_annotations_as_text(self, assets):
        module = load_file(assets / "hooks", "env.py", PACKAGE)
        assert module.Row("a", 1) == module.Row(name="a", goal=1)
        assert pickle.loads(pickle.dumps(module.Row("a", 1))) == module.Row("a", 1)

    def test_a_plain_sibling(self, assets):
        module = load_file(assets / "absolute_sibling", "env.py", PACKAGE)
        assert module.helper.__file__ == str(assets / "absolute_sibling" / "helper.py")

    def test_a_sibling_comes_before_whatever_is_installed(self, write, tmp_path_factory):
        elsewhere = tmp_path_factory.mktemp("installed")
        (elsewhere / "helper.py").write_text("WHERE = 'installed'")
        sys.path.insert(0, str(elsewhere))
        directory = write({"env.py": "import helper", "helper.py": "WHERE = 'beside'"})
        assert load_file(directory, "env.py", PACKAGE).helper.WHERE == "beside"

    def test_a_package_that_imports_the_file_itself(self, assets):
        module = load_file(assets / "package_init", "env.py", PACKAGE)
        assert module.executions == [f"{PACKAGE}.env"]
        assert sys.modules[PACKAGE].env is module
        assert sys.modules[PACKAGE].TWICE == 66

    def test_the_init_file_itself(self, assets):
        module = load_file(assets / "package_init", "__init__.py", PACKAGE)
        assert module is sys.modules[PACKAGE]
        assert module.env.executions == [f"{PACKAGE}.env"]

    def test_a_file_deeper_inside(self, write):
        reach = "from ...top import NAME as top\nfrom .near import NAME as near\nimport helper"
        directory = write(
            {
                "top.py": "NAME = 'top'",
                "envs/arms/near.py": "NAME = 'near'",
                "envs/arms/helper.py": "NAME = 'plain'",
                "envs/arms/reach.py": reach,
            }
        )
        module = load_file(directory, "envs/arms/reach.py", PACKAGE)
        assert module.__name__ == f"{PACKAGE}.envs.arms.reach"
        assert (module.top, module.near, module.helper.NAME) == ("top", "near", "plain")

    @pytest.mark.parametrize("more", ["", "\nfrom . import envs", "\nfrom .envs import reach"])
    def test_init_files_on_the_way_run_once_and_first(self, write, more):
        directory = write(
            {
                "__init__.py": "order = ['top']" + more,
                "envs/__init__.py": "from .. import order\norder.append('envs')",
                "envs/reach.py": "from .. import order\norder.append('reach')",
            }
        )
        assert load_file(directory, "envs/reach.py", PACKAGE).order == ["top", "envs", "reach"]

    def test_a_name_with_a_dot_a_dash_and_a_space(self, write):
        directory = write({"sibling.py": "NAME = 1"})
        (directory / "my env-1.5.py").write_text("from .sibling import NAME")
        assert load_file(directory, "my env-1.5.py", PACKAGE).NAME == 1

    def test_same_names_in_two_directories(self, write, assets):
        directory = write({"env.py": "from .counting import GOAL", "counting.py": "GOAL = 7"})
        first = load_file(directory, "env.py", f"{PACKAGE}_1")
        second = load_file(assets / "hooks", "env.py", f"{PACKAGE}_2")
        assert first.GOAL == 7
        assert not hasattr(second, "GOAL")

    @pytest.mark.parametrize(
        ("asset", "error", "text"),
        [
            ("raises", RuntimeError, "the scene file is damaged"),
            ("exits", SystemExit, "no licence found"),
            ("syntax_error", SyntaxError, "invalid syntax"),
            ("missing_module", ModuleNotFoundError, "a_simulator_that_nobody_has"),
        ],
    )
    def test_what_a_file_raises_is_left_as_it_is(self, assets, asset, error, text):
        with pytest.raises(error, match=text):
            load_file(assets / asset, "env.py", PACKAGE)

    def test_no_python(self, tmp_path):
        (tmp_path / "env.txt").touch()
        with pytest.raises(ContractError, match=r"^env\.txt is not a Python file\.$"):
            load_file(tmp_path, "env.txt", PACKAGE)


class TestLoadObject:
    def test_in_the_declaring_file(self, assets):
        module = load_file(assets / "hooks", "env.py", PACKAGE)
        assert load_object(":make", module, confined=False) is module.make

    def test_in_a_module(self):
        assert load_object("os.path:join", None, confined=False) is __import__("os").path.join

    @pytest.mark.parametrize(
        ("target", "declared", "message"),
        [
            (":mak", True, f"The benchmark names ':mak', but {PACKAGE}.env has no 'mak'."),
            (":make", False, "The benchmark names ':make', but the file has no 'make'."),
            ("os:mak", False, "The benchmark names 'os:mak', but os has no 'mak'."),
        ],
    )
    def test_not_there(self, assets, target, declared, message):
        module = load_file(assets / "hooks", "env.py", PACKAGE) if declared else None
        with pytest.raises(ContractError) as caught:
            load_object(target, module, confined=False)
        assert str(caught.value) == message

    def test_a_module_that_is_not_there(self):
        with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has"):
            load_object("a_module_that_nobody_has:make", None, confined=False)


def test_what_a_confined_source_names_is_loaded_in_workers_only(assets):
    """The one rule; a worker says that it is one when it starts."""
    with pytest.raises(ContractError, match="in a sandbox and is not loaded outside"):
        load_object("os.path:join", None, confined=True)
    source = FileSource(str(assets / "hooks"), "env.py", PACKAGE, "hooks")
    with pytest.raises(ContractError, match=r"env\.py belongs to a benchmark in a sandbox"):
        load_source(confined(source, Confinement("none", network=True)))
    code = "from envhub import loader; loader.enter_worker(); "
    code += "print(loader.load_object('os.path:join', None, confined=True).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "join\n"
