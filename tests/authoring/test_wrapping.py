"""`envhub new --from`: an existing env, run once in a worker and wrapped."""

import os
import sys
from pathlib import Path

import pytest
from support.commands import refused
from support.paths import DOCS
from support.projects import check_style, files_of, make, new, run

import envhub
from envhub.authoring.wrapping import look_at, read_origin
from envhub.errors import ContractError, UsageError, WorkerRaised
from envhub.options import Limits

ENV = '''"""As people write them."""
import os

import gymnasium as gym
import numpy as np

{head}


class Slide(gym.Env):
    metadata = {{"render_modes": ["rgb_array"], "render_fps": 10}}
    {body}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.goal = 0.0, float(self.np_random.uniform(1, 2))
        return self._observe(), {{}}

    def step(self, action):
        self.x += 0.2 * float(action[0])
        near = abs(self.x - self.goal) < 0.1
        return self._observe(), -abs(self.x - self.goal), False, False, {{{info}}}

    def render(self):
        return np.full((32, 32, 3), 200, np.uint8)

    def _observe(self):
        return np.array([self.x, self.goal], np.float32)
'''


def write(
    place: Path, name: str = "slide.py", head: str = "", body: str = "", info: str = ""
) -> Path:
    file = place / name
    file.write_text(ENV.format(head=head, body=body or "pass", info=info))
    return file


def look(text: object):
    return look_at(read_origin(str(text)), Limits())


def test_what_is_found(tmp_path):
    body = 'task_description = "slide to the goal"; max_episode_steps = 50'
    facts = look(write(tmp_path, body=body, info='"solved": near, "is_done": near, "x": self.x'))
    assert facts.task == "Slide"
    assert facts.call == 'Slide(render_mode="rgb_array")'
    assert facts.horizon == 50
    assert facts.instruction == "slide to the goal"
    assert facts.flags == ("is_done", "solved")
    assert facts.observation == "Box(-10.0, 10.0, (2,), float32)"
    assert facts.action == "Box(-1.0, 1.0, (1,), float32)"
    assert facts.drawn
    assert facts.packages == ()


def test_arguments_that_could_be_tasks(tmp_path):
    file = write(tmp_path)
    text = file.read_text().replace(
        "render_mode=None", 'render_mode=None, goal="red", *, n=3, f=1.5'
    )
    file.write_text(text)
    assert look(file).arguments == ("goal='red'", "n=3")


def test_keys_that_look_like_success_come_first(tmp_path):
    info = '"alive": True, "my_success": near, "success": near, "count": 1'
    assert look(write(tmp_path, info=info)).flags == ("success", "my_success", "alive")


def test_what_the_env_does_not_say_is_not_invented(tmp_path):
    facts = look(write(tmp_path))
    assert (facts.horizon, facts.instruction, facts.flags) == (None, None, ())


def test_an_installed_id():
    facts = look("gym:CartPole-v1")
    assert (facts.task, facts.horizon, facts.flags) == ("CartPole-v1", 500, ())
    assert facts.call.startswith('gym.make("CartPole-v1"')


def test_it_runs_in_a_worker_and_not_here(tmp_path):
    seen = tmp_path / "seen"
    look(write(tmp_path, head=f"open({str(seen)!r}, 'a').write(f'{{os.getpid()}}\\n')"))
    assert str(os.getpid()) not in seen.read_text().split()


def test_an_env_without_render_modes_is_made_without_one(tmp_path):
    file = tmp_path / "plain.py"
    text = ENV.format(head="", body="pass", info="")
    file.write_text(text.replace("render_mode=None", "").replace("= render_mode", "= None"))
    assert look(file).call == "Slide()"


def test_a_function_or_one_of_several_classes(tmp_path):
    file = write(tmp_path)
    others = ("class Other(Slide):\n    pass", "class Third(Slide):\n    pass")
    function = "def small():\n    return Slide()\n"
    file.write_text("\n\n\n".join([file.read_text(), *others, function]))
    with pytest.raises(ContractError, match=r"slide.py has Other, Third: name what makes the env"):
        look(file)
    assert look(f"{file}:Third").task == "Third"
    assert look(f"{file}:small").call == "small()"
    with pytest.raises(ContractError, match=r"slide.py has no class or function 'Fourth'"):
        look(f"{file}:Fourth")


def test_what_raises_is_named(tmp_path):
    with pytest.raises(WorkerRaised, match="ZeroDivisionError"):
        look(write(tmp_path, head="1 / 0"))
    file = tmp_path / "none.py"
    file.write_text("x = 1\n")
    with pytest.raises(ContractError, match=r"none.py defines no gymnasium.Env: name what makes"):
        look(file)


def test_imported_packages_are_pinned(tmp_path):
    import msgspec

    file = write(tmp_path, head="import msgspec.json")
    assert read_origin(str(file)).packages == (f"msgspec=={msgspec.__version__}",)
    file.write_text('# /// script\n# dependencies = ["msgspec>=0.18"]\n# ///\n' + file.read_text())
    assert read_origin(str(file)).packages == ("msgspec>=0.18",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "is neither ./file.py, ./file.py:NAME nor gym:ID"),
        ("gym:", "does not name an env: write e.g. gym:CartPole-v1"),
        ("gym:a b", "does not name an env"),
        ("./missing.py", "does not exist"),
        ("./missing.py:a-b", "'a-b' is not the name of a class or function"),
    ],
)
def test_what_cannot_be_wrapped(tmp_path, monkeypatch, text, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as raised:
        read_origin(text)
    assert words in str(raised.value)


def test_a_file_with_others_beside_it(tmp_path):
    (tmp_path / "tools.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"imports tools.py beside it, and only one file"):
        read_origin(str(write(tmp_path, head="import tools")))


# The project


SAID = {"instruction": "slide to the goal", "horizon": "40"}


def test_the_project_and_its_records(tmp_path):
    file = write(tmp_path, info='"solved": near')
    project = make(tmp_path, "--from", str(file), answers={**SAID, "success": "solved"})
    assert project.name == "envhub-slide"
    assert files_of(project) == {
        ".github/workflows/tests.yml", ".gitignore", "README.md", "env.py", "pyproject.toml",
        "envhub_slide/__init__.py", "envhub_slide/env.py", "envhub_slide/slide.py",
        "envhub_slide/suites.py", "tests/test_benchmark.py",
    }  # fmt: skip
    assert (project / "envhub_slide" / "slide.py").read_bytes() == file.read_bytes()
    policy = tmp_path / "right.py"
    policy.write_text(
        "import numpy as np\n"
        "class Right:\n"
        "    def act(self, obs, episodes):\n"
        "        assert episodes[0].description == 'slide to the goal'\n"
        "        return np.sign(obs[:, 1:] - obs[:, :1]) * 0.5\n"
        "def make_policy(*_):\n"
        "    return Right()\n"
    )
    right = envhub.evaluate(project, policy, episodes=3, workers=1, out=tmp_path / "right")
    zero = envhub.evaluate(project, "zero", episodes=3, workers=1, out=tmp_path / "zero")
    assert [record.success for record in right.records()] == [True] * 3
    assert [(r.success, r.steps) for r in zero.records()] == [(False, 40)] * 3


def test_its_tests_pass_when_tasks_are_added(tmp_path):
    """And pytest warns of nothing."""
    file = DOCS / "examples" / "my_gym_env.py"
    project = make(tmp_path, "--from", str(file), answers={"instruction": "go to the mark"})
    suites = project / "envhub_slide" / "suites.py"
    suites.write_text(
        suites.read_text().replace("(task,)}", "(task, replace(task, name='again'))}")
        + "\n\nfrom dataclasses import replace\n"
    )
    printed = run(sys.executable, "-m", "pytest", "-q", "-W", "error", cwd=project)
    assert "1 xfailed" in printed
    assert "warning" not in printed


def test_survived_and_terminated_are_successes_without_a_key(tmp_path):
    """CartPole ends when the pole falls; an episode of 5 steps is survived by anybody."""
    answers = {"instruction": "balance", "success": "survived", "horizon": "5"}
    project = make(tmp_path, "--from", "gym:CartPole-v1", answers=answers)
    assert successes(project, tmp_path / "short") == [True, True]
    answers = {"instruction": "fall", "success": "terminated"}
    falling = make(tmp_path, "./fall", "--from", "gym:CartPole-v1", answers=answers)
    assert successes(falling, tmp_path / "fallen") == [True, True]


def successes(project: Path, out: Path) -> list[bool | None]:
    run = envhub.evaluate(project, episodes=2, workers=1, out=out)
    return [record.success for record in run.records()]


def test_none_means_returns_only(tmp_path):
    answers = {"instruction": "balance", "success": "none"}
    project = make(tmp_path, "--from", "gym:CartPole-v1", answers=answers)
    assert successes(project, tmp_path / "run") == [None, None]


def test_its_style(tmp_path):
    file = write(tmp_path, "env.py", info='"solved": near')
    answers = {"instruction": 'say "hi" \\ ' + "very " * 30 + "loud", "horizon": "40"}
    project = make(tmp_path, "--from", str(file), answers={**answers, "success": "solved"})
    assert "envhub_slide/wrapped_env.py" in files_of(project)
    check_style(project)


def test_what_the_env_does_not_say_must_be_said(tmp_path):
    done = new(tmp_path, "x", "--from", str(write(tmp_path)))
    assert done.code == 2
    assert "the env does not say its instruction. Add --set instruction=..." in done.err
    assert "observation  Box(-10.0, 10.0, (2,), float32)\n" in done.err
    assert os.listdir(tmp_path) == ["slide.py"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({**SAID, "horizon": "many"}, "horizon is 'many'; it must be a whole number of steps."),
        ({**SAID, "horizon": "0"}, "horizon is '0'; it must be a whole number of steps."),
        ({**SAID, "success": "a-b"}, "success is 'a-b', which is neither a key of info nor one of"),
        ({**SAID, "sucess": "a"}, "No answer is called 'sucess'. Did you mean"),
    ],
)
def test_wrong_answers_are_refused_before_anything_is_run(tmp_path, answers, words):
    file = write(tmp_path, head="raise RuntimeError('it was run')")
    refused(new(tmp_path, "x", "--from", str(file), answers=answers), 2, words)
    assert os.listdir(tmp_path) == ["slide.py"]


def test_an_env_that_fails_leaves_nothing(tmp_path):
    file = write(tmp_path, head="raise RuntimeError('no licence')")
    done = new(tmp_path, "x", "--from", str(file), answers=SAID)
    refused(done, 4, "no licence")
    assert os.listdir(tmp_path) == ["slide.py"]
