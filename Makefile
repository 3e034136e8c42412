# SPDX-License-Identifier: Apache-2.0
# Two commands do everything: `make run` and `make test`. Both make .venv themselves.

TARGET ?= auto
VENV := .venv
# The first Python that runs and is new enough (a name on PATH may be a version manager's stub).
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
  $$name -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)
READY := $(VENV)/ready
# Linters, test tools and plots, which running needs not: a second stamp.
TOOLS := $(VENV)/tools
# What builds the documentation: a third.
PAGES := $(VENV)/pages
# PINNED=1 installs exactly what continuous integration runs with, checked by hash, instead of what pyproject.toml allows.
PINS := requirements/ci.txt
# The tests of a file share what they set up. How many processes, and in which order: tests/conftest.py.
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder
# Tests start hundreds of processes: without bytecode on disk each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
FAST_TESTS := tests/unit/topo tests/unit/expander tests/unit/testgen/test_stored.py tests/unit/test_layout.py

.PHONY: run test test-long check fast native venv tools lint wheel arm64 newest docs p4 coverage rivals results fuzz pins clean

run: venv
	@$(VENV)/bin/detour demo --target $(TARGET)

test: native
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS) $(TESTS)

# What takes minutes each: fuzzing, each conformance check against faulty servers, whole benchmarks, BMv2 live.
test-long: native
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS) -m long $(TESTS)

# Native code, before many processes need it.
native: tools
	@$(VENV)/bin/detour warm

# Lint and the fast unit tests, with those generated of fabric.p4, side by side.
check: native
	@$(MAKE) --jobs --output-sync lint fast

fast:
	@$(VENV)/bin/python -m pytest -q $(PYTEST_ARGS) -m "not slow" $(FAST_TESTS)

venv: $(READY)

tools: $(TOOLS)

# The pages of docs/ and those of the interface, as a site in build/site. A link that leads nowhere fails.
# (Not --quiet: mkdocs counts only the warnings that it shows, so nothing would fail.)
docs: $(PAGES)
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict --clean

# The stamps are written last: an interrupted set-up starts again. Python compiles what is imported when it is: all at
# once would take 24 s and 100 MB.
$(READY): pyproject.toml $(if $(PINNED),$(PINS))
	@test -n "$(PYTHON)" || \
	  { echo "detour needs Python 3.11 or newer with venv: install python3 and python3-venv" >&2; exit 2; }
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing: install python3-venv" >&2; exit 2; }
ifdef PINNED
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(PINS)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
else
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[plugins]'
	@$(VENV)/bin/python -m pip uninstall --quiet --yes setuptools
endif
	@touch $(READY)

# The pins have the tools as well.
$(TOOLS): $(READY)
ifndef PINNED
	@echo "Installing linters, test tools and matplotlib (once)"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,plan,plot,plugins,test]'
	@$(VENV)/bin/python -m compileall -q -j 0 $(VENV)/lib
endif
	@touch $(TOOLS)

$(PAGES): $(READY)
ifndef PINNED
	@echo "Installing what builds the documentation (once)"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
endif
	@touch $(PAGES)

# What packet tests reach of our P4, over its source in build/coverage.
coverage: native
	@mkdir -p build
	@$(VENV)/bin/python -m pytest -q tests/ptf --coverage build/p4.coverage
	@$(VENV)/bin/detour coverage build/p4.coverage --exceptions detour/p4src/coverage.toml --fail-under 100 --html build/coverage

lint: tools
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/python -m pyright

# Builds the wheel, installs it in an environment of its own, and runs a fabric from it, away from these sources.
wheel: tools
	@$(VENV)/bin/python -m tests.wheel

p4: venv
	@$(VENV)/bin/python -m detour.p4.checked_in

# docs/rivals.md out of the runs that are kept.
rivals: venv
	@$(VENV)/bin/detour reproduce rivals --from docs/rivals.jsonl.xz --write docs/rivals.md

# docs/results.md with all its figures: about an hour on two cores.
results: tools
	@$(VENV)/bin/detour reproduce all

# As long as you like: make fuzz FUZZ_ARGS="--minutes 60 --seed 7 --target json"
fuzz: tools
	@$(VENV)/bin/python -m tests.fuzz $(FUZZ_ARGS)

# Renews the pins: the newest versions that pyproject.toml allows on every Python from 3.11 on, with their hashes.
pins:
	@$(PYTHON) -m venv build/pins
	@build/pins/bin/python -m pip install --quiet --disable-pip-version-check uv
	@build/pins/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command "make pins" --extra dev --extra plugins --extra plan --extra plot --extra test --extra docs pyproject.toml \
	  requirements/build.in -o $(PINS)

# The wheel for linux/arm64, built by cross target, under qemu-user.
arm64: tools
	@bash .ci/arm64

# Numba's and llvmlite's newest releases, whatever pyproject.toml allows, in an environment of their own: whether their
# private interfaces are those that detour uses, and whether native code is built and runs.
newest: tools
	@$(VENV)/bin/python -m venv --clear --system-site-packages build/newest
	@echo "$(abspath $(VENV))/lib/$$(ls $(VENV)/lib)/site-packages" > build/newest/lib/$$(ls build/newest/lib)/site-packages/tools.pth
	@build/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --pre --ignore-installed numba llvmlite
	@build/newest/bin/python -c "import llvmlite, numba; print('Numba', numba.__version__, 'and llvmlite', llvmlite.__version__)"
	@XDG_CACHE_HOME=$(abspath build/newest/cache) build/newest/bin/python -m pytest -q tests/unit/base/native

clean:
	@rm -rf $(VENV) build *.egg-info .pytest_cache .hypothesis .ruff_cache
