"""Which environment variables a worker sees."""

import os
import platform
import site
from pathlib import Path

import pytest

from envhub.errors import UsageError
from envhub.machine import facts
from envhub.sandbox.variables import (
    check_variables,
    chosen_variables,
    defer_variables,
    kernel_variables,
    set_deferred,
    user_variables,
    worker_variables,
)

SCRATCH = Path("/scratch")
ALWAYS = {
    "HOME": "/scratch",
    "TMPDIR": "/scratch",
    "XDG_CACHE_HOME": "/scratch",
    "MPLCONFIGDIR": "/scratch/matplotlib",
    "NUMBA_CACHE_DIR": "/scratch/numba",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    **kernel_variables(),
}


@pytest.fixture(autouse=True)
def _no_user_site(monkeypatch):
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)


def test_nothing_given():
    assert worker_variables(SCRATCH, given={}) == ALWAYS


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYOPENGL_PLATFORM",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "MUJOCO_GL",
        "MUJOCO_EGL_DEVICE_ID",
        "__EGL_VENDOR_LIBRARY_FILENAMES",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "LP_NUM_THREADS",
    ],
)
def test_what_passes(name):
    assert worker_variables(SCRATCH, given={name: "/7"}) == ALWAYS | {name: "/7"}


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH"])
def test_lists_of_directories_have_absolute_parts_only(name):
    given = {name: ":/a:.:b/c:/d:"}
    assert worker_variables(SCRATCH, given=given) == ALWAYS | {name: "/a:/d"}


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HUGGINGFACE_HUB_TOKEN",
        "HF_HOME",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "WANDB_API_KEY",
        "UV_INDEX_PASSWORD",
        "PIP_INDEX_URL",
        "HTTPS_PROXY",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "XDG_CACHE_HOME",
        "DISPLAY",
        "XAUTHORITY",
        "KUBECONFIG",
        "DOCKER_HOST",
        "ENVHUB_HOME",
        "USER",
        "LD_PRELOAD",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PYTHONINSPECT",
        "PYTHONUSERBASE",
        "path",
        "lc_all",
        "MY_PATH",
    ],
)
def test_what_never_passes(name):
    assert worker_variables(SCRATCH, given={name: "secret"}) == ALWAYS


@pytest.mark.parametrize("name", ["NVIDIA_API_KEY", "NVIDIA_NGC_API_KEY"])
def test_keys_of_a_vendor_whose_other_variables_pass(name):
    assert worker_variables(SCRATCH, given={name: "secret"}) == ALWAYS


@pytest.mark.parametrize(
    "name",
    [
        *("HOME", "TMPDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"),
        *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"),
    ],
)
def test_what_is_the_workers_own(name):
    assert worker_variables(SCRATCH, given={name: "mine"}) == ALWAYS


def test_this_process_is_the_default(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setenv("HF_TOKEN", "secret")
    seen = worker_variables(SCRATCH)
    assert seen["MUJOCO_GL"] == "egl"
    assert "secret" not in seen.values()


def test_user_packages_stay_in_reach(monkeypatch):
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "USER_BASE", "/home/me/.local")
    assert worker_variables(SCRATCH, given={})["PYTHONUSERBASE"] == "/home/me/.local"


def test_what_a_policy_prints_is_not_lost_when_it_crashes(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("MINE", "mine")
    seen = user_variables(isolated=False)
    assert (seen["PYTHONUNBUFFERED"], seen["MINE"]) == ("1", "mine")


def test_a_user_who_wants_a_buffer_has_one(monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    assert user_variables(isolated=False)["PYTHONUNBUFFERED"] == ""


def test_the_kernels_of_openblas_are_the_same_everywhere(monkeypatch):
    """The user's own choice wins."""
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    for seen in (worker_variables(SCRATCH, given={}), user_variables(isolated=False)):
        assert seen.get("OPENBLAS_CORETYPE") == kernel_variables().get("OPENBLAS_CORETYPE")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    for seen in (worker_variables(SCRATCH), user_variables(isolated=True)):
        assert seen["OPENBLAS_CORETYPE"] == "Zen"


@pytest.mark.parametrize(
    ("machine", "flags", "kernel"),
    [
        ("x86_64", ("avx2", "fma"), "Haswell"),
        ("x86_64", ("avx2", "avx512f", "fma"), "Haswell"),
        ("x86_64", (), None),
        ("aarch64", (), None),
    ],
)
def test_only_kernels_that_the_cpu_can_run_are_chosen(monkeypatch, machine, flags, kernel):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    text = f"model name : x\nflags : {' '.join(flags)}\n"
    monkeypatch.setattr(facts, "_cpu_info", lambda: text)
    assert kernel_variables().get("OPENBLAS_CORETYPE") == kernel


# The display


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"])
def test_only_the_users_own_code_sees_the_display(name):
    given = {name: "/x"}
    assert worker_variables(SCRATCH, given=given, local=True) == ALWAYS | given
    assert worker_variables(SCRATCH, given=given) == ALWAYS


def test_a_display_is_found_without_the_users_home(tmp_path):
    (tmp_path / ".Xauthority").touch()
    given = {"DISPLAY": ":0", "HOME": str(tmp_path)}
    seen = worker_variables(SCRATCH, given=given, local=True)
    assert seen["XAUTHORITY"] == str(tmp_path / ".Xauthority")
    seen = worker_variables(SCRATCH, given=given | {"XAUTHORITY": "/mine"}, local=True)
    assert seen["XAUTHORITY"] == "/mine"
    assert "XAUTHORITY" not in worker_variables(SCRATCH, given={"HOME": str(tmp_path)}, local=True)


@pytest.mark.parametrize(("exists", "value"), [(True, "{}/wayland-0"), (False, "wayland-0")])
def test_a_wayland_socket_is_named_by_its_path(tmp_path, exists, value):
    if exists:
        (tmp_path / "wayland-0").touch()
    given = {"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": str(tmp_path)}
    seen = worker_variables(SCRATCH, given=given, local=True)
    assert seen["WAYLAND_DISPLAY"] == value.format(tmp_path)
    assert "XDG_RUNTIME_DIR" not in seen


# What the user lets through


def test_values_are_given_or_those_of_this_process(monkeypatch):
    monkeypatch.setenv("MY_DATA", "/data")
    chosen = chosen_variables({"MY_DATA": None, "EMPTY": "", "X": "a=b"})
    assert chosen == {"MY_DATA": "/data", "EMPTY": "", "X": "a=b"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"NOT_SET_ANYWHERE": None}, "NOT_SET_ANYWHERE is not set here. Set it, or write"),
        ({"": "x"}, "'' is not the name of a variable"),
        ({"1X": "x"}, "'1X' is not the name of a variable"),
        ({"BASH_FUNC_x%%": "x"}, "is not the name of a variable"),
        ({"X Y": None}, "is not the name of a variable"),
        ({"X": "a\0b"}, "X: its value must be text"),
        ({"X": "x" * 100_001}, "at most 100,000 characters"),
        ({"X": 7}, "X: its value must be text"),
    ],
)
def test_what_is_no_variable(given, message):
    with pytest.raises(UsageError) as caught:
        chosen_variables(given)
    assert message in str(caught.value)


REFUSED = [
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"),
    *("BASH_ENV", "ENV", "IFS", "PS4", "SHELLOPTS", "PATH", "GLIBC_TUNABLES", "GCONV_PATH"),
    *("ld_preload", "ENVHUB_HOME", "ENVHUB_DEFERRED_0"),
]


@pytest.mark.parametrize("name", REFUSED)
def test_what_decides_which_code_starts_is_refused_for_foreign_code(name):
    with pytest.raises(UsageError, match=f"--env-var {name} is refused for code from the Hub"):
        check_variables(["A", name])
    check_variables([name], confined=False)


def test_other_variables_are_not_refused():
    check_variables(["HF_TOKEN", "MY_DATA", "LDAP_SERVER", "ENVIRONMENT", "NUMBA_CACHE_DIR"])


def test_deferred_variables_mean_nothing_before_they_are_set(monkeypatch):
    deferred = defer_variables({"SOME_NAME": "a=b", "OTHER": ""})
    assert not {"SOME_NAME", "OTHER"} & deferred.keys()
    for name, value in deferred.items():
        monkeypatch.setenv(name, value)
    for name in ("SOME_NAME", "OTHER"):
        monkeypatch.setenv(name, "before")  # so that it is removed
    set_deferred()
    assert (os.environ["SOME_NAME"], os.environ["OTHER"]) == ("a=b", "")
    assert not deferred.keys() & os.environ.keys()
