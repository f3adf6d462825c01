"""The sandbox that code from the Hub runs in: bubblewrap, or Landlock with seccomp, or none.

The host chooses one and starts the worker with `wrap`, or plainly for Landlock. Inside, before
anything foreign is loaded, the worker calls `confine`. Neither ever falls back to something weaker:
what does not work is an error.
"""

import os
import pwd
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from envhub.errors import EnvHubError, ExitCode
from envhub.runtime import bounds, landlock, seccomp

Kind = Literal["bubblewrap", "landlock", "none"]
Wanted = Literal["auto", "bubblewrap", "landlock", "none"]
