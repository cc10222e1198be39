# `make demo` and `make test` need Python 3 and make, nothing else: the environment below bootstraps itself.
# The first Python 3 that runs: where pyenv lacks the version of .python-version, its `python3` does not.
PYTHON3 ?= $(shell for p in python3 /usr/bin/python3 python; do "$$p" -c 'import venv' 2>/dev/null && echo "$$p" && break; done)
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
MODEL   ?= fixtures/onnx/resnet50_b1_legacy17.onnx
BOARD   ?= n150
OP      ?= /m/resnet/encoder/stages.0/layers.1/layer/layer.0/convolution/Conv

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test test-slow check types dead-code style format schema screenshots pins serve bench fuzz viewers check-long clean

help: ## list what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(READY): pyproject.toml constraints.txt scripts/bootstrap.py
	@$(PYTHON3) scripts/bootstrap.py --venv $(VENV)
	@touch $@

setup: $(READY) ## make the environment (.venv); the other targets do it by themselves

demo: $(READY) ## optimize ResNet-50 for an n150 and explain one of its convolutions
	$(BIN)/ttopt optimize $(MODEL) --board $(BOARD) -o demo-out
	$(BIN)/ttopt explain demo-out/graph.json $(OP)

# Tests start some hundred processes: none may compile its imports again, whatever the machine is set to.
TESTS := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(READY) ## about two minutes (LIMIT=120) of the tests nearest to what changed since HEAD (SINCE=REV)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m scripts.quick_tests --since $(or $(SINCE),HEAD) --seconds $(or $(LIMIT),120)

test: $(READY) ## run the tests but for the slow part
	$(TESTS)

test-slow: $(READY) ## the slow part: large networks, more of every sweep, twice as many examples of every property
	$(TESTS) --slow

check: style types dead-code ## ruff, formatting, mypy, import directions and circles, dead code, Dockerfile (make -j2 check: side by side)

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/import_circles.py
	$(BIN)/hadolint Dockerfile

types: $(READY)
	$(BIN)/mypy

dead-code: $(READY)
	$(BIN)/vulture

format: $(READY) ## format the code and fix what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(READY) ## regenerate the JSON Schemas in docs/
	$(BIN)/ttopt schema -o docs

screenshots: $(READY) ## retake the pictures of docs/images (with the font Inter, if it is installed)
	$(BIN)/python -m pytest -n 0 tests/browser/screenshots.py

pins: $(READY) ## regenerate the constraints files with the newest versions
	@uv=$$($(PYTHON3) scripts/bootstrap.py --print-uv) && scripts/pins.sh "$$uv" $(BIN)/python

serve: $(READY) ## the HTTP service on port 8000
	$(BIN)/ttopt serve

bench: $(READY) ## every fixture graph on n150 and p150: table of results, seconds and memory
	$(BIN)/python benchmarks/graphs.py
	$(BIN)/python benchmarks/opmodel_agreement.py fixtures/opmodel/sample.jsonl
	$(BIN)/python benchmarks/ttmetal_backend.py speed
	$(BIN)/python benchmarks/tt_mlir_plans.py fixtures/tt_mlir_plans/*.gz

fuzz: $(READY) ## random and mutated input of every kind, each case under limits of time and memory
	$(BIN)/python benchmarks/fuzz.py json --cases $(or $(CASES),10000)
	$(BIN)/python benchmarks/fuzz.py onnx --cases $(or $(CASES),5000)
	$(BIN)/python benchmarks/fuzz.py plans --cases $(or $(CASES),2000)
	$(BIN)/python benchmarks/fuzz.py documents http --cases $(or $(CASES),2000)
	$(BIN)/python benchmarks/fuzz.py kernel asm --cases $(or $(CASES),1500)
	$(BIN)/python benchmarks/fuzz.py asm-kernels --cases $(or $(CASES),2000)

viewers: $(READY) ## exported results in the real viewers, which PyPI has to give
	$(BIN)/python benchmarks/viewers.py

check-long: test-slow ## slow checks: the slow and the long part of the tests, with every example of every property, container steps, every graph on every board, every chain by three solvers, meaning, replays, kernels
	$(TESTS) --long
	$(BIN)/python scripts/container_steps.py
	$(BIN)/python benchmarks/graphs.py --boards n150 n300 p100 p150
	$(BIN)/python benchmarks/chain_agreement.py fixtures/onnx/*.onnx --boards n150 p150
	$(BIN)/python benchmarks/exactness.py
	$(BIN)/python benchmarks/meaning.py fixtures/onnx/*.onnx
	$(BIN)/python benchmarks/program_values.py
	$(BIN)/python benchmarks/ttmetal_backend.py
	$(BIN)/python benchmarks/allocator_replay.py
	$(BIN)/python benchmarks/replay.py
	$(BIN)/python benchmarks/layout_values.py --mock --drawn 8000
	$(BIN)/python benchmarks/layout_values.py --mock --drawn 8000 --board p150
	$(BIN)/python benchmarks/layout_values.py --drawn 400
	$(BIN)/python benchmarks/asm_kernels.py
	$(BIN)/python benchmarks/asm_schedules.py
	$(BIN)/python benchmarks/asm_allocation.py
	$(BIN)/python benchmarks/tile_dags.py
	$(BIN)/python benchmarks/fused_kernels.py

clean: ## remove everything that was made
	rm -rf $(VENV) .bootstrap .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis demo-out dist build
