# Two commands for a newcomer: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: help demo test test-js lint bench client-wheel clean
help:
	@echo "make demo   the whole life of a report on this machine, ending with a table and an HTML report"
	@echo "make test   lint, types, import rules, unit, statistical and end-to-end tests"
	@echo "make test-js  the TypeScript client's tests, where Node is (make test runs them, too)"
	@echo "make lint   lint, types and import rules only"
	@echo "make bench  speed and memory, as ratios against named alternatives"
	@echo "make client-wheel  the device's part alone, as a wheel in dist/"
	@echo "make clean  remove the virtual environment and what the tools leave behind"

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.all: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.all pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	@touch $@

demo: $(VENV)/.all
	$(BIN)/rappor demo

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST_ARGS)
	$(MAKE) test-js

test-js:
	@if command -v npm >/dev/null; then cd client_js && npm ci --no-audit --no-fund && npm test; \
	else echo "client_js: not tested: Node and npm are not installed"; fi

bench: $(VENV)/.dev
	$(BIN)/rappor bench

client-wheel: $(VENV)/.python
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist packaging/client

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
