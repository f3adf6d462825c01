"""Attacks of a reference: it names a repository that people trust, and a commit that is not its."""

import json
import shutil
from pathlib import Path

import pytest
from envhub_localhub import faults
from envhub_localhub.git import Repository
from support.attacks import env_file, envhub
from support.needs import needs_sandbox
from support.run_tools import ENVHUB
from support.terminal import at_terminal

from envhub import make_env
from envhub.errors import RemoteCodeRefused
from envhub.sources.trust import Ledger
from envhub.testing import LocalHub

pytestmark = needs_sandbox

QUICK = ("--workers", "1", "--episodes", "1")


@pytest.fixture
def proposed(hub, publish) -> str:
    """A commit that somebody put into a pull request; the repository's own address has it."""
    publish(env_file(), "known/good")
    code = env_file(top="print('executed')")
    return f"known/good@{hub.propose('known/good', {'env.py': code})}:env.py"


def executed(tmp_path: Path) -> bool:
    """Whether the proposed code ran: what it printed is in the log of a run."""
    return any("executed" in log.read_text() for log in (tmp_path / "runs").glob("*/logs/*"))


def commit_in(ref: str) -> str:
    return ref.partition("@")[2].partition(":")[0]


def test_a_commit_that_no_branch_has_is_not_run(proposed, tmp_path):
    done = envhub("eval", proposed, "--trust-remote-code", *QUICK)
    assert done.returncode == 3, done.stderr
    assert "no branch or tag of known/good leads to this commit" in done.stderr
    assert f"envhub trust {proposed}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not executed(tmp_path)
    with pytest.raises(RemoteCodeRefused, match="no branch or tag of known/good"):
        make_env(proposed, trust_remote_code=True)


def test_it_is_run_if_the_ledger_has_it(hub, proposed, tmp_path):
    Ledger().add(hub.endpoint, "known/good", commit_in(proposed))
    done = envhub("eval", proposed, *QUICK)
    assert done.returncode == 0, done.stderr
    assert executed(tmp_path)


def test_at_a_terminal_it_is_said_before_it_is_asked(proposed):
    done = envhub("trust", proposed)
    assert done.returncode == 3
    assert "Warning: no branch or tag of known/good leads to this commit." in done.stdout
    code, shown = at_terminal([ENVHUB, "trust", proposed], "n")
    assert code == 3
    warning = shown.index("Warning: no branch or tag of known/good leads to this commit.")
    assert warning < shown.index("Run this code on this machine")
    code, shown = at_terminal([ENVHUB, "trust", proposed], "y")
    assert code == 0, shown
    assert envhub("eval", proposed, *QUICK).returncode == 0


def test_a_named_pull_request_is_not_run_either(proposed):
    options = ("--trust-remote-code", "--allow-unpinned")
    done = envhub("eval", "known/good@refs/pr/1", *options, *QUICK)
    assert done.returncode == 3, done.stderr


def test_the_mirrors_word_does_not_count_at_the_hub(hub, proposed, tmp_path, other):
    """A mirror may say that its main branch has the commit."""
    assert envhub("info", proposed, HF_ENDPOINT=other.endpoint).returncode == 0
    [known] = (tmp_path / "home").glob("fetched/*/*.json")
    assert json.loads(known.read_text())["branch_at"] == other.endpoint
    assert envhub("eval", proposed, "--trust-remote-code", *QUICK).returncode == 3
    assert not executed(tmp_path)


@pytest.fixture
def other(hub, proposed, tmp_path):
    """A mirror of the Hub whose main branch is at the proposed commit."""
    shutil.copytree(tmp_path / "hub", tmp_path / "other")
    place = tmp_path / "other" / "models" / "known" / "good.git"
    Repository(place).point("refs/heads/main", commit_in(proposed))
    with LocalHub(tmp_path / "other") as server:
        yield server


@pytest.mark.parametrize("where", ["head", "ancestor", "branch", "tag"])
def test_commits_of_the_repository_itself(hub, publish, where):
    ref = publish(env_file(), "known/good")
    match where:
        case "ancestor":
            for number in range(3):
                hub.commit("known/good", {"env.py": f"x = {number}\n"})
        case "branch":
            other = hub.commit("known/good", {"more.py": ""}, branch="other")
            ref = ref.replace(commit_in(ref), other)
        case "tag":
            proposed = hub.propose("known/good", {"more.py": ""})
            hub.tag("known/good", "v1", revision=proposed)
            ref = ref.replace(commit_in(ref), proposed)
    done = envhub("eval", ref, "--trust-remote-code", *QUICK)
    assert done.returncode == 0, done.stderr


def test_a_hub_that_does_not_say_is_not_believed(hub, publish, tmp_path):
    """Nothing is known of the branches: the commit is not run, and runs once they are known."""
    ref = publish(env_file(), "known/good")
    assert envhub("info", ref).returncode == 0
    for known in (tmp_path / "home").glob("fetched/*/*.json"):
        known.unlink()
    with hub.fault(faults.Status(500, "info/refs")):
        done = envhub("eval", ref, "--trust-remote-code", *QUICK)
    assert done.returncode == 6
    assert "git could not fetch branches and tags" in done.stderr
    assert envhub("eval", ref, "--trust-remote-code", *QUICK).returncode == 0


def test_what_was_asked_once_is_not_asked_again(hub, publish):
    ref = publish(env_file(), "known/good")
    assert envhub("info", ref).returncode == 0
    hub.close()
    done = envhub("eval", ref, "--trust-remote-code", *QUICK)
    assert done.returncode == 0, done.stderr


def test_what_is_known_is_for_the_user_alone(hub, publish, tmp_path: Path):
    assert envhub("info", publish(env_file())).returncode == 0
    [known] = (tmp_path / "home").glob("fetched/*/*.json")
    assert known.stat().st_mode & 0o777 == 0o600
    assert known.parent.stat().st_mode & 0o077 == 0


class TestWithoutGit:
    """Then the Hub's lists say whether a branch or tag leads to a commit."""

    @pytest.fixture(autouse=True)
    def _no_git(self, tmp_path):
        """Only for the commands: the Hub itself runs git."""
        (tmp_path / "bin").mkdir()
        if bwrap := shutil.which("bwrap"):
            (tmp_path / "bin" / "bwrap").symlink_to(bwrap)
        self.path = str(tmp_path / "bin")

    def eval(self, ref):
        return envhub("eval", ref, "--trust-remote-code", *QUICK, PATH=self.path)

    def test_a_commit_that_no_branch_has_is_not_run(self, proposed, tmp_path):
        done = self.eval(proposed)
        assert done.returncode == 3, done.stderr
        assert "no branch or tag of known/good leads to this commit" in done.stderr
        assert f"envhub trust {proposed}" in done.stderr
        assert not (tmp_path / "executed").exists()
        shown = envhub("trust", proposed, PATH=self.path)
        assert shown.returncode == 3
        assert "Warning: no branch or tag of known/good leads to this commit." in shown.stdout

    def test_it_is_run_if_the_ledger_has_it(self, hub, proposed, tmp_path):
        Ledger().add(hub.endpoint, "known/good", commit_in(proposed))
        done = envhub("eval", proposed, *QUICK, PATH=self.path)
        assert done.returncode == 0, done.stderr
        assert executed(tmp_path)

    @pytest.mark.parametrize("where", ["head", "ancestor", "branch", "tag"])
    def test_commits_of_the_repository_itself(self, hub, publish, where):
        ref = publish(env_file(), "known/good")
        match where:
            case "ancestor":
                for number in range(3):
                    hub.commit("known/good", {"more.py": f"x = {number}\n"})
            case "branch":
                mine = hub.commit("known/good", {"more.py": ""}, branch="other")
                hub.commit("known/good", {"more.py": "x = 1"}, branch="other")
                ref = ref.replace(commit_in(ref), mine)
            case "tag":
                mine = hub.propose("known/good", {"more.py": ""})
                hub.tag("known/good", "v1", revision=mine)
                ref = ref.replace(commit_in(ref), mine)
        done = self.eval(ref)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("path", ["/refs", "/commits/"])
    def test_a_hub_that_does_not_say_is_not_believed(self, hub, publish, path):
        ref = publish(env_file(), "known/good")
        hub.commit("known/good", {"more.py": ""})  # so that it is not a branch's last commit
        with hub.fault(faults.Status(500, path)):
            assert envhub("info", ref, PATH=self.path).returncode == 0
            done = self.eval(ref)
        assert done.returncode == 6, done.stderr
        assert "The history of known/good failed: the Hub answered HTTP 500" in done.stderr
        assert "Traceback" not in done.stderr
        assert self.eval(ref).returncode == 0

    def test_what_was_asked_once_is_not_asked_again(self, hub, publish):
        ref = publish(env_file(), "known/good")
        assert envhub("info", ref, PATH=self.path).returncode == 0
        hub.close()
        done = self.eval(ref)
        assert done.returncode == 0, done.stderr
