"""Draw one triangle with a GL backend, read it back, and print the result as JSON.

A script, run by `envhub.machine.gl` in a process of its own because a broken driver can crash or
hang. It needs only the standard library, so that it works whatever is installed:
`python -I glprobe.py egl|osmesa|glfw [LIBRARY]`.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int, c_ubyte, c_uint, c_void_p
from typing import Any

_SIZE = 16
_COLOR = (200, 100, 50, 255)
# EGL/egl.h and EGL/eglext.h
_EGL_PLATFORM_DEVICE_EXT = 0x313F
_EGL_OPENGL_API = 0x30A2
_EGL_NONE = 0x3038
# MuJoCo's own: 8 bits per channel, 24 of depth, a pbuffer (0x3033), desktop GL (0x3040).
_EGL_CONFIG = (0x3024, 8, 0x3023, 8, 0x3022, 8, 0x3021, 8, 0x3025, 24, 0x3033, 1, 0x3040, 8)
_EGL_PBUFFER = (0x3057, _SIZE, 0x3056, _SIZE)
# GL/gl.h, GL/osmesa.h and GLFW/glfw3.h
_GL_RGBA = 0x1908
_GL_UNSIGNED_BYTE = 0x1401
_GL_COLOR_BUFFER_BIT = 0x4000
_GL_TRIANGLES = 0x0004
_GL_RENDERER = 0x1F01
_OSMESA_RGBA = _GL_RGBA
_GLFW_VISIBLE = 0x00020004


class GLError(Exception):
    """The backend is installed, but does not work."""


def main(arguments: list[str]) -> None:
    """Try a backend (the first argument), optionally with another library (the second)."""
    backend, *library = arguments
    draw: dict[str, Callable[..., str]] = {
        "egl": draw_egl,
        "osmesa": draw_osmesa,
        "glfw": draw_glfw,
    }
    try:
        answer = {"renderer": draw[backend](*library)}
    except OSError as exc:
        answer = {"missing": str(exc)}
    except (GLError, AttributeError) as exc:  # AttributeError: a library without the function
        answer = {"problem": str(exc)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def draw_egl(library: str = "libEGL.so.1") -> str:
    """Draw off screen on the first device that starts, which is the one that MuJoCo uses."""
    egl = ctypes.CDLL(library)
    gl = _load("libOpenGL.so.0", "libGL.so.1")
    display = _egl_display(egl)
    config, count = c_void_p(), c_int()
    attributes = _attributes(_EGL_CONFIG)
    _call(egl.eglBindAPI, c_uint(_EGL_OPENGL_API))
    _call(egl.eglChooseConfig, display, attributes, byref(config), c_int(1), byref(count))
    if not count.value:
        raise GLError("The EGL device has no configuration for desktop GL")
    surface = _pointer(egl.eglCreatePbufferSurface, display, config, _attributes(_EGL_PBUFFER))
    context = _pointer(egl.eglCreateContext, display, config, c_void_p(), _attributes(()))
    _call(egl.eglMakeCurrent, display, surface, surface, context)
    return _draw(gl)


def draw_osmesa(*libraries: str) -> str:
    """Draw into a buffer of this process, in software."""
    mesa = _load(*(libraries or ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")))
    depth, none = c_int(24), c_int(0)
    context = _pointer(
        mesa.OSMesaCreateContextExt, c_uint(_OSMESA_RGBA), depth, none, none, c_void_p()
    )
    buffer = (c_ubyte * (4 * _SIZE * _SIZE))()
    size, channel_type = c_int(_SIZE), c_uint(_GL_UNSIGNED_BYTE)
    _call(mesa.OSMesaMakeCurrent, context, buffer, channel_type, size, size)
    return _draw(mesa)


def draw_glfw(library: str = "libglfw.so.3") -> str:
    """Draw in a hidden window on the display."""
    glfw = ctypes.CDLL(library)
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise OSError("no display: neither DISPLAY nor WAYLAND_DISPLAY is set")
    gl = _load("libOpenGL.so.0", "libGL.so.1")
    _call(glfw.glfwInit)
    glfw.glfwWindowHint(c_int(_GLFW_VISIBLE), c_int(0))
    size = c_int(_SIZE)
    window = _pointer(glfw.glfwCreateWindow, size, size, b"", c_void_p(), c_void_p())
    glfw.glfwMakeContextCurrent(window)
    return _draw(gl)


def _egl_display(egl: ctypes.CDLL) -> c_void_p:
    for device in _egl_devices(egl):
        get = _extension(egl, "eglGetPlatformDisplayEXT", c_void_p, c_uint, c_void_p, c_void_p)
        display = c_void_p(get(_EGL_PLATFORM_DEVICE_EXT, device, None))
        if display and egl.eglInitialize(display, c_void_p(), c_void_p()):
            return display
    raise GLError("No EGL device could be started")


def _egl_devices(egl: ctypes.CDLL) -> list[int | None]:
    query = _extension(egl, "eglQueryDevicesEXT", c_uint, c_int, c_void_p, c_void_p)
    devices, count = (c_void_p * 32)(), c_int()
    if not query(len(devices), devices, byref(count)) or not count.value:
        raise GLError("EGL found no device")
    available = list(devices[: count.value])
    chosen = os.environ.get("MUJOCO_EGL_DEVICE_ID", "")
    if not chosen:
        return available
    if not chosen.isdecimal() or int(chosen) >= len(available):
        raise GLError(f"MUJOCO_EGL_DEVICE_ID is {chosen!r}, but EGL has {len(available)} device(s)")
    return [available[int(chosen)]]


def _extension(egl: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    find = egl.eglGetProcAddress
    find.restype, find.argtypes = c_void_p, [c_char_p]
    address = find(name.encode())
    if not address:
        raise GLError(f"EGL does not have {name}")
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def _draw(gl: ctypes.CDLL) -> str:
    """Draw a triangle over everything with the current context; return the renderer's name."""
    size = c_int(_SIZE)
    gl.glViewport(c_int(0), c_int(0), size, size)
    gl.glClearColor(c_float(0), c_float(0), c_float(0), c_float(1))
    gl.glClear(c_uint(_GL_COLOR_BUFFER_BIT))
    gl.glColor4ub(*(c_ubyte(channel) for channel in _COLOR))
    gl.glBegin(c_uint(_GL_TRIANGLES))
    for x, y in ((-1, -1), (3, -1), (-1, 3)):
        gl.glVertex2f(c_float(x), c_float(y))
    gl.glEnd()
    pixel = (c_ubyte * 4)()
    middle, one = c_int(_SIZE // 2), c_int(1)
    channel_type = c_uint(_GL_UNSIGNED_BYTE)
    gl.glReadPixels(middle, middle, one, one, c_uint(_GL_RGBA), channel_type, pixel)
    if any(abs(read - drawn) > 1 for read, drawn in zip(pixel[:3], _COLOR[:3], strict=True)):
        raise GLError(f"A pixel drawn as {_COLOR[:3]} reads as {tuple(pixel[:3])}")
    gl.glGetString.restype = c_char_p
    return (gl.glGetString(c_uint(_GL_RENDERER)) or b"unnamed").decode(errors="replace")


def _load(*names: str) -> ctypes.CDLL:
    """Load the first of these libraries that is installed."""
    for name in names[:-1]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return ctypes.CDLL(names[-1])


def _attributes(pairs: tuple[int, ...]) -> Any:
    return (c_int * (len(pairs) + 1))(*pairs, _EGL_NONE)


def _pointer(function: Any, *arguments: Any) -> c_void_p:
    function.restype = c_void_p
    return c_void_p(_call(function, *arguments))


def _call(function: Any, *arguments: Any) -> Any:
    """Call a function that returns zero if it fails."""
    result = function(*arguments)
    if not result:
        raise GLError(f"{function.__name__} failed")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
