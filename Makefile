# Every target sets up what it needs in .venv, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Processes that run tests; tests/conftest.py says what `auto` is.
JOBS ?= auto
# Which tests; empty: all.
TESTS ?=
# How often a test that fails is run again; the summary names it. .ci/run says it for CI.
RERUNS ?= 0

.PHONY: help setup demo test test-root check docs pins bench soak clean
help:
	@echo "make demo   see scripted experts solve ten manipulation tasks, and watch an episode"
	@echo "make test   run the tests; JOBS=1 one after the other"
	@echo "make check  linter, types, layers, documentation"
	@echo "make bench  benchmarks: ratios, measured side by side"
	@echo "make soak   long fault runs"

setup: $(READY)

# What a user has: EnvHub with its videos and the plugins, without simulators: runtimes bring them.
BASE := .venv/.base
$(BASE): pyproject.toml plugins/metaworld/pyproject.toml plugins/libero/pyproject.toml plugins/lerobot/pyproject.toml plugins/loggers/pyproject.toml plugins/perturbations/pyproject.toml plugins/servers/pyproject.toml plugins/cluster/pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "EnvHub needs Python 3.11 or newer: make PYTHON=python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt \
	  --editable '.[video]' --editable plugins/metaworld --editable plugins/libero --editable plugins/lerobot \
	  --editable plugins/loggers --editable plugins/perturbations --editable plugins/servers --editable plugins/cluster
	@$(BIN)/python -m compileall -q envhub plugins  # workers keep nothing that they compile
	@touch $@

$(READY): $(BASE) plugins/localhub/pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt \
	  --editable '.[dev]' --editable plugins/localhub
	@touch $@

DOCS := .venv/.docs
$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt --editable '.[docs]'
	@touch $@

# Tests that compare with Meta-World's own loop need it beside EnvHub, and those of the torch path
# need torch; CI, where nothing may be skipped, has both.
SIM := .venv/.sim
$(SIM): $(READY)
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt --editable 'plugins/metaworld[sim]'
	@touch $@
TORCH := .venv/.torch
$(TORCH): $(READY)
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt torch==2.13.0
	@touch $@
TENSORBOARD := .venv/.tensorboard
$(TENSORBOARD): $(READY)
	$(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt --editable 'plugins/loggers[tensorboard]'
	@touch $@
# How accessible the report is, axe-core says: a script of the npm registry, which is only read.
AXE := .venv/.axe
$(AXE): $(READY)
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix .venv/axe axe-core@4.14.0
	@touch $@
# LeRobot has an environment of its own, which takes torch from .venv: .venv comes last on its path.
# The published torchvision is built for CUDA, and its fake kernels cannot be registered beside a
# torch for the CPU; the networks in the tests use none of them.
LEROBOT := .venv-lerobot
$(LEROBOT)/.ready: $(TORCH) .ci/lerobot.txt
	test -x $(LEROBOT)/bin/python || $(BIN)/python -m venv $(LEROBOT)
	$(LEROBOT)/bin/python -m pip install --quiet --no-deps --requirement .ci/lerobot.txt
	@packages=$$($(LEROBOT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$packages/beside.pth"; \
	  : > "$$packages/torchvision/_meta_registrations.py"
	@touch $@

# The newest LeRobot, for the soak: on Python 3.12, with the published torch, 7 GB, of which 3.4 are
# for GPUs (importing it loads CUDA's libraries, so that they cannot be left out); with the
# simulators of its own environments, without what they declare and do not need, in the versions of
# EnvHub's plugins.
PYTHON312 ?= python3.12
LEROBOT_06 := .venv-lerobot-06
$(LEROBOT_06)/.ready:
	test -x $(LEROBOT_06)/bin/python || $(PYTHON312) -m venv $(LEROBOT_06)
	$(LEROBOT_06)/bin/python -m pip install --quiet \
	  'lerobot[smolvla,diffusion,evaluation,dataset]==0.6.1' --editable . \
	  --editable plugins/lerobot --editable plugins/metaworld --editable plugins/libero \
	  --editable plugins/lerobot_env_envhub absl-py cloudpickle easydict etils fsspec future glfw \
	  imageio importlib_resources matplotlib numba opencv-python-headless pyopengl pyyaml scipy \
	  termcolor
	$(LEROBOT_06)/bin/python -m pip install --quiet --no-deps mujoco==3.3.0 metaworld==3.1.1 \
	  hf-libero==0.1.4 robosuite==1.4.0 bddl==1.0.1
	@touch $@

# The tools of all loggers, for the soak: some 800 MB, which need not agree with EnvHub's versions.
LOGGERS := .venv-loggers
$(LOGGERS)/.ready:
	test -x $(LOGGERS)/bin/python || $(PYTHON) -m venv $(LOGGERS)
	$(LOGGERS)/bin/python -m pip install --quiet --editable '.[video]' \
	  --editable 'plugins/loggers[tensorboard,wandb,mlflow,trackio]'
	@touch $@

# Ray, for the tests of clusters: 220 MB, in an environment that takes all else from .venv.
CLUSTER := .venv-cluster
$(CLUSTER)/.ready: $(READY)
	test -x $(CLUSTER)/bin/python || $(BIN)/python -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --constraint .ci/constraints.txt ray
	@packages=$$($(CLUSTER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  beside=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  echo "import site; site.addsitedir('$$beside')" > "$$packages/beside.pth"
	@touch $@

ifeq ($(ENVHUB_REQUIRE_ALL),1)
TEST_NEEDS := $(READY) $(SIM) $(TORCH) $(TENSORBOARD) $(AXE) $(LEROBOT)/.ready $(CLUSTER)/.ready
else
TEST_NEEDS := $(READY)
endif

# A Meta-World episode can be watched where OpenGL draws, one of the example benchmark everywhere.
DEMO := runs/demo-$(shell date +%Y%m%d-%H%M%S)
# What is installed already, as by `pip install .`, stays as it is.
demo:
	@$(BIN)/python -P -c 'import av, envhub, envhub_metaworld' 2>/dev/null || $(MAKE) --no-print-directory $(BASE)
	$(BIN)/envhub list
	$(BIN)/envhub eval metaworld --suite mt10 --policy expert --out $(DEMO)/metaworld
	$(BIN)/envhub eval ./docs/examples/reach --policy ./docs/examples/policies/steer.py --episodes 4 --env-arg size=256 \
	  --baselines random --video 4 --quiet --out $(DEMO)/reach
	$(BIN)/envhub report $(DEMO)/metaworld --videos drawer-open-v3:0,window-open-v3:0 --every 8
	@$(BIN)/envhub report $(DEMO) >/dev/null
	@echo
	@echo "Both runs are in this page; open it in a browser (xdg-open FILE), then a run, and click a video:"
	@echo "$(CURDIR)/$(DEMO)/report.html"

test: $(TEST_NEEDS)
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal --reruns=$(RERUNS) -rR $(TESTS)

# Those that only root can run, in a clone that may be somebody else's: nothing is written there.
test-root: $(READY)
	PYTHONDONTWRITEBYTECODE=1 $(BIN)/pytest -m needs_root -p no:cacheprovider \
	  --numprocesses=$(JOBS) --dist=worksteal --reruns=$(RERUNS) -rR

check: $(READY) docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(DOCS)
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

# The pins hold for every Python that requires-python admits, whichever one made them.
pins: $(READY)
	@for version in 3.11.0 3.12.0 3.13.0; do \
	  $(BIN)/uv pip compile --quiet --no-deps --python-version $$version \
	    .ci/constraints.txt >/dev/null || exit 1; \
	done

bench: $(SIM) $(CLUSTER)/.ready
	@for script in intervals comparisons equal_policies experiment live_page sandbox start transport lockstep chunks affinity scale hub metaworld policies libero videos servers cluster cluster_model demo; do $(BIN)/python tests/perf/$$script.py || failed=1; done; \
	  exit $${failed:-0}

soak: $(READY)
	$(BIN)/pytest -m soak --timeout=3600 tests/soak

clean:
	rm -rf .venv $(LEROBOT) $(LEROBOT_06) $(LOGGERS) $(CLUSTER) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
