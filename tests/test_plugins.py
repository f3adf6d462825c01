import importlib
import sys
from importlib.util import find_spec
from textwrap import dedent
from types import ModuleType

import pytest

from envhub.declarations import Benchmark, Task
from envhub.discovery import Installed, chosen, find, installed
from envhub.errors import InvalidBenchmark, PluginError, UnknownName, UsageError
from envhub.plugins import Plugins

TASK = Task("reach", "reach the goal", 10)

HEAD = """
import envhub
from envhub import Benchmark, Task, hookimpl

def declare(name):
    return Benchmark(name, ":make", {"all": (Task("reach", "reach the goal", 10),)})
"""


def source(text):
    return HEAD + dedent(text)


def declaring(*names):
    """A plugin's source that declares benchmarks of these names."""
    return source(f"""
        @hookimpl
        def envhub_benchmarks():
            return [declare(name) for name in {names!r}]
    """)


def make_module(text, name="plugin"):
    module = ModuleType(name)
    exec(text, vars(module))
    return module


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts real distributions with entry points and a module on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = []

    def install(distribution, text, *names, module=None, version="1.0"):
        module = module or distribution.replace("-", "_")
        modules.append(module)
        info = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        files = {
            tmp_path / f"{module}.py": text,
            info / "METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
            info / "entry_points.txt": "\n".join(
                ["[envhub]", *(f"{name} = {module}" for name in names), "[console_scripts]"]
            ),
        }
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
        listed = [path.relative_to(tmp_path).as_posix() for path in files]
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in listed), encoding="utf-8")
        importlib.invalidate_caches()

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def dummies():
    """The installed plugins without those that the machine has anyway."""
    return [plugin for plugin in installed() if plugin.distribution.startswith("dummy-")]


# Listing


def test_listing_imports_no_plugin(install):
    for number in range(50):
        install(f"dummy-{number:02}", "raise RuntimeError('imported')", f"orchard-{number:02}")
    before = set(sys.modules)
    found = dummies()
    assert [plugin.name for plugin in found] == [f"orchard-{number:02}" for number in range(50)]
    assert find("orchard-07").distribution == "dummy-07"
    assert not [name for name in set(sys.modules) - before if name.startswith("dummy")]


def test_listing_tells_what_the_metadata_says(install):
    install("dummy-orchard", declaring("apple"), "pear", "apple", version="2.3")
    assert dummies() == [
        Installed("apple", "dummy_orchard", "dummy-orchard", "2.3"),
        Installed("pear", "dummy_orchard", "dummy-orchard", "2.3"),
    ]


@pytest.mark.parametrize(
    ("variable", "names", "found"),
    [
        (None, None, ["apple", "pear", "plum"]),
        ("", (), []),
        (" , ", (), []),
        ("apple", ("apple",), ["apple"]),
        ("pear, apple,pear,", ("apple", "pear"), ["apple", "pear"]),
        ("apple,absent", ("absent", "apple"), ["apple"]),
    ],
)
def test_a_variable_limits_the_plugins(install, monkeypatch, variable, names, found):
    install("dummy-orchard", declaring("apple"), "apple", "pear", "plum")
    if variable is not None:
        monkeypatch.setenv("ENVHUB_PLUGINS", variable)
    assert chosen() == names
    assert [plugin.name for plugin in dummies()] == found


def test_a_plugin_outside_the_limit_cannot_be_loaded(install, monkeypatch):
    install("dummy-orchard", declaring("apple"), "apple")
    monkeypatch.setenv("ENVHUB_PLUGINS", "pear")
    with pytest.raises(UnknownName, match="No installed benchmark is called 'apple'"):
        Plugins().load("apple")
    assert "dummy_orchard" not in sys.modules


# Finding


def test_an_unknown_plugin_is_answered_with_the_closest(install):
    install("dummy-orchard", declaring("orchard-apple"), "orchard-apple")
    with pytest.raises(UnknownName) as caught:
        find("orchard-aple")
    assert caught.value.matches[0] == "orchard-apple"
    assert "Did you mean 'orchard-apple'" in str(caught.value)
    assert "Write ./NAME for a local benchmark" in str(caught.value)


def test_two_packages_that_claim_a_name_are_both_named(install):
    install("dummy-b", declaring("apple"), "apple")
    install("dummy-a", declaring("apple"), "apple", "pear")
    with pytest.raises(PluginError) as caught:
        Plugins().load("apple")
    assert str(caught.value) == (
        "Plugin 'apple' is claimed by dummy-a and dummy-b: uninstall one of them."
    )
    assert find("pear").distribution == "dummy-a"


def test_a_name_that_no_benchmark_may_have_is_refused(install):
    install("dummy-orchard", declaring("apple"), "an apple")
    with pytest.raises(PluginError, match="'an apple' does not have a valid name for a benchmark"):
        find("an apple")


# Loading


def test_loading_imports_only_the_plugin_asked_for(install):
    install("dummy-good", declaring("apple"), "apple")
    install("dummy-bad", "raise RuntimeError('imported')", "pear")
    plugins = Plugins()
    plugins.load("apple")
    assert [benchmark.name for benchmark in plugins.benchmarks("apple")] == ["apple"]
    assert "dummy_bad" not in sys.modules


@pytest.mark.parametrize(
    ("text", "cause", "detail"),
    [
        ("raise RuntimeError('no GPU')", RuntimeError, "RuntimeError: no GPU"),
        ("import absent_simulator", ModuleNotFoundError, "No module named 'absent_simulator'"),
        ("def", SyntaxError, "SyntaxError: "),
        ("import sys; sys.exit(3)", SystemExit, "SystemExit: 3"),
        ("raise SystemExit", SystemExit, "SystemExit: "),
    ],
)
def test_a_bad_plugin_is_reported_and_hides_no_other(install, text, cause, detail):
    install("dummy-bad", text, "pear")
    install("dummy-good", declaring("apple"), "apple")
    plugins = Plugins()
    with pytest.raises(PluginError) as caught:
        plugins.load("pear")
    assert caught.value.plugin == "pear"
    assert caught.value.distribution == "dummy-bad"
    assert isinstance(caught.value.__cause__, cause)
    assert str(caught.value).startswith("Plugin 'pear' of dummy-bad cannot be imported: ")
    assert detail in str(caught.value)
    plugins.load("apple")
    assert plugins.benchmark("apple").name == "apple"
    assert [plugin.name for plugin in dummies()] == ["apple", "pear"]


def test_an_interrupt_is_not_taken_for_a_bad_plugin(install):
    install("dummy-slow", "raise KeyboardInterrupt", "pear")
    with pytest.raises(KeyboardInterrupt):
        Plugins().load("pear")


def test_an_entry_point_without_its_module_is_reported(install, tmp_path):
    install("dummy-gone", "", "pear")
    (tmp_path / "dummy_gone.py").unlink()
    with pytest.raises(PluginError, match="'pear' of dummy-gone cannot be imported"):
        Plugins().load("pear")


def test_loading_again_changes_nothing(install):
    install("dummy-orchard", declaring("apple"), "apple")
    plugins = Plugins()
    plugins.load("apple")
    plugins.load("apple")
    assert len(plugins.benchmarks("apple")) == 1


def test_a_module_may_stand_behind_several_names(install):
    text = declaring("apple", "pear") + source("""
        @hookimpl
        def envhub_wrap_env():
            return str
    """)
    install("dummy-orchard", text, "apple", "pear")
    plugins = Plugins()
    plugins.load("apple")
    plugins.load("pear")
    assert plugins.benchmark("apple").name == "apple"
    assert plugins.benchmark("pear").name == "pear"
    assert plugins.wrappers(TASK) == (str,)


def test_a_file_cannot_take_the_name_of_a_loaded_plugin(install):
    install("dummy-orchard", declaring("apple"), "apple")
    plugins = Plugins()
    plugins.load("apple")
    with pytest.raises(PluginError, match="has the name of a loaded plugin"):
        plugins.register(make_module(declaring("other")), "apple")
    assert plugins.benchmark("apple").name == "apple"


# What pluggy would let pass in silence

TRAPS = {
    "a default": (
        """
        @hookimpl
        def envhub_wrap_env(task=None):
            return None
        """,
        "(task=None), where task would get no value: write envhub_wrap_env(task), without default",
    ),
    "a keyword with a default": (
        """
        @hookimpl
        def envhub_wrap_env(*, task=None):
            return None
        """,
        "where task would get no value",
    ),
    "a keyword": (
        """
        @hookimpl
        def envhub_wrap_env(*, task):
            return None
        """,
        "where task would get no value",
    ),
    "any keywords": (
        """
        @hookimpl
        def envhub_wrap_env(task, *args, **kwargs):
            return None
        """,
        "implements envhub_wrap_env(task, *args, **kwargs), where args, kwargs would get no value",
    ),
    "a published make_env as a hook": (
        """
        @hookimpl(specname="envhub_benchmarks")
        def make_env(n_envs=1, use_async_envs=False):
            return []
        """,
        "where n_envs, use_async_envs would get no value: write envhub_benchmarks(), without",
    ),
    "an unknown parameter": (
        """
        @hookimpl
        def envhub_wrap_env(task, suite):
            return None
        """,
        "implements envhub_wrap_env(task, suite), where suite would get no value",
    ),
    "an unknown parameter beside a good hook": (
        """
        @hookimpl
        def envhub_benchmarks():
            return [declare("wrong")]

        @hookimpl
        def envhub_wrap_env(env):
            return None
        """,
        "where env would get no value",
    ),
    "a misspelled hook": (
        """
        @hookimpl
        def envhub_benchmark():
            return [declare("wrong")]
        """,
        "envhub_benchmark, which is not a hook; the hooks are envhub_benchmarks, ",
    ),
    "a misspelled hook beside a good one": (
        """
        @hookimpl
        def envhub_benchmarks():
            return [declare("wrong")]

        @hookimpl
        def envhub_wrap_envs(task):
            return None
        """,
        "implements envhub_wrap_envs, which is not a hook",
    ),
    "no mark": (
        """
        def envhub_benchmarks():
            return [declare("wrong")]
        """,
        "defines envhub_benchmarks without @envhub.hookimpl.",
    ),
    "no mark on the second hook": (
        """
        @hookimpl
        def envhub_benchmarks():
            return [declare("wrong")]

        def envhub_wrap_env(task):
            return None
        """,
        "defines envhub_wrap_env without @envhub.hookimpl.",
    ),
    "no hook": (
        """
        def make_env(n_envs=1):
            return None
        """,
        "implements no hook: mark envhub_benchmarks with @envhub.hookimpl.",
    ),
    "what pluggy itself refuses": (
        """
        @hookimpl(wrapper=True)
        def envhub_benchmarks():
            return [declare("wrong")]
        """,
        "cannot be registered: Declared as wrapper=True or hookwrapper=True but function is not a",
    ),
}


@pytest.mark.parametrize(("text", "problem"), TRAPS.values(), ids=TRAPS)
def test_a_plugin_that_pluggy_would_misread_is_refused_and_forgotten(text, problem):
    plugins = Plugins()
    with pytest.raises(PluginError) as caught:
        plugins.register(make_module(source(text)), "apple", distribution="dummy-orchard")
    assert caught.value.plugin == "apple"
    assert caught.value.distribution == "dummy-orchard"
    assert str(caught.value).startswith("Plugin 'apple' of dummy-orchard ")
    assert problem in str(caught.value)
    assert plugins.wrappers(TASK) == ()
    plugins.register(make_module(declaring("corrected")), "apple")
    assert [benchmark.name for benchmark in plugins.benchmarks("apple")] == ["corrected"]


def test_a_refused_plugin_can_be_loaded_once_it_is_corrected(install, tmp_path):
    install("dummy-orchard", source("def envhub_benchmarks(): return []"), "apple")
    plugins = Plugins()
    with pytest.raises(PluginError, match="'apple' of dummy-orchard defines envhub_benchmarks"):
        plugins.load("apple")
    del sys.modules["dummy_orchard"]
    (tmp_path / "dummy_orchard.py").write_text(declaring("apple") + "# corrected")
    plugins.load("apple")
    assert plugins.benchmark("apple").name == "apple"


@pytest.mark.parametrize(
    "text",
    [
        "@hookimpl\ndef envhub_wrap_env(): return str",
        "@hookimpl\ndef envhub_wrap_env(task): return str",
        "@hookimpl\ndef envhub_wrap_env(task, /): return str",
        "@hookimpl(specname='envhub_wrap_env')\ndef wrap(task): return str",
        "@hookimpl(tryfirst=True)\ndef envhub_wrap_env(task): return str",
    ],
)
def test_ways_to_write_a_hook(text):
    plugins = Plugins()
    plugins.register(make_module(source(text)), "apple")
    assert plugins.wrappers(TASK) == (str,)


# Declaring benchmarks


def test_no_plugin_shadows_another():
    plugins = Plugins()
    for name, declared in [("apple", ("apple", "shared")), ("pear", ("pear", "shared"))]:
        plugins.register(make_module(declaring(*declared), name), name)
    assert [benchmark.name for benchmark in plugins.benchmarks("apple")] == ["apple", "shared"]
    assert [benchmark.name for benchmark in plugins.benchmarks("pear")] == ["pear", "shared"]
    assert plugins.benchmark("apple") != plugins.benchmark("pear")
    assert plugins.benchmark("shared", plugin="pear").name == "shared"


def test_a_generator_may_declare():
    plugins = Plugins()
    text = """
        @hookimpl
        def envhub_benchmarks():
            yield declare("apple")
            yield declare("pear")
    """
    plugins.register(make_module(source(text)), "apple")
    declared = plugins.benchmarks("apple")
    assert [benchmark.name for benchmark in declared] == ["apple", "pear"]
    assert all(isinstance(benchmark, Benchmark) for benchmark in declared)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("raise RuntimeError('no GPU')", "failed in envhub_benchmarks: RuntimeError: no GPU"),
        ("yield declare('x'); 1 / 0", "failed in envhub_benchmarks: ZeroDivisionError: division"),
        ("raise SystemExit(2)", "failed in envhub_benchmarks: SystemExit: 2"),
        ("return 5", "failed in envhub_benchmarks: TypeError: 'int' object is not iterable"),
        ("return declare('x')", "failed in envhub_benchmarks: TypeError: 'Benchmark' object"),
        ("return ['x']", "declares a str instead of a Benchmark."),
        ("return [declare('x'), None]", "declares a NoneType instead of a Benchmark."),
        ("return {'x': declare('x')}", "declares a str instead of a Benchmark."),
        ("return None", "declares no benchmark in envhub_benchmarks."),
        ("return []", "declares no benchmark in envhub_benchmarks."),
        ("return; yield", "declares no benchmark in envhub_benchmarks."),
    ],
)
def test_a_declaration_that_fails_names_the_plugin(body, problem):
    plugins = Plugins()
    text = f"@hookimpl\ndef envhub_benchmarks():\n    {body}\n"
    plugins.register(make_module(source(text)), "apple", distribution="dummy-orchard")
    with pytest.raises(PluginError) as caught:
        plugins.benchmarks("apple")
    assert caught.value.plugin == "apple"
    assert caught.value.distribution == "dummy-orchard"
    assert str(caught.value).startswith(f"Plugin 'apple' of dummy-orchard {problem}")


def test_an_invalid_benchmark_speaks_for_itself():
    plugins = Plugins()
    text = "@hookimpl\ndef envhub_benchmarks():\n    yield Task('reach', 'reach the goal', 0)\n"
    plugins.register(make_module(source(text)), "apple")
    with pytest.raises(InvalidBenchmark, match="Task 'reach': horizon must be a whole number"):
        plugins.benchmarks("apple")


def test_a_plugin_that_only_wraps_declares_nothing():
    plugins = Plugins()
    plugins.register(make_module(source("@hookimpl\ndef envhub_wrap_env(): return str")), "apple")
    with pytest.raises(PluginError, match="'apple' does not implement envhub_benchmarks"):
        plugins.benchmarks("apple")


def test_a_plugin_must_declare_the_benchmark_of_its_name():
    plugins = Plugins()
    plugins.register(make_module(declaring("pear", "plum")), "apple", distribution="dummy-orchard")
    with pytest.raises(PluginError) as caught:
        plugins.benchmark("apple")
    assert str(caught.value) == (
        "Plugin 'apple' of dummy-orchard declares pear, plum, but no benchmark 'apple'."
    )


# Wrapping envs


def wrapping(returned):
    return source(f"""
        def first(env): return env + " first"
        def second(env): return env + " second"
        def third(env): return env + " third"

        @hookimpl
        def envhub_wrap_env(task):
            return {returned}
    """)


def test_wrappers_come_in_the_order_of_the_plugins_names():
    plugins = Plugins()
    for name, returned in [("pear", "second"), ("plum", "third"), ("apple", "first")]:
        plugins.register(make_module(wrapping(returned), name), name)
    env = "env"
    for wrap in plugins.wrappers(TASK):
        env = wrap(env)
    assert env == "env first second third"


def test_a_plugin_may_leave_a_task_alone():
    plugins = Plugins()
    returned = "first if task.name == 'push' else None"
    plugins.register(make_module(wrapping(returned), "apple"), "apple")
    plugins.register(make_module(declaring("pear"), "pear"), "pear")
    assert plugins.wrappers(TASK) == ()
    [wrap] = plugins.wrappers(Task("push", "push the block", 10))
    assert wrap("env") == "env first"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (wrapping("'noise'"), "returned a str from envhub_wrap_env, not a callable."),
        (wrapping("1 / 0"), "failed in envhub_wrap_env: ZeroDivisionError: division by zero"),
        (wrapping("exit(4)"), "failed in envhub_wrap_env: SystemExit: 4"),
        (
            source("@hookimpl\ndef envhub_wrap_env(task): yield str"),
            "returned a generator from envhub_wrap_env, not a callable.",
        ),
        (
            source("@hookimpl(wrapper=True)\ndef envhub_wrap_env(task):\n    yield\n"),
            "failed in envhub_wrap_env: TypeError: 'NoneType' object is not iterable",
        ),
    ],
)
def test_a_bad_wrapper_names_the_plugin(text, problem):
    plugins = Plugins()
    plugins.register(make_module(wrapping("first"), "apple"), "apple")
    plugins.register(make_module(text, "pear"), "pear", distribution="dummy-orchard")
    with pytest.raises(PluginError) as caught:
        plugins.wrappers(TASK)
    assert caught.value.plugin == "pear"
    assert caught.value.distribution == "dummy-orchard"
    assert str(caught.value) == f"Plugin 'pear' of dummy-orchard {problem}"


OBSERVER = """
import envhub
SEEN = []

@envhub.hookimpl
def envhub_run_started(run):
    SEEN.append(("started", run))

@envhub.hookimpl
def envhub_episode_finished(run, record):
    SEEN.append(("finished", record))

@envhub.hookimpl
def envhub_run_finished(summary):
    SEEN.append(("ended", summary))
"""


def test_observers_are_told_in_the_order_of_their_names():
    plugins, seen = Plugins(), make_module(OBSERVER, "seen")
    plugins.register(seen, "seen")
    assert plugins.run_started("run") == []
    assert plugins.episode_finished("run", "record") == []
    assert plugins.run_finished("run", "summary") == []
    assert seen.SEEN == [("started", "run"), ("finished", "record"), ("ended", "summary")]


def test_an_observer_that_fails_is_named_and_told_no_more():
    plugins = Plugins()
    bad = make_module(OBSERVER.replace('SEEN.append(("started", run))', "1 / 0"), "bad")
    good = make_module(OBSERVER, "good")
    plugins.register(bad, "bad")
    plugins.register(good, "good")
    [problem] = plugins.run_started("run")
    assert (
        str(problem)
        == "Plugin 'bad' failed in envhub_run_started: ZeroDivisionError: division by zero"
    )
    assert plugins.episode_finished("run", "record") == []
    assert bad.SEEN == []
    assert [what for what, _ in good.SEEN] == ["started", "finished"]


def logger(place, text, name="notes", distribution="my-notes"):
    """Put a distribution with a logger on the path."""
    module = distribution.replace("-", "_")
    (place / f"{module}.py").write_text(text)
    info = place / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[envhub.loggers]\n{name} = {module}\n")


def test_a_logger_is_loaded_for_its_name_alone(tmp_path, monkeypatch):
    logger(tmp_path, OBSERVER, distribution="asked-logger")
    logger(tmp_path, "1 / 0", name="other", distribution="other-logger")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = Plugins()
    plugins.load_loggers(["notes", "notes"])
    plugins.load_observers()
    assert plugins.run_started("run") == []
    import asked_logger

    assert asked_logger.SEEN == [("started", "run")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notse", "No logger is called 'notse'. Did you mean 'notes'?"),
        ("notes", "--log notes needs the package nowhere, which is not installed. pip install"),
        ("mlflow", "pip install './plugins/loggers[mlflow]'"),
    ],
)
def test_a_logger_that_is_missing_says_what_to_type(tmp_path, monkeypatch, name, said):
    if name == "mlflow" and find_spec("mlflow"):
        pytest.skip("MLflow is installed")
    logger(tmp_path, "import nowhere", distribution=f"lacking-{name}")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError) as caught:
        Plugins().load_loggers([name])
    assert said in str(caught.value)


def test_the_error_of_an_observer_is_one_line():
    plugins = Plugins()
    text = OBSERVER.replace(
        'SEEN.append(("started", run))', "raise OSError('full:\\n' + 'x' * 9000)"
    )
    plugins.register(make_module(text, "bad"), "bad")
    [problem] = plugins.run_started("run")
    assert str(problem).startswith("Plugin 'bad' failed in envhub_run_started: OSError: full: xxx")
    assert "\n" not in str(problem)
    assert len(str(problem)) < 500


def test_installed_observers_are_loaded(tmp_path, monkeypatch):
    (tmp_path / "my_observer.py").write_text(OBSERVER)
    info = tmp_path / "my_observer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-observer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[envhub.observers]\nlog = my_observer\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = Plugins()
    plugins.load_observers()
    assert plugins.run_started("run") == []
    import my_observer

    assert my_observer.SEEN == [("started", "run")]
