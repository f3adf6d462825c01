"""Where things lie."""

from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
ASSETS = TESTS / "assets"
DOCS = ROOT / "docs"
