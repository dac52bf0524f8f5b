# Everything is installed into $(VENV) from the project's own files; needed are Python 3.11 or newer, make and a package index.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
SCENARIO ?= scenarios/training/megatron-1t.yaml
CHECKED = scenarios/quickstart.yaml scenarios/training scenarios/serving scenarios/jobs workloads/workflows/data-acquisition.yaml workloads/workflows/distillation.yaml workloads/workflows/grpo-7b-split.yaml --baseline tests/golden

# Tests start hundreds of processes: none of them compiles the package again, whatever the shell says.
export PYTHONDONTWRITEBYTECODE =

COUNT ?= 100000
SEED ?= 1
CONSTRAINTS ?= constraints.txt
DATA ?= measured

.PHONY: run test test-all explore fuzz check regression baselines calibrate docs lock bench clean help

run: $(VENV)/.package  ## replay the GPT-1T step of Megatron-LM on 3,072 A100
	$(BIN)/clustersim run $(SCENARIO)

test: $(VENV)/.dev  ## the tests, without the slow ones
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: $(VENV)/.dev  ## all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

explore: $(VENV)/.dev  ## the properties on many random examples (hours); what fails becomes an @example of its test
	$(BIN)/python -m pytest -n auto -m hypothesis --hypothesis-profile=explore

check: $(VENV)/.dev  ## format, lint, types, and the floors that imports must respect
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

regression: $(VENV)/.dev  ## the shipped scenarios against their baselines
	$(BIN)/clustersim check $(CHECKED) --jobs 2

baselines: $(VENV)/.dev  ## write the baselines anew and print what moved, for the pull request
	$(BIN)/clustersim check $(CHECKED) --jobs 2 --update

fuzz: $(VENV)/.dev  ## COUNT random inputs from SEED on; those that fail are printed and kept in fuzz-failures/
	$(BIN)/python -m tests.fuzz --count $(COUNT) --seed $(SEED) --jobs 2

CALIBRATE = $(BIN)/clustersim calibrate
ROWS = workloads/measurements
# Rows of today's serving are 1,911 points of few models under load: six of each model, device and source are fitted, as
# those stacks' sources say, and last, for two of the stacks have few of the older rows too. Figures whose source names
# no command were chosen by hand, as it says; this writes a fitted number in their place too.
MODERN = --samples 6 --profile sglang --profile tensorrt-llm-serve --profile vllm-async
calibrate: $(VENV)/.dev  ## the shipped profiles fitted anew into fitted/ (hours), from the tables below DATA
	$(CALIBRATE) kernels $(DATA)/data/kernels $(ROWS)/kernels.jsonl --out fitted
	$(CALIBRATE) collectives $(DATA) --out fitted
	$(CALIBRATE) all-reduce $(DATA)/data/kernels --out fitted
	$(CALIBRATE) exchanges $(ROWS)/exchanges.jsonl --out fitted
	$(CALIBRATE) stack $(ROWS)/training.jsonl --jobs 2 --out fitted
	$(CALIBRATE) stack $(ROWS)/serving.jsonl --jobs 2 --out fitted
	$(CALIBRATE) stack $(ROWS)/serving_modern.jsonl $(MODERN) --jobs 2 --out fitted

docs: $(VENV)/.docs  ## HTML pages in docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

lock:  ## the newest versions of all packages, written into constraints.txt when the tests pass with them
	$(MAKE) clean
	$(MAKE) test CONSTRAINTS=/dev/null
	{ echo '# The versions that the tests passed with, by `make lock`.'; $(BIN)/pip freeze --exclude-editable; } > constraints.txt
	touch $(VENV)/.package $(VENV)/.dev

bench: $(VENV)/.dev  ## the speed table
	$(BIN)/python -m benchmarks

clean:  ## remove everything that make has made
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find simulator tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The environment is made anew whenever pyproject.toml or constraints.txt changes. What it needs is installed in one go, in
# the versions that the tests passed with so that every clone gives the same verdict (the newest where one of them cannot be
# had), and compiled on all cores, where pip would take one, without the tests that libraries bring along.
INSTALL = $(PIP) install --no-compile --editable
define PACKAGES
$(INSTALL) '.$(EXTRAS)' --constraint $(CONSTRAINTS) || { \
	echo "versions of constraints.txt cannot be had here: installing the newest, which the tests have not seen" >&2; \
	$(INSTALL) '.$(EXTRAS)'; }
endef
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true

$(VENV)/.package: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PACKAGES)
	@$(COMPILE)
	@echo 'with $(EXTRAS)' > $@

$(VENV)/.dev: EXTRAS = [dev]
$(VENV)/.dev: $(VENV)/.package
	@grep -q dev $< || { { $(PACKAGES); } && { $(COMPILE); }; }
	@touch $@

$(VENV)/.docs: EXTRAS = [docs]
$(VENV)/.docs: $(VENV)/.package
	@grep -qE 'dev|docs' $< || { { $(PACKAGES); } && { $(COMPILE); }; }
	@touch $@
