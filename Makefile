# make demo   the main job, from a fresh clone       make test        the tests (under 15 minutes)
# make check  ruff, mypy, import direction           make test-full   the long tests too
# make bench  every benchmark, one after another     make docs        the documentation site, in site/
# make tables the tables of docs/ that show the registries
PYTHON ?= python3.11
VENV   := .venv
RUN    := $(VENV)/bin/python
STAMP  := $(VENV)/.installed

.PHONY: demo test test-full check bench docs tables format clean

demo: $(STAMP)
	$(RUN) -m captrial demo --out demo

test: $(STAMP)
	$(RUN) -m pytest

test-full: $(STAMP)
	$(RUN) -m pytest --full

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(RUN) -m pytest tests/test_imports.py

bench: $(STAMP)
	$(RUN) -m benchmarks

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet

tables: $(STAMP)
	$(RUN) -m studies.registry_tables

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The constraints file pins every version; without it pip would resolve a torch with gigabytes of CUDA.
$(STAMP): pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (a few minutes the first time) ..."
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --constraint constraints.txt --editable '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist demo site .pytest_cache .mypy_cache .ruff_cache
