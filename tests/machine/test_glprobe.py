"""Drawing in a process of its own: which device, which library."""

import pytest
from support.needs import needs_egl, needs_glfw

from envhub.machine.gl import Fails, Missing, Renders, probe_gl


@needs_egl
@pytest.mark.parametrize("device", ["999", "-1", "gpu"])
def test_a_device_that_is_not_there(monkeypatch, device):
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", device)
    answer = probe_gl("egl")
    assert isinstance(answer, Fails)
    assert answer.problem.startswith(f"MUJOCO_EGL_DEVICE_ID is '{device}', but EGL has ")


@needs_egl
def test_the_device_that_is_named(monkeypatch):
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "0")
    assert isinstance(probe_gl("egl"), Renders)


@needs_glfw
def test_glfw_with_a_display_that_does_not_answer(monkeypatch):
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":9876")
    assert probe_gl("glfw") == Fails("glfwInit failed")


@pytest.mark.parametrize("backend", ["egl", "osmesa", "glfw"])
def test_a_library_that_is_not_there(backend):
    answer = probe_gl(backend, library="libnothing.so.1")
    assert isinstance(answer, Missing)
    assert answer.what.startswith("libnothing.so.1: ")


def test_a_library_without_the_functions():
    answer = probe_gl("osmesa", library="libc.so.6")
    assert isinstance(answer, Fails)
    assert answer.problem.endswith("undefined symbol: OSMesaCreateContextExt")
