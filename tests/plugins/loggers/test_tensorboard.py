"""`--log tensorboard`: the event files, read back by TensorBoard itself."""

import json

import pytest
from support.needs import needs_tensorboard
from support.paths import ASSETS, TESTS
from support.run_tools import WALK, ended, envhub, outcomes, start

pytestmark = needs_tensorboard
EXAMPLES = TESTS.parent / "docs" / "examples"
REACH, STEER = EXAMPLES / "reach", EXAMPLES / "policies" / "steer.py"


@pytest.fixture
def read(tmp_path):
    from support import logged

    return lambda: logged.tensorboard(tmp_path)


def test_a_run_its_baseline_and_its_failures_are_logged(tmp_path, read):
    out = tmp_path / "run"
    answer = envhub(
        *("eval", REACH, "--policy", STEER, "--task", "reach-red", "--episodes", 4),
        *("--env-arg", "size=64", "--baselines", "zero", "--video", 1, "--json", "--workers", 1),
        *("--max-steps", 4, "--log", "tensorboard", "--out", out),
    )
    assert answer.code == 0, answer.err
    told, found = json.loads(answer.out), read()
    overall = told["overall"]
    for name in ("rate", "ci_low", "ci_high", "mean_return"):
        assert found["values"][f"overall/{name}"] == [[4, pytest.approx(overall[name])]]
    returns = [record["return"] for _, record in sorted(outcomes(out).items())]
    assert [value for _, value in found["values"]["episode/return"]] == pytest.approx(returns)
    assert [step for step, _ in found["values"]["so_far/rate"]] == [1, 2, 3, 4]
    assert found["values"]["latency/calls"][0][1] > 0
    assert found["about"]["protocol"] == told["protocol"]
    assert found["about"]["policy_identity"] == "make_policy of a file"
    (name, begin), *others = found["videos"]
    failed = {f"{task}:{k}" for (task, k), each in outcomes(out).items() if not each["success"]}
    assert 0 < overall["rate"] < 1
    assert (name in failed, begin, others) == (True, b"GIF8".hex(), [])
    assert list((out / "baselines" / "zero" / "tensorboard").iterdir())


def test_a_resumed_run_goes_on_where_it_was(tmp_path, read):
    out = tmp_path / "run"
    question = ("eval", WALK, "--policy", "zero", "--task", "near", "--episodes", 3)
    how = ("--workers", 0, "--log", "tensorboard", "--quiet")
    assert envhub(*question, *how, "--out", out).code == 0
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text(lines[0])
    assert envhub("eval", "--resume", out, *how).code == 0
    steps = [step for step, _ in read()["values"]["so_far/episodes"]]
    assert steps[-2:] == [2, 3]


def test_a_logger_that_fails_is_told_of_once_and_disabled(tmp_path):
    """Its place is taken by a file; the run goes on without it."""
    out = tmp_path / "run"
    question = ("eval", WALK, "--policy", "zero", "--task", "near", "--episodes", 3)
    assert envhub(*question, "--workers", 1, "--quiet", "--out", out).code == 0
    due = outcomes(out)
    (out / "episodes.jsonl").write_text("")
    (out / "tensorboard").write_text("in the way")
    answer = envhub("eval", "--resume", out, "--workers", 1, "--log", "tensorboard", "--quiet")
    assert answer.code == 0, answer.err
    (line,) = [line for line in answer.err.splitlines() if "disabled" in line]
    assert line.startswith("envhub: Plugin 'tensorboard' of envhub-loggers failed in ")
    assert line.endswith("disabled for the rest of this run.")
    assert "Traceback" not in answer.err
    assert outcomes(out) == due
    assert (out / "tensorboard").read_text() == "in the way"


def test_nothing_is_imported_or_left_without_it(tmp_path):
    answer = ended(
        start(
            *("eval", WALK, "--policy", "zero", "--task", "near", "--episodes", 1, "--workers", 1),
            *("--out", tmp_path / "run"),
            PYTHONPROFILEIMPORTTIME="1",
        )
    )
    assert answer.code == 0
    assert "envhub.evaluation.run" in answer.err
    assert "envhub_loggers" not in answer.err
    assert "tensorboard" not in answer.err
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_a_run_that_never_played_leaves_nothing(tmp_path):
    """Its directory can be used again."""
    answer = envhub(
        *("eval", WALK, "--policy", f"{ASSETS}/run_policies/walkers.py:missing"),
        *("--out", tmp_path / "run", "--log", "tensorboard", "--workers", 1),
    )
    assert answer.code != 0
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_cells_of_an_experiment_are_logged_apart(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        f'seeds = [0, 1]\n[policies]\nzero = "zero"\n[benchmarks.walk]\nref = "{WALK}"\n'
        'tasks = ["near"]\nepisodes = 2\n'
    )
    answer = envhub(
        *("eval", path, "--out", tmp_path / "out", "--workers", 2, "--log", "tensorboard"),
        "--quiet",
    )
    assert answer.code == 0, answer.err
    for cell in ("zero-walk-seed0", "zero-walk-seed1"):
        assert list((tmp_path / "out" / cell / "tensorboard").iterdir())
