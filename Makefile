# Everything a person or CI runs. Each environment is made once (a stamp file says so) and again when its lock changes.
# Needs Python 3.11 or newer with pip and venv; nothing else.

PYTHON ?= python3
PIP_FLAGS ?= -qq --disable-pip-version-check
JOBS ?= 2

VENV := .venv
VENV213 := .venv213
READY := $(VENV)/.ready
READY213 := $(VENV213)/.ready

.PHONY: demo test test-slow test-213 check format bench bench-memory bench-times bench-sweep sweep-catalogue docs-tables reproduce zoo lock clean help

help:  ## list the commands
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(READY): requirements/test.lock requirements/peers.lock pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install $(PIP_FLAGS) -r requirements/test.lock
	DS_BUILD_OPS=0 $(VENV)/bin/pip install $(PIP_FLAGS) --no-build-isolation --no-deps -r requirements/peers.lock
	$(VENV)/bin/pip install $(PIP_FLAGS) --no-deps --no-build-isolation --editable .
	touch $@

$(READY213): requirements/cpu213.lock pyproject.toml
	test -x $(VENV213)/bin/python || $(PYTHON) -m venv $(VENV213)
	$(VENV213)/bin/pip install $(PIP_FLAGS) -r requirements/cpu213.lock
	$(VENV213)/bin/pip install $(PIP_FLAGS) --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY)  ## the per-layer table of the built-in MobileNetV2
	@$(VENV)/bin/rasp stat mobilenet_v2 -i 1,3,224,224 --include macc

test: $(READY)  ## the tests, with a representative part of the model catalogue
	$(VENV)/bin/python -m pytest -n $(JOBS) -q

test-slow: $(READY)  ## the whole catalogue: hundreds of models, forward and backward
	$(VENV)/bin/python -m pytest -n $(JOBS) -q -m slow

test-213: $(READY213)  ## the tests on torch 2.13 for CPU, without torchvision, timm and transformers
	$(VENV213)/bin/python -m pytest -n $(JOBS) -q

check: $(READY)  ## lint, format, types, and who may import whom
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check src tests benchmarks
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(READY)  ## put the code in its form
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format src tests benchmarks

bench: $(READY)  ## speed against a bare forward and against other profilers; writes docs/speed.md
	$(VENV)/bin/python benchmarks/speed.py --write docs/speed.md

bench-memory: $(READY)  ## predicted memory beside fifty measured runs and PyTorch's tracker; writes docs/memory-check.md
	$(VENV)/bin/python benchmarks/memory.py --write docs/memory-check.md

bench-times: $(READY)  ## measured times beside a loop by hand, and torchvision's; writes docs/timing-check.md, docs/timing-torchvision.md
	$(VENV)/bin/python benchmarks/timing.py --write docs/timing-check.md
	$(VENV)/bin/python benchmarks/timing_torchvision.py --write docs/timing-torchvision.md

bench-sweep: $(READY)  ## what a sweep costs besides its cells; writes docs/sweep-speed.md
	$(VENV)/bin/python benchmarks/sweep.py --write docs/sweep-speed.md

sweep-catalogue: $(READY)  ## torchvision's classifiers and 200 of timm in one sweep; writes docs/sweep-catalogue.md
	$(VENV)/bin/python benchmarks/sweep_catalogue.py --write docs/sweep-catalogue.md

docs-tables: $(READY)  ## counts beside an independent count and beside other tools; writes pages and the picture in docs
	$(VENV)/bin/python docs/picture.py
	$(VENV)/bin/python benchmarks/oracle.py --write docs/verified-models.md
	$(VENV)/bin/python docs/conventions.py
	$(VENV)/bin/python benchmarks/conventions.py --write docs/conventions-cost.md
	$(VENV)/bin/python benchmarks/peers.py --write docs/peers.md

reproduce: $(READY)  ## the numbers that older tools published, computed again; writes docs/reproduction.md
	$(VENV)/bin/rasp reproduce -o docs/reproduction.md

zoo: $(READY)  ## the zoo's pages: tables, a page and a figure for each model; writes docs/zoo
	$(VENV)/bin/rasp zoo report --out docs/zoo

lock:  ## resolve the lock files anew from requirements/*.in
	rm -rf .venv-lock
	for name in test cpu213; do \
	  $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install $(PIP_FLAGS) -r requirements/$$name.in && \
	  { echo "# Made by 'make lock' from $$name.in"; .venv-lock/bin/pip freeze | sed 's/+cpu$$//'; } > requirements/$$name.lock && \
	  rm -rf .venv-lock || exit 1; \
	done

clean:  ## remove the environments and caches
	rm -rf $(VENV) $(VENV213) .venv-lock .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
