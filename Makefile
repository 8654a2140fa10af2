# Targets create the virtual environment on first use. Requires only Python 3.11, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.remem-ready

.PHONY: demo test shuffle mutants torture sbom lock check bench docs clean

demo: $(READY)
	$(BIN)/remem demo

test: $(READY)
	$(BIN)/python -m pytest -n 2

SEED ?= 0
shuffle: $(READY) # all tests in random order; repeat an order with SEED=K
	$(BIN)/python -m pytest -n 2 -p randomly -p no:cacheprovider --randomly-seed=$(SEED)

MUTANTS ?= 1000
mutants: $(READY) # do tests notice small changes of the code? MUTANTS=all, PACKAGE=memory, SEED=K, KEEP=1 to record less
	$(BIN)/python -m mutants --seed $(SEED) $(if $(filter all,$(MUTANTS)),--all,--sample $(MUTANTS)) \
		$(if $(PACKAGE),--package $(PACKAGE)) $(if $(KEEP),--keep)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

KILLS ?= 1000
UPDATES ?= 200
DAMAGE ?= 5000
INPUTS ?= 100000
STEPS ?= 1000000
torture: $(READY) # kills, damaged files, mutated inputs, random allocations: hours; fewer with KILLS=30 DAMAGE=500 ...
	$(BIN)/python -m torture --seed $(SEED) --kills $(KILLS) --updates $(UPDATES) --damage $(DAMAGE) --inputs $(INPUTS) --steps $(STEPS)

sbom: $(READY) # software bill of materials of the environment: build/sbom.cdx.json
	$(BIN)/python sbom.py

bench: $(READY)
	$(BIN)/python -m benchmarks

docs: $(READY) # the documentation site, into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: $(READY) # newer or other packages: renews the lock files, with `uv`
	$(BIN)/python lock.py

# Nothing is installed whose hash is not in the lock files; they have all packages, so pip need not look for others.
HASHED = $(BIN)/python -m pip install --quiet --require-hashes --no-deps
FOR_CUDA = from importlib.metadata import requires; exit(not any("nvidia" in name for name in requires("torch") or ()))
$(READY): pyproject.toml requirements.lock requirements-cuda.lock requirements-cpu.lock
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "remem needs Python 3.11 or newer; this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(HASHED) --requirement requirements-cpu.lock 2>/dev/null || echo "torch: no CPU build for this Python; the index has one"
	$(HASHED) --requirement requirements.lock
	if $(BIN)/python -c '$(FOR_CUDA)'; then $(HASHED) --requirement requirements-cuda.lock; fi
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	touch $(READY)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .mutants demo-out site
