"""Which GL backend is chosen, and what is said where there is none."""

import os

import pytest
from support.needs import needs_egl, needs_osmesa

from envhub.errors import ContractError
from envhub.machine.gl import Fails, Renders, cannot_draw, choose_backend, probe_gl, read_answer
from envhub.process import Finished


@pytest.fixture(autouse=True)
def _own_variables(monkeypatch):
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)


def chosen() -> tuple[str | None, str | None]:
    return os.environ.get("MUJOCO_GL"), os.environ.get("PYOPENGL_PLATFORM")


@needs_egl
def test_egl_comes_first():
    assert choose_backend() == "egl"
    assert chosen() == ("egl", "egl")
    assert choose_backend() == "egl"


@needs_osmesa
@pytest.mark.parametrize("name", ["MUJOCO_GL", "PYOPENGL_PLATFORM"])
@pytest.mark.parametrize("value", ["osmesa", "OSMesa"])
def test_what_is_named_already_is_kept(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert choose_backend() == "osmesa"
    assert chosen() == ("osmesa", "osmesa")


def test_a_window_needs_no_platform(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert choose_backend() == "glfw"
    assert chosen() == ("glfw", None)


@pytest.mark.parametrize("value", ["disable", "vulkan"])
def test_what_is_no_backend(value, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", value)
    problem = f"{value}: MUJOCO_GL must be one of egl, osmesa, glfw, or unset"
    with pytest.raises(ContractError) as caught:
        choose_backend()
    assert str(caught.value) == str(cannot_draw(problem))


def test_the_error_says_what_to_do():
    assert str(cannot_draw("egl: gone")) == (
        "Rendering does not work here (egl: gone). Install the GL libraries (apt-get install "
        "libegl1 libgl1 libgles2 libosmesa6 libglfw3), or use a policy that needs no pixels; "
        "envhub doctor shows the backends that work, and MUJOCO_GL=egl chooses one."
    )


def test_a_driver_that_hangs():
    assert probe_gl("egl", timeout=0.001) == Fails("the GL probe did not end within 0.001 s")


@pytest.mark.parametrize(
    ("done", "answer"),
    [
        (Finished(0, '{"renderer": "x"}\n', "noise"), Renders("x")),
        (Finished(0, 'driver says hi\n{"renderer": "x"}\n', ""), Renders("x")),
        (Finished(-11, '{"renderer": "x"}\n', ""), Renders("x")),
        (Finished(-11, "", ""), Fails("the GL probe was killed by SIGSEGV")),
        (
            Finished(1, "", "Traceback\nKeyError: 'vulkan'\n"),
            Fails("the GL probe ended with exit code 1: KeyError: 'vulkan'"),
        ),
        (Finished(0, "7\n", ""), Fails("the GL probe answered 7")),
    ],
)
def test_answers(done, answer):
    assert read_answer(done) == answer
