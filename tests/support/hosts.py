"""Hosts in processes of their own, which tests may kill."""

import os
import subprocess
import sys
import time

from envhub.options import Limits
from support.paths import ASSETS
from support.processes import ROOT, wait_for_end

PATIENT = Limits(start=60, reset=60, step=60, close=20)

HOST = """
import os, pathlib, signal, sys, tempfile, warnings
import envhub
def suicide():
    signal.raise_signal(signal.SIGTERM)
[env] = envhub.make_env({ref!r}, env_args={{"marker": {marker!r}}})["litter"].values()
{body}
"""

FOREVER = """
print("ready", flush=True)
while True:
    env.reset(seed=0)
    print("open", flush=True)
    env.step([0])
    env.close()
"""


def start_host(body, tmp_path):
    """Another process that makes envs that litter."""
    marker = str(tmp_path / "marker")
    script = HOST.format(ref=str(ASSETS / "fault_litter"), marker=marker, body=body)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


def kill_host(delay, tmp_path):
    """Kill a host so many seconds after it was started, or once its env is open."""
    print(f"killing after {delay} s")
    host = start_host(FOREVER, tmp_path)
    if delay is None:
        while "open" not in host.stdout.readline():
            pass
    else:
        time.sleep(delay)
    host.kill()
    _, errors = host.communicate(timeout=50)
    assert errors == ""
    assert wait_for_end(tmp_path) == []
