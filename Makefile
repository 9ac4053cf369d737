# make demo   sets everything up in .venv, compiles, inspects and runs the example
# make test   sets everything up and runs every test; it ends with what it leaves out and for what that is
# make test-changed   the tests nearest to a change, in half a minute
# make test-NAME  a suite of tests/suites: torch, docs, models, onnx, stablehlo, jax, harnesses, llm, ray, server, levels, cross, machines, pythons, ptx, gpu
# make test-all   `make test` and every suite
# make wheels   the sdist and wheels for Linux on x86_64 and aarch64, in dist/
# make device-library   pydispatch/compiler/devlib/library.tar.xz, after a change to its sources
# make lists   the lists of operators and operations in documents, after a change to their tables
# make docs   the documents as a site with a reference: build/site/index.html
# make fuzz   libFuzzer on the readers of untrusted bytes, FUZZ_SECONDS each
# make reliability  faults looked for by chance: RELIABILITY_SECONDS in all, an hour; docs/reliability.md
# make coverage  branches of the C core that tests and fuzzing take
# make mutation  small faults put into modules, and which of them the tests notice
# make bench  every figure beside other systems: bench/report/index.html and the tables of docs; docs/benchmarking.md
# make bench-page  page and tables of the figures that are there
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 60
RELIABILITY_SECONDS ?= 3600

# Processes that tests and benchmarks start keep the bytecode of their modules, as users' processes do: a second less for each.
unexport PYTHONDONTWRITEBYTECODE

# No step is silent for long: `$(call watch,LABEL)` in front of a command prints a line while it prints none.
watch = $(PYTHON) tests/progress.py "$(1)"
PIP := install -q --disable-pip-version-check

.PHONY: demo docs lists device-library wheels test test-all test-changed test-thorough test-gpu fuzz reliability coverage mutation bench bench-page setup tools test-code test-c test-apart test-python test-ops test-wheel lint format clean

# ---- setup: a stamp per set of extras, so that a second run costs nothing

SOURCES := $(shell find csrc _core -name '*.[ch]' -o -name '*.pyx' -o -name '*.pxd' 2>/dev/null)

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "pydispatch needs Python 3.10 or newer; set PYTHON="; exit 1; }
	@$(call watch,virtual environment) $(PYTHON) -m venv $(VENV) || { echo "the venv module is missing: apt-get install python3-venv python3-dev"; exit 1; }
	$(call watch,packages to build with) $(BIN)/pip $(PIP) "setuptools>=77" wheel "cython>=3.1" "numpy>=2.0"
	@touch $@

# The modules first: pip takes them as they are, and says nothing while it builds.
$(VENV)/.built: $(VENV)/.base setup.py $(SOURCES)
	$(call watch,C core) $(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(VENV)/.demo: $(VENV)/.built
	$(call watch,compiler packages) $(BIN)/pip $(PIP) --no-build-isolation -e ".[compiler,c]"
	@touch $@

# All that .demo has as well, by one run of pip.
$(VENV)/.test: $(VENV)/.built
	$(call watch,compiler and test packages) $(BIN)/pip $(PIP) --no-build-isolation -e ".[compiler,c,vulkan,cuda,test,bench]"
	@touch $(VENV)/.demo $@

setup: $(VENV)/.test

# What pip cannot bring. Installed when root, otherwise named.
APT_TEST := qemu-user-static binutils gdb unzip libvulkan1 mesa-vulkan-drivers vulkan-validationlayers spirv-tools glslang-tools
APT_FUZZ := clang-14 libclang-rt-14-dev

define need
	@missing=""; for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then echo "installing$$missing"; $(call watch,list of packages) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(call watch,system packages) bash -c "apt-get install -y -qq --no-install-recommends $$missing >/dev/null"; \
	  else echo "please install:$$missing  (apt-get install$$missing)"; exit 1; fi; fi
endef

# ---- demo

demo: $(VENV)/.demo
	@mkdir -p build/demo
	$(call watch,compile) $(BIN)/pydispatch compile examples/mixed/program.mlir --iree-hal-executable-object-search-path=examples/mixed -o build/demo/mixed.pdx
	$(call watch,inspect) $(BIN)/pydispatch inspect build/demo/mixed.pdx
	$(call watch,run) $(BIN)/pydispatch run build/demo/mixed.pdx --function=mixed_invocation --input=8xf32=2 --input=8xf32=4

# ---- documents

docs: $(VENV)/.demo  ## The documents as a site with a reference, build/site/index.html.
	$(call watch,packages of the site) $(BIN)/pip $(PIP) --no-build-isolation -e ".[compiler,c,docs]"
	NO_MKDOCS_2_WARNING=1 $(call watch,site) $(BIN)/python -m mkdocs build --strict

lists: $(VENV)/.test  ## The lists in documents that are read from tables.
	$(call watch,lists) $(BIN)/python tests/lists.py

# ---- tests

# The linters and the wheel use one processor for most of their time: they run beside the other tests, which use all.
test: tools setup
	@$(MAKE) --no-print-directory -j 2 test-code test-apart
	@echo "all tests passed"
	@$(BIN)/python tests/suites/run.py --list

C_FILES := find csrc tests/c -name '*.[ch]' -print0

lint: $(VENV)/.test
	$(call watch,ruff) $(BIN)/ruff check .
	$(call watch,layout of Python) $(BIN)/ruff format --check --quiet .
	$(call watch,mypy) $(BIN)/python tests/typecheck.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(call watch,cython-lint) $(BIN)/cython-lint --max-line-length 120 --exclude "_core/c_.*" _core
	$(C_FILES) | xargs -0 $(BIN)/clang-format --dry-run -Werror

format: $(VENV)/.test  ## The layout of Python and C files, as `make lint` checks it.
	$(BIN)/ruff format --quiet .
	$(C_FILES) | xargs -0 $(BIN)/clang-format -i

test-apart: lint
	@$(MAKE) --no-print-directory test-wheel

# The linters first: tests of types use the cache of mypy.
test-code: lint test-c
	@$(MAKE) --no-print-directory test-python

test-c:
	$(call watch,C tests) $(PYTHON) tests/c/run.py

tools:
	$(call need,$(APT_TEST))

test-ops: $(VENV)/.test  ## The properties of operations over many more random programs: OPS_EXAMPLES=, OPS_DEVICE=ptx-interpreter.
	PYDISPATCH_EXAMPLES=$(or $(OPS_EXAMPLES),200) PYDISPATCH_OPS_DEVICE=$(OPS_DEVICE) $(call watch,operations) $(BIN)/python -m pytest tests/ops

# One process more than two processors: some tests wait for others, for devices or for files.
test-python: tools $(VENV)/.test
	$(call watch,Python tests) $(BIN)/python -m pytest -n 3 --dist worksteal tests

wheels: tools $(VENV)/.demo  ## dist/: the sdist, and wheels for any Linux with glibc 2.28, x86_64 and aarch64, each used once.
	$(call watch,packages to build with) $(BIN)/pip $(PIP) build
	$(call watch,wheels) $(BIN)/python tests/wheel/manylinux.py

device-library: $(VENV)/.demo
	$(call watch,device library) $(BIN)/python -m pydispatch.compiler.devlib

test-wheel: $(VENV)/.test
	$(call watch,wheel) $(BIN)/python tests/wheel/check.py

# The tests nearest to what git says is changed, for half a minute; CHANGED="FILE ..." names other files.
test-changed: $(VENV)/.test
	$(BIN)/python tests/changed.py $(CHANGED)

test-thorough: tools $(VENV)/.test  ## The Python tests with every case of every table, and ten times as many examples of properties.
	PYDISPATCH_TEST_THOROUGH=1 $(call watch,Python tests) $(BIN)/python -m pytest -n 3 --dist worksteal tests

# A suite is a folder of tests/suites, found by its name.
test-%:
	@$(PYTHON) tests/suites/run.py --check $*
	@$(MAKE) --no-print-directory setup
	@$(BIN)/python tests/suites/run.py $*

test-all: test
	@$(BIN)/python tests/suites/run.py --all

# A suite that any Python with NumPy and cuda-bindings can run, without a set-up: GPU_PYTHON.
GPU_PYTHON ?= $(shell test -x $(BIN)/python && echo $(BIN)/python || echo $(PYTHON))
test-gpu:
	$(GPU_PYTHON) tests/gpu/run.py $(GPU_TESTS)

fuzz:  ## libFuzzer on the readers of untrusted bytes, FUZZ_SECONDS each.
	$(call need,$(APT_FUZZ))
	$(call watch,fuzz) $(PYTHON) tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

reliability: tools $(VENV)/.test  ## Faults looked for by chance, RELIABILITY_SECONDS in all.
	$(call need,$(APT_FUZZ))
	$(call watch,reliability) $(BIN)/python tests/reliability/run.py --seconds $(RELIABILITY_SECONDS) $(RELIABILITY)

coverage: $(VENV)/.test  ## Branches of the C core that tests and fuzzing take.
	$(call need,$(APT_FUZZ) llvm-14)
	$(call watch,coverage) $(BIN)/python tests/reliability/coverage.py --uncovered $(COVERAGE)

mutation: $(VENV)/.test  ## Small faults put into modules, and which of them the tests notice.
	$(call watch,mutation) $(BIN)/python tests/reliability/mutation.py --jobs $(or $(JOBS),2) $(MUTATION)

# An interpreter that has the peers: JAX, onnx, onnxruntime, IREE. What it lacks is listed on the page.
BENCH_PYTHON ?= $(BIN)/python
bench: $(VENV)/.test  ## Every figure, beside other systems: BENCH="name name", BENCH_MACHINE="name of the column", BENCH_QUICK=1.
ifeq ($(BENCH_PYTHON),$(BIN)/python)
	-$(call watch,packages to compare with) $(BIN)/pip $(PIP) --no-build-isolation -e ".[peers]"
endif
	BENCH_MACHINE="$(BENCH_MACHINE)" $(BENCH_PYTHON) bench/report/run.py $(BENCH) $(if $(BENCH_QUICK),--quick --folder build/bench)

bench-page: $(VENV)/.built  ## The page and the tables of documents, of the figures that are there.
	$(BIN)/python bench/report/run.py --only-write

clean:
	rm -rf build dist *.egg-info $(VENV)
	find _core -name '*.so' -delete
