"""Which errors are explained by the place that the code ran in."""

import pytest

from envhub.host.hints import FILES_HINT, GL_HINT, NETWORK_HINT, explain_failure, find_hint
from envhub.types import Confinement
from envhub.wire.messages import Failed

CLOSED = Confinement("bubblewrap", network=False)
CONNECTED = Confinement("landlock", network=True)
OPEN = Confinement("none", network=True)

GL = [
    "FatalError: gladLoadGL error",
    "FatalError: an OpenGL platform library has not been loaded into this process",
    "ImportError: Cannot initialize a EGL device display",
    "AttributeError: 'NoneType' object has no attribute 'eglQueryString'",
    "AttributeError: 'NoneType' object has no attribute 'glGetError'",
    "RuntimeError: invalid value for environment variable MUJOCO_GL: cgl",
    "GLFWError: (65550) b'X11: The DISPLAY environment variable is missing'",
    'NoSuchDisplayException: Cannot connect to "None"',
    "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
    "ImportError: Library OSMesa was not found",
]
NETWORK = [
    "gaierror: [Errno -3] Temporary failure in name resolution",
    "URLError: <urlopen error [Errno -2] Name or service not known>",
    "OSError: [Errno 101] Network is unreachable",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "ConnectError: [Errno -3] Temporary failure in name resolution",
    "RuntimeError: git: Could not resolve host: example.org",
]
FILES = [
    "PermissionError: [Errno 13] Permission denied: '/data/meshes'",
    "OSError: [Errno 30] Read-only file system: 'log.txt'",
    "PermissionError: [Errno 1] Operation not permitted",
]
NEITHER = [
    "ValueError: size must be 3",
    "FileNotFoundError: [Errno 2] No such file or directory: 'x'",
    "KeyError: 'angle'",
    "ModuleNotFoundError: No module named 'eagle'",
]


@pytest.mark.parametrize("confinement", [None, CLOSED, CONNECTED, OPEN])
@pytest.mark.parametrize("text", GL)
def test_a_gl_failure_names_the_variable_and_the_command(text, confinement):
    assert find_hint(text, "", confinement) == GL_HINT
    assert "MUJOCO_GL=egl" in GL_HINT
    assert "envhub doctor" in GL_HINT


@pytest.mark.parametrize("text", NETWORK)
def test_the_network(text):
    assert find_hint(text, "", CLOSED) == NETWORK_HINT
    assert "--sandbox-allow-network" in NETWORK_HINT
    assert [find_hint(text, "", other) for other in (None, CONNECTED, OPEN)] == [""] * 3


@pytest.mark.parametrize("text", FILES)
def test_files(text):
    assert find_hint(text, "", CLOSED) == find_hint(text, "", CONNECTED) == FILES_HINT
    assert "--sandbox none" in FILES_HINT
    assert [find_hint(text, "", other) for other in (None, OPEN)] == ["", ""]


@pytest.mark.parametrize("text", NEITHER)
def test_other_errors_have_no_hint(text):
    assert find_hint(text, f"Traceback (most recent call last):\n{text}\n", CLOSED) == ""


CHAIN = """Traceback (most recent call last):
  File "/x/urllib3/connection.py", line 5, in connect
    raise PermissionError  # code is not an error
socket.gaierror: [Errno -3] Temporary failure in name resolution

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/env.py", line 3, in reset
    download()
HubError: not cached
"""


def test_the_errors_that_led_to_it_count_and_quoted_code_does_not():
    assert find_hint("HubError: not cached", CHAIN, CLOSED) == NETWORK_HINT
    quoted = CHAIN.replace("socket.gaierror: [Errno -3] Temporary failure in name resolution", "X")
    assert find_hint("HubError: not cached", quoted, CLOSED) == ""


def test_a_refused_socket_is_the_network():
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3/socket.py", line 232, in __init__\n'
        "    _socket.socket.__init__(self, family, type, proto, fileno)\n"
        "PermissionError: [Errno 1] Operation not permitted\n"
    )
    text = "PermissionError: [Errno 1] Operation not permitted"
    assert find_hint(text, trace, CLOSED) == NETWORK_HINT
    assert find_hint(text, trace, CONNECTED) == FILES_HINT


def test_the_module_that_raised_may_tell():
    trace = (
        'Traceback (most recent call last):\n  File "/x/OpenGL/platform/egl.py", line 70\nX: y\n'
    )
    assert find_hint("X: y", trace, None) == GL_HINT


def test_a_message_of_envhubs_own_needs_no_second_hint():
    message = "Rendering does not work here (egl: gone). envhub doctor shows the backends that work"
    assert explain_failure(Failed(1, "ContractError", message, "", True, "env"), None) == ""
    assert explain_failure(Failed(1, "Error", "OpenGL", "", False, "env"), None) == GL_HINT
