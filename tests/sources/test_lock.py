"""envhub.lock: what was fetched is what was locked."""

import json

import pytest

from envhub.errors import SourceCorrupt, UsageError
from envhub.refs import HubRef
from envhub.sources.fetch import obtain
from envhub.sources.lock import check_lock, write_lock


def test_locks(hub, ref, tmp_path):
    stored, path = obtain(ref), tmp_path / "envhub.lock"
    with pytest.raises(UsageError, match="envhub trust --lock me/env"):
        check_lock(ref, stored.manifest, path)
    write_lock(ref, stored, path)
    check_lock(ref, stored.manifest, path)
    other = HubRef("me", "env", hub.commit("me/env", {"env.py": "x = 1\n"}))
    with pytest.raises(SourceCorrupt, match="is locked at"):
        check_lock(other, obtain(other).manifest, path)
    content = json.loads(path.read_text())
    content["sources"]["me/env"]["files"]["env.py"] = "0" * 64
    path.write_text(json.dumps(content))
    with pytest.raises(SourceCorrupt, match=r"env\.py .* differs"):
        check_lock(ref, stored.manifest, path)
    path.write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        check_lock(ref, stored.manifest, path)
