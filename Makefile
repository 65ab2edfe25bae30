# `make repro` runs the pipeline, `make test` checks it; both do all their own set-up.
PYTHON ?= python3
PROFILE ?=
BIN := .venv/bin
INSTALLED := .venv/.installed

# A run starts about a hundred processes that import PyTorch and Lightning: the others need what the first one compiles.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: repro test clean

repro: $(INSTALLED)
	$(BIN)/python -m pipeline repro $(if $(PROFILE),--profile $(PROFILE))

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder

# constraints.txt lists every package with its version, so there is nothing to resolve.
$(INSTALLED): constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --disable-pip-version-check -r constraints.txt
	touch $@

clean:
	rm -rf .venv profiles .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
