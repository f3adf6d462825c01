"""Which GL backend workers get, and how often that is tried."""

import json
from pathlib import Path

import pytest
from support.needs import needs_egl, needs_osmesa

from envhub.files import cache_home
from envhub.machine import gl_choice
from envhub.machine.gl_choice import gl_variables

NO_DEVICE = {"__EGL_VENDOR_LIBRARY_FILENAMES": "/dev/null"}
EGL = {"MUJOCO_GL": "egl"}
OSMESA = {"MUJOCO_GL": "osmesa"}


@pytest.fixture(autouse=True)
def note(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
    gl_choice._drawing_backend.cache_clear()
    return tmp_path / "gl.json"


def again(variables):
    """As a new process would choose."""
    gl_choice._drawing_backend.cache_clear()
    return gl_variables(variables)


@needs_egl
def test_egl_if_it_draws(note):
    assert gl_variables({}) == EGL
    assert json.loads(note.read_text())["backend"] == "egl"


@needs_osmesa
def test_osmesa_if_egl_is_installed_and_does_not_draw():
    assert gl_variables(NO_DEVICE) == OSMESA


@pytest.mark.parametrize("value", ["glfw", "osmesa", "disable", "nonsense"])
def test_what_the_user_chose_is_kept(value, note):
    assert gl_variables({"MUJOCO_GL": value}) == {}
    assert not note.exists()


@pytest.mark.parametrize(("platform", "chosen"), [("OSMesa", {"MUJOCO_GL": "osmesa"}), ("glx", {})])
def test_what_the_user_chose_for_pyopengl_is_followed(platform, chosen):
    assert gl_variables({"PYOPENGL_PLATFORM": platform}) == chosen


def noted(note: Path, backend: str | None) -> None:
    """Change the note, to see whether it is used."""
    note.write_text(json.dumps(json.loads(note.read_text()) | {"backend": backend}))


@needs_egl
@needs_osmesa
def test_it_is_tried_once_and_again_when_something_has_changed(note):
    assert gl_variables({}) == EGL
    noted(note, "osmesa")
    assert gl_variables({}) == EGL  # one process asks once
    assert again({}) == OSMESA
    assert again({"CUDA_VISIBLE_DEVICES": "3"}) == EGL
    noted(note, None)
    assert again({"CUDA_VISIBLE_DEVICES": "3"}) == {}
    gl_choice.forget()
    gl_choice.forget()
    assert again({"CUDA_VISIBLE_DEVICES": "3"}) == EGL


@needs_egl
@pytest.mark.parametrize("content", ["", "[]", "{}", '{"here": 1, "backend": "rm"}'])
def test_a_damaged_note_is_made_again(note, content):
    note.write_text(content)
    assert gl_variables({}) == EGL
    assert json.loads(note.read_text())["backend"] == "egl"


@needs_egl
def test_a_cache_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", "/proc/nowhere")
    assert cache_home() == Path("/proc/nowhere")
    assert gl_variables({}) == EGL
