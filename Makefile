# Two commands for a newcomer: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# Test processes, one more than cores: tests wait a lot.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# The versions that CI installs; CONSTRAINTS= (empty) takes the newest of every dependency.
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))

.PHONY: help demo demo-service quick test test-long test-js js-built test-kotlin kotlin-built lint bench simulate docs client-wheel release versions constraints clean
help:
	@echo "make demo   the whole life of a report on this machine, ending with tables and pages in demo-output/"
	@echo "make demo-service  the same, and then a decoder service to look at, until Ctrl-C"
	@echo "make test   the tests that hold the promises of docs/claims.md"
	@echo "make test-js  the TypeScript client's tests, where Node is (make test runs them, too)"
	@echo "make test-kotlin  the Kotlin client's tests, where npm and Java 17 are (make test runs them, too)"
	@echo "make lint   lint, types and import rules"
	@echo "make quick  lint, and the tests of what was touched since the last commit"
	@echo "make test-long  the tests marked long, which make test leaves out"
	@echo "make bench  speed and accuracy beside named rivals, on docs/benchmarks.md; BENCH=encode runs one part"
	@echo "make simulate  every experiment in its small form, with files in simulation-output/; under 10 minutes on two cores"
	@echo "make docs   the documentation as a site in site/, with the API reference; works offline"
	@echo "make client-wheel  the device's part alone, as a wheel in dist/"
	@echo "make release  sdist, wheels, the npm package, an SBOM and checksums in dist/, signed with SIGNING_KEY=FILE"
	@echo "make versions  the test suite on every supported Python that is installed"
	@echo "make clean  remove the virtual environment and what the tools leave behind"

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.all: $(VENV)/.python pyproject.toml
	$(INSTALL) -e '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.all pyproject.toml
	$(INSTALL) -e '.[all,dev]'
	@touch $@

demo: $(VENV)/.all
	$(BIN)/rappor demo

demo-service: $(VENV)/.all
	$(BIN)/rappor demo --serve

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/tools/words.py
	$(BIN)/python docs/tools/docstrings.py

quick: lint
	$(BIN)/pytest -q -n $(WORKERS) -m "not long" $$($(BIN)/python docs/tools/touched.py) || [ $$? -eq 5 ]  # 5: there are none

# Tests start hundreds of interpreters, which read what the first of them compiled.
test test-long: export PYTHONDONTWRITEBYTECODE :=
# Idle workers take tests from busy ones, a run of one file at a time, so that modules keep their fixtures.
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal
AGAIN := $(MAKE) --no-print-directory
JS_LOG := build/test-js.log
TEST_JS := if command -v npm >/dev/null; then cd client_js && npm run test:built; fi

KOTLIN_LOG := build/test-kotlin.log
# Ends a recipe where the Kotlin client cannot be built.
WITH_KOTLIN := why=; command -v npm >/dev/null || why="npm is not installed"; \
	java -version 2>&1 | grep -Eq '"(1[7-9]|[2-9][0-9])' || why="Java 17 is not installed"; \
	if [ -n "$$why" ]; then echo "client_kotlin: not tested: $$why"; exit 0; fi
KOTLIN_HOME := client_kotlin/node_modules/kotlin-compiler/lib
QUICK_JAVA := java -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -Xshare:auto
# A locale and a charset that have broken other SDKs.
TEST_KOTLIN := $(WITH_KOTLIN); $(QUICK_JAVA) $$KOTLIN_OPTIONS -Drappor.root=. -Dfile.encoding=US-ASCII -Duser.language=tr -Duser.country=TR \
	-cp build/kotlin/classes:build/kotlin/tests:$(KOTLIN_HOME)/kotlin-stdlib.jar rappor.telemetry.RunnerKt

# The tests of the TypeScript and Kotlin clients wait a lot, and run beside those of Python.
test: $(VENV)/.dev
	@mkdir -p build; $(AGAIN) js-built kotlin-built; built=$$?; \
	{ $(TEST_JS); } > $(JS_LOG) 2>&1 & js=$$!; \
	( $(TEST_KOTLIN) ) > $(KOTLIN_LOG) 2>&1 & kotlin=$$!; \
	$(PYTEST) -m "not long" $(PYTEST_ARGS); python=$$?; \
	wait $$js; js=$$?; wait $$kotlin; kotlin=$$?; cat $(JS_LOG) $(KOTLIN_LOG); exit $$((built | python | js | kotlin))

test-long: $(VENV)/.dev js-built kotlin-built
	$(PYTEST) -m long $(PYTEST_ARGS)
	@if command -v npm >/dev/null; then cd client_js && npm run test:long; fi
	@KOTLIN_OPTIONS=-Drappor.moments=1000; $(TEST_KOTLIN)

js-built:
	@if command -v npm >/dev/null; then cd client_js && npm ci --no-audit --no-fund && npm run build; \
	else echo "client_js: not tested: Node and npm are not installed"; fi

test-js: js-built
	@$(TEST_JS)

# Compiled once for each state of the sources: scripts/Build.java keeps their digest.
kotlin-built:
	@$(WITH_KOTLIN); cd client_kotlin; \
	[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund; \
	$(QUICK_JAVA) -cp ../$(KOTLIN_HOME)/kotlin-compiler.jar scripts/Build.java

test-kotlin: kotlin-built
	@$(TEST_KOTLIN)

$(VENV)/.bench: $(VENV)/.dev pyproject.toml
	$(INSTALL) -e '.[all,dev,bench]'
	@touch $@

# All parts take an afternoon of a machine that does nothing else; BENCH=encode runs one.
BENCH ?= *
bench: $(VENV)/.bench
	@mkdir -p build
	$(BIN)/pytest benchmarks/bench_$(BENCH).py -o python_files='bench_*.py' -o python_functions='bench_*' --benchmark-json=build/benchmarks.json
	$(BIN)/python -m benchmarks.page build/benchmarks.json

# Every experiment of the register of `rappor simulate`, small.
SIMULATE := $(BIN)/rappor simulate
AUDITED := privacy_audit/default_metrics.toml
EXPERIMENTS := normal exponential processes homepages longitudinal poisoning fleet decoder-calibration flow-coverage
simulate: $(VENV)/.all
	@for name in $(EXPERIMENTS); do $(SIMULATE) $$name --small || exit 1; done
	@$(SIMULATE) location-coverage $(AUDITED) --small

$(VENV)/.docs: $(VENV)/.all pyproject.toml
	$(INSTALL) -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

client-wheel: $(VENV)/.python
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist packaging/client

# A key of ssh-keygen, which signs the checksums; SECURITY.md says how they are checked.
SIGNING_KEY ?=
$(VENV)/.release: $(VENV)/.all pyproject.toml
	$(INSTALL) -e '.[release]'
	@touch $@

release: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist packaging/client
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	$(PYTHON) -m venv --clear build/installed
	build/installed/bin/python -m pip install --quiet $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) "$$(ls dist/rappor_telemetry-*.whl)[all]"
	build/installed/bin/rappor --version
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json build/installed
	@if command -v npm >/dev/null; then cd client_js && npm ci --no-audit --no-fund --silent && npm pack --silent --pack-destination ../dist; \
	else echo "client_js: no package: Node and npm are not installed"; fi
	@$(AGAIN) kotlin-built; for jar in build/kotlin/rappor-telemetry-client*.jar; do [ ! -f $$jar ] || cp $$jar dist/; done
	cd dist && sha256sum * > ../build/SHA256SUMS && mv ../build/SHA256SUMS .
	@if [ -n "$(SIGNING_KEY)" ]; then ssh-keygen -Y sign -q -f "$(SIGNING_KEY)" -n rappor-telemetry dist/SHA256SUMS; \
	else echo "SHA256SUMS is not signed: make release SIGNING_KEY=FILE signs it with a key of ssh-keygen"; fi
	@ls -l dist

VERSIONS := 3.11 3.12 3.13
versions:
	@for version in $(VERSIONS); do \
	  if command -v python$$version >/dev/null; then \
	    $(AGAIN) test PYTHON=python$$version VENV=build/python$$version || exit 1; \
	  else echo "python$$version is not installed"; fi; \
	done

constraints:
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet '.[all,dev,docs,release]'
	( head -n 2 constraints.txt; build/constraints/bin/python -m pip freeze | grep -v '@ file' ) > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist site
