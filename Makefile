# Two commands on a fresh machine: `make demo` trains something small and real, `make test` proves it all.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint check clean help

help:
	@echo "make demo   install, then train a low-rank GRU on a memory task (under three minutes)"
	@echo "make test   install, check style, types and imports, run all tests"
	@echo "make clean  remove the environment and caches"

# The install compiles the CPU kernel, so its sources call for another one. Where they do not compile
# an install goes on without it: the library of before must not stand in for them.
KERNEL := $(wildcard src/passnet/ops/cpu/*.c src/passnet/ops/cpu/*.h)

$(BIN)/.installed: pyproject.toml constraints.txt setup.py $(KERNEL)
	$(PYTHON) -m venv $(VENV)
	rm -f src/passnet/ops/cpu/_scan*.so
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(BIN)/.installed
	$(BIN)/passnet train quick/copy --out runs/demo

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

check: $(BIN)/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal

test: lint check

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
