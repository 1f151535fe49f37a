# Every target makes its own environment in .venv when there is none.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin
# Twice quiet: errors only.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
STAMP := .venv/.installed
BENCH_STAMP := .venv/.installed-bench

.PHONY: help venv demo test test-all bench bench-growth bench-report lint format clean

help:
	@echo "make demo      a shoulder from motion to muscle forces, figures in out/shoulder"
	@echo "make test      the tests, without the slow ones"
	@echo "make test-all  all tests"
	@echo "make bench     speed against the peers that are installed, out/bench.json"
	@echo "make bench-growth  how cost grows, benchmarks/results/growth.json (up to ten minutes)"
	@echo "make bench-report  measure all of it again and rewrite docs/benchmarks.md"
	@echo "make lint      style and types"
	@echo "make format    rewrite the sources in the project's format"
	@echo "make clean     remove the environment, caches and results"

venv: $(STAMP)

$(STAMP): pyproject.toml
	@echo "making .venv (once; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "empbody needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) install --editable ".[test,lint]"
	@# Pinocchio checks the dynamics, BlackJAX samples posteriors, and so on; tests skip without.
	@for extra in peers bayes gym zarr export; do $(PIP) install --editable ".[$$extra]" 2>/dev/null \
		|| echo "the extra $$extra is not available here: its tests will be skipped"; done
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@$(PIP) install --editable ".[bench]" 2>/dev/null \
		|| for peer in pin mujoco opensim scikit-sundae; do $(PIP) install $$peer 2>/dev/null \
		|| echo "$$peer is not available here: its figures will be left out"; done
	@touch $@

demo: $(STAMP)
	$(BIN)/empbody run shoulder --out out/shoulder

# A file's tests share compiled functions, so a file stays on one worker.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

test-all: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

bench: $(BENCH_STAMP)
	@mkdir -p out
	$(BIN)/empbody bench --json out/bench.json

bench-growth: $(BENCH_STAMP)
	$(BIN)/python benchmarks/growth.py

bench-report: $(BENCH_STAMP)
	$(BIN)/python benchmarks/report.py --measure

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .cache .hypothesis .pytest_cache .ruff_cache build dist out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
