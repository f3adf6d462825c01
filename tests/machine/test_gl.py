"""Which GL backend is chosen, and what is said where there is none."""

import os

import pytest
from support.needs import needs_egl, needs_osmesa

from envhub.errors import ContractError
from envhub.machine.gl import cannot_draw, choose_backend


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
        "envhub doctor shows the backends that work."
    )
