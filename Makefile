# make demo   sets everything up in .venv, compiles, inspects and runs the example
# make test   sets everything up and runs every test
# make fuzz   libFuzzer on the readers of untrusted bytes, FUZZ_SECONDS each
# make bench  the figures of docs/benchmarks.md
# make test-ptx  all check files for five CUDA architectures through ptxas, which has to be on PATH; minutes
# make test-gpu  what needs an NVIDIA GPU, with any Python that has NumPy and cuda-bindings: PYTHON=python3
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 60

.PHONY: demo test test-ptx test-gpu fuzz bench setup tools test-c test-python test-ops test-wheel lint clean

# ---- setup: a stamp per set of extras, so that a second run costs nothing

SOURCES := $(shell find csrc _core -name '*.[ch]' -o -name '*.pyx' -o -name '*.pxd' 2>/dev/null)

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "pydispatch needs Python 3.10 or newer; set PYTHON="; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing: apt-get install python3-venv python3-dev"; exit 1; }
	$(BIN)/pip install -q --disable-pip-version-check "setuptools>=77" wheel "cython>=3.1" "numpy>=2.0"
	@touch $@

$(VENV)/.demo: $(VENV)/.base setup.py $(SOURCES)
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e ".[compiler]"
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e ".[compiler,vulkan,cuda,test,bench]"
	@touch $@

setup: $(VENV)/.test

# What pip cannot bring. Installed when root, otherwise named.
APT_TEST := qemu-user-static binutils gdb unzip libvulkan1 mesa-vulkan-drivers vulkan-validationlayers spirv-tools glslang-tools
APT_FUZZ := clang-14 libclang-rt-14-dev

define need
	@missing=""; for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "please install:$$missing  (apt-get install$$missing)"; exit 1; fi; fi
endef

# ---- demo

demo: $(VENV)/.demo
	@mkdir -p build/demo
	$(BIN)/pydispatch compile examples/mixed/program.mlir --iree-hal-executable-object-search-path=examples/mixed -o build/demo/mixed.pdx
	$(BIN)/pydispatch inspect build/demo/mixed.pdx
	$(BIN)/pydispatch run build/demo/mixed.pdx --function=mixed_invocation --input=8xf32=2 --input=8xf32=4

# ---- tests

test: tools setup lint test-c test-python test-wheel
	@echo "all tests passed"

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/python tests/typecheck.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint --max-line-length 120 _core

test-c:
	$(PYTHON) tests/c/run.py

tools:
	$(call need,$(APT_TEST))

test-ops: $(VENV)/.test  # the properties of operations over many more random programs: OPS_EXAMPLES=, OPS_DEVICE=ptx-interpreter
	PYDISPATCH_EXAMPLES=$(or $(OPS_EXAMPLES),200) PYDISPATCH_OPS_DEVICE=$(OPS_DEVICE) $(BIN)/python -m pytest tests/ops

test-python: tools $(VENV)/.test
	$(BIN)/python -m pytest -n 2 tests

test-wheel: $(VENV)/.test
	$(BIN)/python tests/wheel/check.py

test-ptx: $(VENV)/.test
	$(BIN)/python tests/cuda/assemble.py

# Not in `make test`: it fails without a GPU. GPU_PYTHON has NumPy and cuda-bindings.
GPU_PYTHON ?= $(shell test -x $(BIN)/python && echo $(BIN)/python || echo $(PYTHON))
test-gpu:
	$(GPU_PYTHON) tests/gpu/run.py $(GPU_TESTS)

fuzz:
	$(call need,$(APT_FUZZ))
	$(PYTHON) tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

bench: $(VENV)/.test
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e ".[onnx]"
	$(BIN)/python bench/run.py
	$(BIN)/python bench/tensors.py
	$(BIN)/python bench/contract.py

clean:
	rm -rf build dist *.egg-info $(VENV)
	find _core -name '*.so' -delete
