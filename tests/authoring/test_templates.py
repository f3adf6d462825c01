"""Projects made of templates."""

import compileall
import shutil

import pytest
from jinja2 import Template

from envhub.authoring import templates
from envhub.errors import UsageError


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


def test_an_answer_is_not_executed(tmp_path):
    """Some answers are what the code of an env says, and templates are executed in this process."""
    marker = tmp_path / "marker"
    attack = f"{{{{ cycler.__init__.__globals__.os.mkdir({str(marker)!r}) }}}}"
    for key in ("name", "__call", "__task"):
        with pytest.raises(UsageError, match=f"to '{key.lstrip('_')}' must not have two braces"):
            templates.make_project("wrapper", {key: attack}, tmp_path / "made")
    assert [*tmp_path.iterdir()] == []
    generated = Template(attack).render(cookiecutter={})  # so this is an attack
    assert generated == "None"
    assert marker.exists()
