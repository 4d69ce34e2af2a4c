# make demo          remember a small history and ask three questions
# make test          run all tests
# make check         check style and types
# make torture       try to break every promise of docs/promises.md
# make bench         measure the store, encryption and the local models
# make eval          measure the figures of the documents and enter them (DATA=folder)
# make compare       measure other memory systems too (PEERS="mem0 memos": installed by pip)
# make gate          check that retrieval still finds what tests/eval/gate.toml lists
# make integrations  test each integration with the newest version of its framework
# make lock          pin the dependencies again
#
# Each target sets up .venv first. No key and no server are needed.

VENV    := .venv
BIN     := $(VENV)/bin
# The newest Python on the PATH that really runs and is 3.11 or later.
PYTHON  ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP     := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test torture check bench eval compare gate integrations lock clean

demo: $(VENV)/.core
	@$(BIN)/justmem demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile $(ARGS)

torture: $(VENV)/.dev
	$(BIN)/python tests/torture $(ARGS)

CODE := src tests bench examples

check: $(VENV)/.dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check $(CODE) && $(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python bench/store.py --cards 1000 10000 100000 && \
	  $(BIN)/python bench/locked.py && $(BIN)/python bench/models.py

# Where the official benchmark files are: `justmem-eval data` says where to get them.
DATA ?= $(firstword $(wildcard data ../shared/data) data)

# The runs are kept in build/eval: after a kill, the same command goes on.
eval: $(VENV)/.core
	$(BIN)/justmem-eval all --data $(DATA) --figures docs/figures.json $(ARGS)
	$(BIN)/justmem-eval fill README.md docs/*.md --figures docs/figures.json
	$(BIN)/python docs/pictures/draw.py

# The systems to compare with, and what pip installs for each. Others: ARGS="--python amem=PATH".
PEERS ?= mem0 mempalace memos
PIP_mem0 := mem0ai
PIP_mempalace := mempalace
PIP_memos := MemoryOS qdrant-client

build/peers/%/.done:
	$(if $(PIP_$*),,$(error The package index has no $*: install it by hand, then ARGS="--python $*=PATH"))
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(PIP_$*)
	touch $@

compare: $(VENV)/.core $(PEERS:%=build/peers/%/.done)
	rm -f build/compare.json
	$(BIN)/justmem-eval peers --data $(DATA) $(foreach peer,$(PEERS),--python $(peer)=build/peers/$(peer)/bin/python) --figures build/compare.json $(ARGS)
	$(BIN)/python docs/pictures/draw.py build/compare.json

gate: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/eval/test_eval_gate.py $(ARGS)

integrations: $(VENV)/.dev
	@$(PIP) install uv
	@$(BIN)/python tests/integrations $(ARGS)

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "JustMem needs Python 3.11 or later on the PATH."; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) (once)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: requirements/core.txt pyproject.toml | $(VENV)/.python
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/core.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.core
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/dev.txt
	@touch $@

# The written files name no package index: the machine's settings choose it.
lock: $(VENV)/.python
	$(PIP) install uv
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate \
	  --python-version 3.11 $(UPGRADE) pyproject.toml requirements/build.in -o requirements/core.txt
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate \
	  --python-version 3.11 $(UPGRADE) pyproject.toml requirements/build.in --group dev \
	  -o requirements/dev.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
