"""Code of the Hub is inspected in its sandbox, and nowhere else."""

import pytest
from support.needs import needs_sandbox
from support.notes import bring_notes
from support.paths import DOCS
from support.published import publish

from envhub.errors import RemoteCodeRefused, UsageError
from envhub.testing import check_benchmark

REACH = DOCS / "examples" / "reach"


@pytest.fixture
def ref(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    bring_notes(tmp_path / "home")
    return publish(local_hub, REACH)


@needs_sandbox
def test_a_benchmark_of_the_hub_passes_as_the_directory_does(ref):
    report = check_benchmark(ref, quick=True, trust_remote_code=True)
    assert [str(result) for result in report.failures] == []
    assert report.status("runs-in-sandbox") == "passed"
    assert report.benchmark == "reach"


def test_it_is_not_run_without_consent_nor_in_this_process(ref):
    with pytest.raises(RemoteCodeRefused):
        check_benchmark(ref, quick=True)
    with pytest.raises(UsageError, match="--workers 0 runs code in this process"):
        check_benchmark(ref, quick=True, workers=0, trust_remote_code=True, sandbox="none")
