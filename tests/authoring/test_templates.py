"""Projects made of templates."""

import compileall
import shutil

from envhub.authoring import templates


def test_what_pip_compiled_is_not_copied(tmp_path, monkeypatch):
    """An installed template has compiled files beside its modules."""
    place = tmp_path / "templates"
    shutil.copytree(templates.find_template("policy"), place / "policy")
    compileall.compile_dir(place, quiet=2)
    assert [*place.rglob("__pycache__/*.pyc")]
    monkeypatch.setattr(templates, "_PLACES", (place,))
    made = templates.make_project("policy", {}, tmp_path / "made")
    assert [*made.rglob("*.py")]
    assert [*made.rglob("__pycache__")] == []
