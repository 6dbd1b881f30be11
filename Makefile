PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
RUN := $(VENV)/bin/python
ARGS ?=
# Too slow a machine may miss a mark in a minute (5); only what was found (3, 6) is a failure.
HUNT = $(RUN) bench.py hunt --budget 60s --seed commit $(ARGS) || [ $$? -eq 5 ]
TYPED := bench.py cache workloads harness tools

.DEFAULT_GOAL := help
.PHONY: help venv soak test hunt lint bench lock sglang test-sglang ci-sglang clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' Makefile

venv: $(READY) ## Make .venv with the locked versions (PYTHON=python3.12 picks the interpreter)

soak: $(READY) ## Soak the reference cache and leave a report in results/ (ARGS="--seed 3" adds flags)
	@$(RUN) bench.py soak $(ARGS)

test: $(READY) ## Run the tests on two cores and then hunt (ARGS="-k tree" picks some)
	@tools/redis.sh
	@$(RUN) -m pytest -q -n auto --maxprocesses 2 $(ARGS)
	@$(if $(ARGS),,$(HUNT))

hunt: $(READY) ## Hunt for a minute on both grains, with a seed that is the commit's own
	@$(HUNT)

lint: $(READY) ## Check style with ruff and types with mypy
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy $(TYPED)

bench: $(READY) ## Time the tree, the pools, the world and storage, and print the tables
	@$(RUN) -m harness.bench $(ARGS)

lock: $(READY) ## Write requirements.lock anew from what .venv holds
	@$(RUN) tools/lock.py

sglang: $(READY) ## Bring a release of SGLang to torture (VERSION=0.5.12) and import it
	@$(RUN) -m harness.targets.sglang $(VERSION)

test-sglang: $(READY) ## Repeat what was found in releases of SGLang; skips those that are not there
	@$(RUN) -m pytest -q -n0 -m sglang tests/harness/targets $(ARGS)

ci-sglang: $(READY) ## As sglang and test-sglang for one release, where its wheel can be had
	@$(RUN) -m harness.targets.sglang.ci $(VERSION)

clean: ## Remove .venv and every tool's cache; runs in results/ stay
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || \
	  { echo "kvtorture needs Python 3.11 to 3.13 and '$(PYTHON)' is not one: try 'make venv PYTHON=python3.12'" >&2; exit 2; }
	@echo "making $(VENV) from requirements.lock; this happens once"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@
