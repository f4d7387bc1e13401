# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv and installs what it needs by itself; a
# stamp file in .venv makes the second time quick.

PYTHON ?= python3
OVERLAY ?=
DEMO_PEERS ?= 24
DEMO_SECONDS ?= 60
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TEST_EXTRAS := dev,analytics
PYTEST := $(BIN)/python -m pytest
ON_ALL_CORES := -n auto --dist worksteal
# Some fast tests wait for real peers: one worker more than there are cores has something to do meanwhile.
ON_ALL_CORES_AND_MORE := -n $(shell expr 1 + $$(getconf _NPROCESSORS_ONLN)) --dist worksteal

# Slow tests that want the machine to themselves: they start real peers and wait for them, or Spark, which takes all cores.
ALONE := tests/analytics tests/cli tests/deploy tests/fleet tests/sub2sub/test_real_peers.py tests/testbed
# Of conformance at 200 peers: all of the baseline; of the others one run in calm and one in which a fifth crashes.
LARGE := broadcast or 200-peers-seed-11-mixed and everything_owed or 200-peers-seed-11-refusing and a_fifth_crashes

# Tests start many processes, and each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast fast-without-spark fast-with-spark test-large test-containers lint format bench clean

help:
	@echo "make demo       $(DEMO_PEERS) real peers at work for $(DEMO_SECONDS) s (OVERLAY=name picks how they are linked)"
	@echo "make test       the whole test suite"
	@echo "make test-fast  the suite without the slow tests"
	@echo "make test-large conformance of every overlay at 200 simulated peers"
	@echo "make test-containers  of the whole suite only this: 20 peers in containers with a real Prometheus, and faults"
	@echo "make lint       ruff and mypy"
	@echo "make format     let ruff format the code"
	@echo "make bench      the benchmarks"
	@echo "make clean      remove .venv and everything built"

demo: $(VENV)/installed-run
	$(BIN)/peerd testbed demo $(if $(OVERLAY),--overlay $(OVERLAY)) --peers $(DEMO_PEERS) --seconds $(DEMO_SECONDS)

test: test-fast
	$(PYTEST) $(ON_ALL_CORES) -m "slow and not large" $(addprefix --ignore=,$(ALONE)) $(PYTEST_ARGS)
	$(PYTEST) $(ON_ALL_CORES) -m large -k "$(LARGE)" tests/conformance $(PYTEST_ARGS)
	$(PYTEST) -m slow $(ALONE) $(PYTEST_ARGS)

test-large: $(VENV)/installed-dev
	$(PYTEST) $(ON_ALL_CORES) -m large tests/conformance $(PYTEST_ARGS)

# Side by side: Spark mostly waits for itself. Lines of both appear as they come.
test-fast: $(VENV)/installed-dev
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line fast-without-spark fast-with-spark

fast-without-spark:
	$(PYTEST) $(ON_ALL_CORES_AND_MORE) -m "not slow and not large" --ignore=tests/analytics $(PYTEST_ARGS)

fast-with-spark:
	$(PYTEST) -m "not slow" tests/analytics $(PYTEST_ARGS)

test-containers: $(VENV)/installed-dev
	$(PYTEST) -m slow tests/deploy/test_containers.py $(PYTEST_ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@for candidate in $(PYTHON) python3.14 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        "$$candidate" -m venv $(VENV) && exit 0; \
	        rm -rf $(VENV); \
	        echo "make: $$candidate cannot make a virtual environment; install its venv module (Debian: python3-venv)" >&2; \
	        exit 1; \
	    fi; \
	done; \
	echo "make: no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/installed-run: pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) -e '.[$(TEST_EXTRAS)]'
	@touch $@ $(VENV)/installed-run
