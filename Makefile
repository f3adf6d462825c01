# Every target sets up what it needs in .venv, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test check docs bench soak clean
help:
	@echo "make demo   see EnvHub work on an example benchmark"
	@echo "make test   run the tests"
	@echo "make check  linter, types, layers, documentation"
	@echo "make bench  benchmarks: ratios, measured side by side"
	@echo "make soak   long fault runs"

setup: $(READY)

$(READY): pyproject.toml plugins/metaworld/pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "EnvHub needs Python 3.11 or newer: make PYTHON=python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt \
	  --editable '.[dev,docs]' --editable 'plugins/metaworld[sim]'
	@touch $@

# Only tests of the torch path need torch; CI, where nothing may be skipped, has it.
TORCH := .venv/.torch
$(TORCH): $(READY)
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt torch==2.13.0
	@touch $@
ifeq ($(ENVHUB_REQUIRE_ALL),1)
TEST_NEEDS := $(READY) $(TORCH)
else
TEST_NEEDS := $(READY)
endif

demo: $(READY)
	$(BIN)/envhub list
	$(BIN)/envhub info ./docs/examples/reach
	-$(BIN)/envhub doctor
	$(BIN)/envhub eval ./docs/examples/reach --policy ./docs/examples/policies/steer.py

test: $(TEST_NEEDS)
	$(BIN)/pytest

check: $(READY) docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(READY)
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

bench: $(READY)
	@for script in start transport lockstep chunks affinity scale hub metaworld; do $(BIN)/python tests/perf/$$script.py || failed=1; done; \
	  exit $${failed:-0}

soak: $(READY)
	$(BIN)/pytest -m soak --timeout=3600 tests/soak

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
