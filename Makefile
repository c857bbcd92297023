# The commands of this project; each does the set-up that it needs. TORCH chooses the PyTorch:
#   pip     2.13.0 from PyPI, in .venv, built in build/ (default)
#   debian  Debian's own (1.13.1 on Debian 12), in .venv-debian, built in build-debian/
#   2.14    2.14.1 from PyPI, in .venv-2.14, built in build-2.14/
TORCH ?= pip
SUFFIX := $(if $(filter-out pip,$(TORCH)),-$(TORCH))
PYTHON := .venv$(SUFFIX)/bin/python
BUILD := build$(SUFFIX)

.DEFAULT_GOAL := help
.PHONY: help setup setup-package demo test test-clients test-p4 test-torch-suite bench profile accuracy scale compare wheel lint format sanitize soak fuzz clean

help: ## print this list
	@echo 'make TARGET [TORCH=pip|debian|2.14]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-12s %s\n", $$1, $$2}'

setup: ## install what is missing, make the virtual environment, build; quick when nothing changed
	@.ci/setup.sh $(TORCH)

# What the demo and the wheel need, which is less than half.
setup-package:
	@.ci/setup.sh $(TORCH) package

demo: setup-package ## train Fashion-MNIST on 4 ranks over switchml and over gloo, and compare (ARGS="--epochs 1 ...")
	@$(PYTHON) examples/fashion_mnist/demo.py $(ARGS)

test: ## gtests and pytests (ARGS=--all: also the slow ones and the models; ARGS="-k name" goes to pytest)
	@.ci/test.sh $(TORCH) $(ARGS)

test-clients: setup ## programs that serve models, Ray and torchft, with the real packages, in .venv-clients (4 GB; ARGS="-k name" goes to pytest)
	@.ci/setup.sh clients
	@SWITCHML_TEST_BUILD=$(CURDIR)/$(BUILD) .venv-clients/bin/python -m pytest tests/clients -q -ra $(ARGS)

test-p4: setup ## the P4 programs: compiled, vectors and more on bmv2 and the Tofino model, where the tools are on PATH (docs/switch.md)
	@$(PYTHON) -m pytest tests/switch_p4 tests/vectors/test_vectors.py tests/vectors/test_tofino.py --vector-target bmv2 --vector-target bmv2-roce --vector-target tofino --vector-target tofino-roce --softswitch-target $(BUILD)/tests/vectors/softswitch_target -q -rs $(ARGS)

bench: setup ## all that the targets of docs/performance.md speak of, 20 to 90 minutes, and the table of targets (ARGS="--parts latency,kernels": only these); networks too where they can be made; out/*.json, out/*.png
	@$(PYTHON) benchmarks/targets $(ARGS)

profile: setup ## instructions and estimated cycles of each stage of an all-reduce, by callgrind (ARGS="--ranks 2,4 ..."); out/profile.json
	@bash -c 'set -euo pipefail; source .ci/lib.sh; install_packages valgrind'
	@$(PYTHON) benchmarks/profile --json out/profile.json $(ARGS)

accuracy: setup ## errors of sums by the depth of a tree of switches, and training curves (ARGS="--parts sums ..."); out/accuracy.json, out/accuracy.svg, out/training.svg, out/narrow.svg
	@$(PYTHON) benchmarks/accuracy --json out/accuracy.json --figures out $(ARGS)

scale: setup ## an all-reduce of up to 10,240 simulated workers by way, with losses, a dead switch, other jobs, 40 minutes (ARGS="--workers 64,1024 ..."); out/scale.json, out/scale.svg
	@$(PYTHON) benchmarks/scale --json out/scale.json --figures out $(ARGS)

compare: setup ## this tree against BASE (auto: where it has left the published main), interleaved (ARGS="--what allreduce ..."); never fails on time
	@$(PYTHON) benchmarks/compare --base $(or $(BASE),auto) $(ARGS)

test-torch-suite: setup ## all of PyTorch's own distributed tests over this backend (long; "make test" runs a part)
	@$(PYTHON) -m pytest tests/python/test_torch_distributed_suite.py --torch-suite=all -q -ra $(ARGS)

wheel: setup-package ## a wheel for the chosen PyTorch, in dist/
	@echo "compiling once more, for the wheel"
	@.ci/wheel.sh $(TORCH)
	@ls -l dist

lint: ## formatting, layers, clang-tidy (not with ARGS=fast; longer with ARGS=deep), cited requirements, ruff, mypy, the documentation's sentences and links
	@.ci/lint.sh $(ARGS)

format: ## format C++ and Python in place
	@.ci/lint.sh tools
	@find backend tests benchmarks -name '*.h' -o -name '*.cc' | xargs -r clang-format-14 -i
	@.venv-lint/bin/ruff format --quiet .

soak: setup ## all tests, 100,000 seeds of the simulator, clang-tidy in depth, the sanitizers, the fuzzers (FUZZ_SECONDS, 600, each), 10 minutes of lossy networks (ARGS="--netlab-minutes 600")
	@.ci/test.sh $(TORCH) --all
	@$(BUILD)/tests/sim/switchml_sim --seeds 1:100000
	@.ci/lint.sh deep
	@.ci/sanitize.sh
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-600} .ci/fuzz.sh
	@$(PYTHON) -m pytest tests/netlab -q -rs --netlab-minutes 10 $(ARGS)

sanitize: ## the gtests under address, undefined-behaviour and thread sanitizers
	@.ci/sanitize.sh

fuzz: ## the fuzzers of tests/fuzz, FUZZ_SECONDS (60) each (ARGS="switch packet": only these)
	@.ci/fuzz.sh $(ARGS)

clean: ## remove everything that these commands made, the virtual environments included
	rm -rf build build-* .venv .venv-* out dist
