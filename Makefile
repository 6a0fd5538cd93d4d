# `make` alone lists the targets. Each target sets up what it needs in .venv and can be called first on a fresh clone.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The newest usable Python on the PATH; `make PYTHON=/some/python` overrides. Each candidate is run, because a
# version manager may put names on the PATH that do not work.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  "$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ROOMS := api lang hw schedule codegen planner autotune
SOURCES := $(wildcard $(ROOMS) tests examples benchmarks docs setup.py)
ARGS ?=

.PHONY: help demo test campaign golden lint format types bench docs clean distclean

help:  ## list the targets
	@echo "tilewright: make TARGET [PYTHON=python3.x] [ARGS='more arguments of the tool']"
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1\t/' | \
	  while IFS=$$'\t' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

demo: $(VENV)/demo.stamp  ## set up .venv and run the demonstration
	$(BIN)/python -m tilewright demo $(ARGS)

test: $(VENV)/test.stamp  ## run the test suite (ARGS='tests/lang -k name')
	$(BIN)/python -m pytest -q $(ARGS)

campaign: $(VENV)/test.stamp  ## the long fuzzing runs (TILEWRIGHT_FUZZ=50 multiplies the examples)
	$(BIN)/python -m pytest -q -m campaign $(ARGS)

golden: $(VENV)/test.stamp  ## run the tests and rewrite the expected texts in tests/golden; read the diff afterwards
	$(BIN)/python -m pytest -q --update-golden $(ARGS)

lint: $(VENV)/test.stamp  ## style and format, checked and not changed
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(VENV)/test.stamp  ## put the sources into shape
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# Type checkers do not follow the import hooks of an editable install, so they get a tree with the shape of the
# installed package whose files are links to ours (folders must be real: a checker skips linked folders).
types: $(VENV)/test.stamp  ## static types
	@rm -rf build/typecheck
	@find $(wildcard $(ROOMS)) \( -name '*.py' -o -name '*.pyi' -o -name py.typed \) | while read -r file; do \
	  place="build/typecheck/tilewright/$${file#api/}"; mkdir -p "$$(dirname "$$place")"; ln -s "$(CURDIR)/$$file" "$$place"; done
	@$(BIN)/pyright $(ARGS) | sed -E 's#$(CURDIR)/build/typecheck/tilewright/##'

bench: $(VENV)/bench.stamp  ## side-by-side measurements (ARGS='matmul softmax --threads 2 --json')
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/test.stamp  ## rewrite what is generated in docs/
	$(BIN)/python docs/generate.py

clean:  ## remove what was generated (not .venv)
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find $(wildcard $(ROOMS) tests) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove .venv as well
	rm -rf $(VENV)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer (with venv) on the PATH; say make PYTHON=..."; exit 2; }
	"$(PYTHON)" -m venv $(VENV)

# One stamp for each set of extras; out of date when the dependencies or the list of rooms change.
$(VENV)/demo.stamp: EXTRAS := plot
$(VENV)/test.stamp: EXTRAS := test
$(VENV)/bench.stamp: EXTRAS := bench
$(VENV)/demo.stamp $(VENV)/test.stamp $(VENV)/bench.stamp: pyproject.toml setup.py | $(BIN)/python
	$(PIP_INSTALL) -e '.[$(EXTRAS)]'
	@touch $@
