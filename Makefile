# What a reader and a developer type. Any target can be the first one: each makes what it needs, once.

PYTHON ?= python3
# What pip installs beside the package. Without dsl (make book EXTRAS=book,test) NVIDIA's CuTe DSL is left out.
EXTRAS ?= dsl,book,test
# More options for the pip call that fetches torch, such as --index-url of an index that holds CPU builds.
TORCH_PIP ?=
# More options for pytest.
ARGS ?=
PORT ?= 8000
# make book: whether a warning, such as of a cell that wrote to stderr, fails it (STRICT=1).
STRICT ?=
# make lab: the address to listen on. make install: whether nbgrader comes, too (INSTRUCTOR=1).
IP ?=
INSTRUCTOR ?=

comma := ,
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH := $(shell sed -n '/^torch==/p' constraints.txt)
INSTALLED := .venv/installed-$(subst $(comma),-,$(EXTRAS))
# What make lab needs: CuTe DSL in the flavour of EXTRAS, if there is one, and JupyterLab; for an instructor nbgrader too.
FLAVOUR := $(filter dsl cu13,$(subst $(comma), ,$(EXTRAS)))
LAB := .venv/installed-$(if $(FLAVOUR),$(FLAVOUR)-)$(if $(INSTRUCTOR),labs,jupyter)
BUILT := _build/html/.built
PAGES := _config.yml _toc.yml $(shell find book notebooks labs -type f ! -name '*.ipynb' ! -name '*.pyc' ! -path '*/.*')
CODE := $(shell find cutesim quack_tutorial bench grading workbench -type f ! -name '*.pyc')

# A clone that was moved or copied: the programs in its .venv name the old place.
ifneq ($(shell test -L .venv || sed -n 's/^command = .* -m venv //p' .venv/pyvenv.cfg 2>/dev/null | grep -vxF '$(CURDIR)/.venv'),)
$(info This folder has been moved, so that .venv is made anew.)
$(shell rm -rf .venv)
endif

.DEFAULT_GOAL := help
.PHONY: help book serve test test-slow test-timed test-all install lab notebooks check-notebooks lint site-tools lab-tools \
    constraints clean

help:
	@echo "make book             install into .venv, run every chapter, build the site into _build/html"
	@echo "make serve            build if needed, then serve the site on http://127.0.0.1:$(PORT)"
	@echo "make test             install into .venv, run the quick tests (make test ARGS='-k layout')"
	@echo "make test-all         all tests, those that take minutes too"
	@echo "make lab              open the chapters in JupyterLab, as copies of yours (make lab PORT=9000)"
	@echo "make install          install what make lab needs, and start nothing"
	@echo "make notebooks        write notebooks/*.ipynb from notebooks/*.md"
	@echo "make check-notebooks  fail if a notebook differs from its source"
	@echo "make lint             ruff, over the modules and the notebooks"
	@echo "make site-tools       install what the browser test of the site needs (Node.js and Chromium must be there)"
	@echo "make lab-tools        install JupyterLab and transformers, which slow tests need on top"
	@echo "make constraints      write constraints.txt from what is installed in .venv"
	@echo "make clean            remove _build and .venv, never your copies in work/"

# What is installed is in the file's name. torch comes first and alone: left to itself, pip could settle on another version and fetch
# gigabytes for it.
.venv/installed-%: pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, $(PYTHON) is %d.%d: \
	book/setup.md says how to get one" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "Installing into .venv (a few minutes the first time) ..."
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@$(PIP) install $(TORCH_PIP) "$(TORCH)"
	@$(PIP) install --constraint constraints.txt --editable ".[$(subst -,$(comma),$*)]"
	@touch $@

book: $(BUILT)
	@echo "The book is in _build/html/index.html; make serve shows it on http://127.0.0.1:$(PORT)"

# The site with cells that have not run, in half a minute, for whoever waits to read it (not where STRICT=1 checks it). The
# configuration lies here, since Sphinx looks for extensions beside it.
FIRST_LOOK = awk '{ sub(/force.*/, "\"off\"") } 1; /^html:/ { print "  announcement: \"$(ANNOUNCED)\"" }' _config.yml >.first.yml && \
  $(BIN)/jupyter-book build . --config .first.yml --path-output _build/first --all --quiet >_build/first.log 2>&1 && \
  mv _build/first/_build/html _build/html && echo "A first look, without what cells give: _build/html/index.html"; rm -rf .first.yml _build/first
ANNOUNCED := A first look: cells have not run yet. Reload this page once make book has ended.

# From nothing each time: Sphinx warns about a page only when it reads it, so a second try would forget the first's warnings.
$(BUILT): $(INSTALLED) $(PAGES) $(CODE)
	@rm -rf _build/html
	@mkdir -p _build
	@$(BIN)/python scripts/browser_runtime.py fetch
	@$(if $(STRICT),,$(FIRST_LOOK))
	@echo "Running the chapters and building the site ..."
	QUACK_TUTORIAL_PROGRESS=0 $(BIN)/jupyter-book build . --all --quiet -n $(if $(STRICT),-W --keep-going)
	@touch $@

serve: $(BUILT)
	@echo "http://127.0.0.1:$(PORT) (Ctrl-C stops it)"
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not timed" $(ARGS)

# One after the other: a wall time says nothing of a page where another browser shares the cores.
test-timed: $(INSTALLED)
	$(BIN)/python -m pytest -m timed $(ARGS) $(shell grep -rl --include=*.py pytest.mark.timed tests)

test-all: export ARCHITECTURES = all
test-all: test test-slow test-timed

install: $(LAB)

# PORT is serve's unless it is given here: then JupyterLab takes that one, and otherwise the first free one from 8888 on.
lab: $(LAB)
	@$(BIN)/quack-tutorial lab $(if $(filter-out file,$(origin PORT)),--port $(PORT)) $(if $(IP),--ip $(IP))

notebooks: $(INSTALLED)
	$(BIN)/python scripts/sync_notebooks.py

check-notebooks: $(INSTALLED)
	$(BIN)/python scripts/sync_notebooks.py --check

lint: $(INSTALLED)
	@rm -rf _build/code
	@$(BIN)/python scripts/sync_notebooks.py --code _build/code
	$(BIN)/ruff check . _build/code
	$(BIN)/ruff format --check . _build/code

site-tools:
	cd tests/site && npm install --no-package-lock --no-audit --no-fund --loglevel=error

# What slow tests need beside site-tools: JupyterLab, and Notebook 7, which nbgrader brings; the models of transformers.
lab-tools: .venv/installed-$(if $(FLAVOUR),$(FLAVOUR)-)labs-models

# CUDA's own packages are left out: torch and CuTe DSL pin them, differently for each machine.
constraints: $(INSTALLED) .venv/installed-dsl-labs-models
	@sed -n '/^#/p' constraints.txt > .venv/constraints
	@$(BIN)/pip freeze --exclude-editable | sed -E '/^(nvidia|cuda|triton)/d; s/[+]c[a-z0-9]+$$//' >> .venv/constraints
	@cp .venv/constraints constraints.txt

clean:
	rm -rf _build .venv book/labs
