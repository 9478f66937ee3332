# One command each: `make demo`, `make test`, `make lint`, `make bench` and more (`make help`). All of them set up .venv when it is stale.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
# Reports how long pytest's slowest tests took; more: make test PYTEST_ARGS="-k status -x"
PYTEST_ARGS ?= --durations=10
# A later -m in PYTEST_ARGS takes the place of the one before.
USUAL = -m "not slow"
# What is copied into the job's folder runs on whatever Python the nodes have; __init__.py stays with the launcher.
ON_NODES = $(filter-out %/__init__.py,$(wildcard nemo_launch/runner/*.py))

.PHONY: help demo test test-all lint format bench clean

help:
	@echo "make demo      train a tiny Llama here with two processes"
	@echo "make test      run the tests, on a real Slurm cluster where this machine can start one (root, Debian)"
	@echo "make test-all  the same with the slow ones"
	@echo "make lint      ruff, mypy --strict, shellcheck, vermin"
	@echo "make format    let ruff rewrite what it can"
	@echo "make bench     measure what benchmarks/ promises"
	@echo "make clean     remove .venv and all that was made here"

# The stamp is touched last, so an interrupted installation is taken up again.
.venv/.complete: pyproject.toml constraints.txt scripts/setup-venv
	scripts/setup-venv

demo: .venv/.complete
	scripts/demo

# Without root the Slurm packages cannot be installed; if they are not there already, pytest says what it skipped.
test test-all: .venv/.complete
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then tests/lab/slurm-up.sh --install; fi
	$(BIN)/python -m pytest $(if $(filter test,$@),$(USUAL)) $(PYTEST_ARGS)

lint: .venv/.complete
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy run.py
	$(BIN)/vermin --quiet --no-tips --violations -t=3.8- $(ON_NODES)
	@if command -v shellcheck >/dev/null; then set -x; shellcheck $$(scripts/shell-files); \
	else echo "shellcheck is not installed: the shell files were not checked"; fi

format: .venv/.complete
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/.complete
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

clean:
	rm -rf .venv .venv.lock .venv.apt.log .demo build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
