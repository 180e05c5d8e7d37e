# Needs Python 3.11 to 3.13 with pip, and make. Everything else goes into .venv, in the versions of requirements.lock.
#   make demo    measure this machine
#   make test    every check and test; as root on Debian or Ubuntu it also sets up the lab
#   make zoo     every model of the benchmark, where the tests take one of each kind; half an hour
#   make compat  every model on every TensorFlow from 2.3 on, with Pythons 3.6 to 3.13; hours, and 10 GB in .cache
#   make lint    the checks that take seconds
#   make pictures  the README's picture anew, from a run on the lab
#   make lock    requirements.lock anew from pyproject.toml
#   make clean   remove what the others made; reports/ stays

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that fleet and TensorFlow both run on; `make PYTHON=/path/to/python3.12 demo` names another.
CANDIDATES := python3 python3.13 python3.12 python3.11
PYTHON ?= $(shell for p in $(CANDIDATES); do \
  "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && { echo "$$p"; break; }; done)
PIP_INSTALL = $(BIN)/python -m pip --disable-pip-version-check -qq install

.DEFAULT_GOAL := help
.PHONY: help demo test zoo compat lint lock clean lab pictures

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.fleet
	@$(BIN)/fleet run --inventory inventories/localhost.yaml --suite smoke
	@echo "fleet is here: $(BIN)/fleet. What next? $(BIN)/fleet --help, and README.md." >&2

# pytest comes last: the last line of `make test` counts the tests. A file's tests stay together, in one process.
test: lint lab
	@$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder

zoo: $(VENV)/.fleet
	@FLEET_ZOO=all $(BIN)/python -m pytest tests/payload/test_zoo_counts.py tests/payload/test_zoo_logits.py \
	  tests/payload/test_zoo_steps.py

# The tests take the oldest and the newest of these, and one model of each kind.
compat: $(VENV)/.fleet
	@FLEET_ZOO=all $(BIN)/python -m pytest tests/payload/test_payload_pairs.py

lint: $(VENV)/.fleet
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

# Real SSH hosts need an SSH server and a container engine. Elsewhere the tests that need them say what is missing.
lab: $(VENV)/.fleet
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then sh tests/lab/setup.sh; fi

# Debian's python3 may come without ensurepip; its pip can fill an empty environment all the same.
$(VENV)/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "fleet needs Python 3.11, 3.12 or 3.13 and found none of: $(CANDIDATES). Install one, or say: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null && "$(PYTHON)" -m venv $(VENV) || { \
	  "$(PYTHON)" -m venv --without-pip $(VENV) && "$(PYTHON)" -m pip --python $@ -qq install pip; }

$(VENV)/.locked: requirements.lock | $(VENV)/bin/python
	@echo "installing the versions of requirements.lock into $(VENV) (TensorFlow is about 250 MB)" >&2
	@$(PIP_INSTALL) --requirement requirements.lock
	@touch $@

# Only the metadata matters here: the install is editable, so that a changed module needs no new one.
$(VENV)/.fleet: pyproject.toml $(VENV)/.locked
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

pictures: lab
	@$(BIN)/python -m docs.make_pictures

# One lock for every platform and Python version we support, with the hashes of the files and no addresses.
lock:
	@"$(PYTHON)" -m venv .cache/lock && .cache/lock/bin/python -m pip -qq install uv
	@.cache/lock/bin/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements.lock $(LOCK_ARGS)

clean:
	rm -rf $(VENV) .cache build dist .mypy_cache .pytest_cache .ruff_cache
	find fleet payload tests -name __pycache__ -type d -prune -exec rm -rf {} +
