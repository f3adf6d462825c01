"""Another Python than the one that runs the tests."""

import os
import re
import sys
from functools import cache
from pathlib import Path

from envhub.errors import RuntimeUnavailable
from envhub.runtime.pythons import ask_python


@cache
def other_python() -> str | None:
    """An interpreter of another version, on PATH or installed beside this one; None: none is."""
    beside = Path(sys.base_prefix).resolve().parent.glob("*/bin/python3.*")
    on_path = (p for d in os.get_exec_path() if d for p in Path(d).glob("python3.*"))
    for path in sorted({*beside, *on_path}):
        match = re.fullmatch(r"python3\.(\d+)", path.name)
        if match and int(match[1]) >= 11 and int(match[1]) != sys.version_info.minor:
            try:
                if ask_python(str(path)).version.startswith(path.name[6:] + "."):
                    return str(path)
            except RuntimeUnavailable:
                continue
    return None
