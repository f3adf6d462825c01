"""`envhub list --check` and `envhub plugins`, its name of before: good and bad ones."""

import json

from support.commands import CONTROL, envhub
from support.run_tools import Answer


class TestPlugins:
    def test_none(self):
        answer = envhub("plugins", ENVHUB_PLUGINS="")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith("No plugins are installed. ")
        found = envhub("plugins", "--json", ENVHUB_PLUGINS="")
        assert found == Answer(0, '{\n  "plugins": []\n}\n', "")

    def test_good_and_bad_ones(self, counting):
        answer = envhub("plugins", "--json", PYTHONPATH=str(counting))
        assert (answer.code, answer.err) == (1, "")
        rows = {row["distribution"]: row for row in json.loads(answer.out)["plugins"]}
        assert rows["envhub-counting"] == {
            "name": "counting",
            "module": "envhub_counting",
            "distribution": "envhub-counting",
            "version": "1.5",
            "problem": None,
        }
        assert r"OSError: no \x1b[31mlibGL" in rows["envhub-broken"]["problem"]
        for twin in ("envhub-one", "envhub-two"):
            assert "claimed by envhub-one and envhub-two" in rows[twin]["problem"]

    def test_as_text(self, counting):
        limited = {"PYTHONPATH": str(counting), "ENVHUB_PLUGINS": "counting,broken,twice"}
        answer = envhub("plugins", **limited)
        assert (answer.code, answer.err) == (1, "")
        assert "ok       counting  envhub-counting 1.5  envhub_counting\n" in answer.out
        assert "problem  broken    envhub-broken 1.5    broken\n" in answer.out
        assert not CONTROL.search(answer.out)
        assert envhub("list", "--check", **limited) == answer  # its name of today

    def test_a_bad_one_that_is_named_does_not_hide_others(self, counting):
        limited = {"PYTHONPATH": str(counting), "ENVHUB_PLUGINS": "counting,broken"}
        rows = json.loads(envhub("plugins", "--json", **limited).out)["plugins"]
        assert {row["name"]: row["problem"] is None for row in rows} == {
            "broken": False,
            "counting": True,
        }
