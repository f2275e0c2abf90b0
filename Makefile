# Two commands for a newcomer: `make demo` and `make test`. Each builds all that it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: build cc-tests
build:
	$(BIN)/python -m build_tools

cc-tests:
	$(BIN)/python -m build_tools cc-tests
