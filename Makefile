# `make repro` runs the pipeline, `make test` checks it; both do all their own set-up.
#   PROFILE=smoke      a preset of presets/ laid over params.yaml
#   TORCH=cpu          PyTorch's CPU build: 200 MB instead of 3 GB for a GPU; kept until `make clean`. Where pip knows
#                      none, add PIP_EXTRA_INDEX_URL=ADDRESS: the one that pytorch.org shows for pip and CPU.
#   PYTHON=python3.13  makes .venv anew if this has made it of another version; by default .venv's own, or python3.
PYTHON ?= $(shell test -x .venv/bin/python && echo .venv/bin/python || echo python3)
PROFILE ?=
TORCH ?=
BIN := .venv/bin

# A run starts about a hundred processes that import PyTorch and Lightning: the others need what the first one compiles.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install repro test docs clean
# One after the other, as they are named: `make -j clean repro` would remove what it installs.
.NOTPARALLEL:

install:
	@$(PYTHON) install.py pipeline,peers --torch=$(TORCH)

repro: install
	$(BIN)/python -m pipeline repro $(if $(PROFILE),--profile $(PROFILE))

test:
	@$(PYTHON) install.py development --torch=$(TORCH)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder

# The tables of README and docs/, from the reports.
docs: install
	$(BIN)/python -m docs.generate

clean:
	rm -rf .venv profiles/*/data profiles/*/checkpoints .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
