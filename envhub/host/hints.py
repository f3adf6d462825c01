"""Explain errors that come from where code runs: without a display, or in a sandbox.

The error is foreign code's, and so is its text: a hint says what EnvHub itself did, and the option
that changes it.
"""

import re

from envhub.types import Confinement
from envhub.wire.messages import Failed

_GL = re.compile(
    r"OpenGL|GLContext|GLError|GLFW|OSMesa|gladLoadGL|lib(E?GL|GLESv2)\b|\bEGL|\begl[A-Z]\w+|"
    r"\bgl[A-Z]\w+|MUJOCO_GL|PYOPENGL_PLATFORM|NoSuchDisplay|X11: The DISPLAY|"
    r"(open|connect to|find) (X |the )?display",
)
_GL_MODULES = re.compile(
    r"/(OpenGL|glfw|pyglet|mujoco/(egl|osmesa|glfw|gl_context)|dm_control/_render|"
    r"robosuite/renderers/context)\b"
)
_NETWORK = re.compile(
    r"gaierror|name resolution|Name or service not known|No address associated|"
    r"(resolve|lookup) (host|address)|Network is unreachable|No route to host|"
    r"Connection (refused|timed out|aborted)|Connect(ion)?Error\b|ConnectTimeout|URLError|"
    r"ConnectionRefusedError|LocalEntryNotFoundError|Failed to (connect|resolve)",
    re.IGNORECASE,
)
_FILES = re.compile(
    r"Permission ?denied|PermissionError|Operation not permitted|Read-only file system|"
    r"EACCES|EROFS",
    re.IGNORECASE,
)
_SOCKETS = re.compile(r"\bsocket(\.py)?\b|\bconnect\(|getaddrinfo")

GL_HINT = (
    "This is a problem with OpenGL: MUJOCO_GL=egl (or osmesa) chooses a backend, and envhub doctor "
    "shows which ones draw here and what to install."
)
NETWORK_HINT = (
    "This is the sandbox, in which code from the Hub has no network; --sandbox-allow-network "
    "would allow it."
)
FILES_HINT = (
    "This is the sandbox, in which code from the Hub reads only its own files and the system's and "
    "writes only below its home ($HOME); --sandbox none would allow it, if you trust the code with "
    "everything you have."
)


def explain_failure(reply: Failed, confinement: Confinement | None) -> str:
    """Return a hint about what code in a worker raised; empty if there is none to give."""
    if reply.contract and "envhub doctor" in reply.message:  # it has one already
        return ""
    text = reply.message if reply.contract else f"{reply.kind}: {reply.message}"
    return find_hint(text, reply.traceback, confinement)


def find_hint(text: str, traceback: str, confinement: Confinement | None) -> str:
    """Return a sentence about the place that code failed in; empty if it played no part.

    Args:
        text: The error, or the last lines that a process printed.
        traceback: As Python prints it, with all exceptions that led to the error.
        confinement: The restrictions on the code.
    """
    last_frame = traceback.rpartition('\n  File "')[2]
    if _GL.search(text) or _GL_MODULES.search(last_frame.partition("\n")[0]):
        return GL_HINT
    if confinement is None or not confinement.in_sandbox:
        return ""
    # Of the traceback only the lines with exceptions: the others quote code.
    raised = [line for line in traceback.splitlines() if line and not line.startswith((" ", "Tr"))]
    errors = "\n".join((text, *raised))
    denied = _FILES.search(errors)
    network = _NETWORK.search(errors) or (denied and _SOCKETS.search(last_frame))
    if network and not confinement.network:
        return NETWORK_HINT
    return FILES_HINT if denied else ""
