# Everything works from a fresh clone with only python3, python3-venv and make: `.venv` is made and filled as needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
JOBS ?= 2

.PHONY: help install demo web check test test-all test-cpus test-cpus-quick lint types stubs kernels wheel bench docs clean

help:
	@echo "make demo      protect an invented census and write a release with a report to demo/"
	@echo "make web       the app: opens a browser on the demo, and on your own files"
	@echo "make test      run the tests (a few minutes)"
	@echo "make test-all  also the slow statistical and load tests"
	@echo "make test-cpus the numeric tests as other processors would compute them (an hour); test-cpus-quick: one of them"
	@echo "make lint      ruff and mypy"
	@echo "make check     before a push: lint and test"
	@echo "make stubs     write __init__.pyi again, after a part was added or a field changed"
	@echo "make kernels   compile ahead what first commands need, for the wheel (and this clone, until a kernel changes)"
	@echo "make wheel     build the wheel and the source archive in dist/"
	@echo "make bench     the benchmarks, as ratios to numpy, scipy and polars on this machine"
	@echo "make docs      build the documentation in site/"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[io,online,web,outputs,parties,dev]"
	@touch $(STAMP)

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@touch $(DOCS_STAMP)

demo: $(STAMP)
	$(BIN)/discretion demo --out demo --force

web: $(STAMP)
	$(BIN)/discretion web --folder projects --demo --open

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not slow"

test-all: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --hypothesis-profile explore

test-cpus: $(STAMP)
	$(BIN)/python tests/cpus.py -n $(JOBS) --dist loadgroup

test-cpus-quick: $(STAMP)
	$(BIN)/python tests/cpus.py --quick -n $(JOBS) --dist loadgroup

check: lint test

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/mypy

types: $(STAMP)
	$(BIN)/mypy

stubs: $(STAMP)
	$(BIN)/python docs/stubs.py

kernels: $(STAMP)
	$(BIN)/python docs/kernels.py

wheel: kernels
	rm -rf dist
	$(BIN)/python -m build --no-isolation

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(DOCS_STAMP)
	$(BIN)/python docs/build.py

clean:
	rm -rf $(VENV) demo site build dist
