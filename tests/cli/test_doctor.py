"""`envhub doctor`, run for real: against this machine, and against one made worse by hand."""

import json

import pytest
from click.testing import CliRunner
from support.commands import envhub
from support.needs import needs_landlock

from envhub.cli.doctor import command
from envhub.cli.doctor_checks import all_checks
from envhub.sandbox.differences import conditions, differences


class TestCommand:
    def test_json(self):
        result = CliRunner().invoke(command, ["--json"])
        answer = json.loads(result.stdout)
        assert result.stderr == ""
        assert result.stdout == json.dumps(answer, indent=2) + "\n"
        assert list(answer) == ["ok", "checks"]
        for check in answer["checks"]:
            fields = ["name", "status", "required", "found", "needed_for", "fix", "notes"]
            assert list(check) == fields
        broken = [c for c in answer["checks"] if c["required"] and c["status"] != "ok"]
        assert answer["ok"] == (not broken)
        assert result.exit_code == bool(broken)

    def test_json_names_everything_that_the_page_promises(self):
        checks = json.loads(CliRunner().invoke(command, ["--json"]).stdout)["checks"]
        assert [check["name"] for check in checks] == [
            "platform", "python", "cores", "memory",
            "envhub-core", "gymnasium", "numpy", "msgspec", "pluggy", "click",
            "torch", "mujoco", "metaworld", "hf-libero", "huggingface_hub",
            "git", "uv", "runtimes", "bubblewrap", "landlock", "sandbox",
            "GL egl", "GL osmesa", "GL glfw",
            "configuration", "temporary files", "cache", "hugging face cache",
        ]  # fmt: skip

    def test_text_is_aligned_and_says_what_to_type(self, tools):
        result = CliRunner().invoke(command)
        lines = result.stdout.splitlines()
        at = lines.index(next(line for line in lines if " git " in line))
        width = max(len(check.name) for check in all_checks())
        indent = " " * (width + 11)
        assert lines[at : at + 3] == [
            f"missing  {'git':<{width}}  not on PATH",
            f"{indent}optional, for verifying the files of Hub benchmarks against their commit",
            f"{indent}fix: apt-get install git",
        ]
        assert "\x1b" not in result.stdout

    @needs_landlock
    def test_how_the_sandbox_differs(self, tools):
        """Without bubblewrap on PATH it is Landlock."""
        stated = [str(each) for each in differences("landlock", conditions(), network=False)]
        checks = json.loads(CliRunner().invoke(command, ["--json"]).stdout)["checks"]
        [check] = [check for check in checks if check["name"] == "sandbox"]
        assert check["notes"] == stated
        lines = CliRunner().invoke(command).stdout.splitlines()
        at = lines.index(next(line for line in lines if "--sandbox auto is landlock" in line))
        assert [line.strip() for line in lines[at + 1 : at + 1 + len(stated)]] == stated

    def test_every_problem_has_a_fix_and_nothing_else_has(self, tools, no_distributions):
        for check in json.loads(CliRunner().invoke(command, ["--json"]).stdout)["checks"]:
            assert (check["fix"] is None) == (check["status"] == "ok"), check
            assert check["needed_for"]

    def test_something_required_that_is_missing_fails_it(self, no_distributions):
        result = CliRunner().invoke(command)
        assert result.exit_code == 1
        assert "fix: pip install gymnasium\n" in result.stdout
        assert "required, for everything" in result.stdout
        last = result.stdout.splitlines()[-1]
        assert last.startswith("Required checks failed: envhub-core, gymnasium, ")

    def test_a_cache_that_cannot_be_written_fails_it(self, tmp_path):
        (tmp_path / "file").touch()
        env = {"ENVHUB_HOME": str(tmp_path / "file" / "cache")}
        result = CliRunner().invoke(command, ["--json"], env=env)
        assert result.exit_code == 1
        assert json.loads(result.stdout)["ok"] is False

    @pytest.mark.usefixtures("tools")
    def test_optional_things_missing_do_not_fail_it(self, tmp_path, distributions, monkeypatch):
        distributions("envhub-core", "0.1.0")
        monkeypatch.setenv("ENVHUB_HOME", str(tmp_path))
        monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/nonexistent.json")
        result = CliRunner().invoke(command)
        assert "missing" in result.stdout
        assert result.stdout.splitlines()[-1].startswith("All required checks passed; ")
        assert result.exit_code == 0

    def test_help_has_an_example(self):
        assert "Examples:\n      envhub doctor\n" in CliRunner().invoke(command, ["--help"]).stdout


def test_as_a_process():
    answer = envhub("doctor", "--json")
    shown = json.loads(answer.out)
    assert answer.err == ""
    assert answer.code == (0 if shown["ok"] else 1)
    assert "platform" in [check["name"] for check in shown["checks"]]
