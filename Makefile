# Bulkhead's two commands are `make serve` and `make test`; `make help` lists the rest.
#
# Each sets up what it needs first (Debian packages, Python environment, the source of XGrammar,
# model) and skips what is already there. SETUP=no leaves the machine alone.

MODEL_FETCHED := models/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL ?= $(MODEL_FETCHED)
# A model of the project's own may be named without its folder: MODEL=tiny-moe.
MODEL_PATH := $(if $(wildcard models/$(MODEL)/config.json),models/$(MODEL),$(MODEL))
HOST ?= 127.0.0.1
PORT ?= 30000
ARGS ?=
SETUP ?= yes
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 10
SOAK_MINUTES ?= 20
SIM_MINUTES ?= 20

STAGE := tools/ci/stage.sh
export BULKHEAD_JOBS := $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help setup setup-serve model build serve test test-dev test-asan test-tsan test-fuzz lint \
	format bench bench-peer bench-scaling soak sim clean

help:
	@echo 'Bulkhead: a server for large open-weight language models.'
	@echo
	@echo '  make serve        set up, build, fetch the small model and serve it on $(HOST):$(PORT)'
	@echo '                    MODEL=path  another model (a .gguf file, a checkpoint folder, or tiny-moe)'
	@echo '                    PORT=n HOST=addr ARGS="more flags of bulkhead serve"'
	@echo '  make test         set up, build and run every test: unit and end to end, the same under'
	@echo '                    address and undefined-behaviour sanitizers, $(FUZZ_SECONDS) s of fuzzing per target'
	@echo '  make test-dev     the first of these alone (also test-asan, test-tsan, test-fuzz)'
	@echo '  make lint         clang-19 warnings, headers on their own, format, tidy, clang-tidy'
	@echo '  make format       clang-format every source file in place'
	@echo '  make build        the release binary: build/release/bin/bulkhead'
	@echo '  make bench        the kernels against the measured peak of this machine'
	@echo '  make bench-peer   beside llama.cpp; writes docs/benchmarks/ (an hour)'
	@echo '                    ARGS="--weights int4 --engines llama,openvino,openvino-bf16,transformers --rounds 3"'
	@echo '  make bench-scaling  how cost grows with requests and context; writes docs/benchmarks/'
	@echo '  make soak         $(SOAK_MINUTES) minutes of clients that leave: memory flat, nothing left over'
	@echo '  make sim          $(SIM_MINUTES) minutes of the simulator on random seeds, then its fault matrix'
	@echo '  make clean        remove build/ (keeps models/ and .venv/)'
	@echo
	@echo 'SETUP=no skips the set-up; JOBS=n sets how many compilers run at once (now $(JOBS)).'

# --- set-up -------------------------------------------------------------------------------------

setup:
ifneq ($(SETUP),no)
	@tools/setup/apt.sh
	@tools/setup/venv.sh
	@tools/setup/fetch_xgrammar.sh
	@tools/setup/fetch_model.sh
endif

setup-serve:
ifneq ($(SETUP),no)
	@tools/setup/apt.sh serve
	@tools/setup/fetch_xgrammar.sh
endif

# The small model is fetched only when it is the one to be served.
model: setup-serve
ifeq ($(MODEL),$(MODEL_FETCHED))
ifneq ($(SETUP),no)
	@tools/setup/fetch_model.sh
endif
endif

# --- run ----------------------------------------------------------------------------------------

build: setup-serve
	@tools/ci/build.sh release

serve: build model
	@exec build/release/bin/bulkhead serve --model '$(MODEL_PATH)' --host '$(HOST)' --port '$(PORT)' $(ARGS)

# --- prove --------------------------------------------------------------------------------------

test: setup
	@$(STAGE) 'dev: build' tools/ci/build.sh dev
	@$(STAGE) 'dev: tests' tools/ci/ctest.sh dev
	@$(STAGE) 'asan-ubsan: build' tools/ci/build.sh asan-ubsan
	@$(STAGE) 'asan-ubsan: tests' tools/ci/ctest.sh asan-ubsan
	@$(STAGE) 'fuzz: $(FUZZ_SECONDS) s a target' tests/fuzz/run.sh build/asan-ubsan $(FUZZ_SECONDS)
	@echo '==> every test passed'

test-dev: setup
	@tools/ci/build.sh dev && tools/ci/ctest.sh dev

test-asan: setup
	@tools/ci/build.sh asan-ubsan && tools/ci/ctest.sh asan-ubsan

test-tsan: setup
	@tools/ci/build.sh tsan && tools/ci/ctest.sh tsan

test-fuzz: setup
	@tools/ci/build.sh fuzz && tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS)

# Too long for `make test`, where ten seconds of it run.
soak: setup build
	@BULKHEAD_BIN=build/release/bin/bulkhead .venv/bin/python tests/soak/run.py \
		--minutes $(SOAK_MINUTES)

# As long as it may take; a failure names its seed. `make test` runs fixed ones.
sim: setup
	@cmake --preset dev >/dev/null && cmake --build --preset dev -j$(JOBS) --target bulkhead_sim
	@build/dev/bin/bulkhead_sim --seed $$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') \
		--seconds $$((60 * $(SIM_MINUTES)))
	@build/dev/bin/bulkhead_sim --campaign 715

# clang-19 sees every source in the asan-ubsan tree, which `make test` has built already.
lint: setup
	@$(STAGE) 'lint: format' tools/lint/format.sh --check
	@$(STAGE) 'lint: tidy' /usr/bin/python3 tools/tidy/run.py
	@$(STAGE) 'lint: clang-19 warnings' tools/ci/build.sh asan-ubsan
	@$(STAGE) 'lint: headers alone' tools/ci/build.sh clang header_check
	@$(STAGE) 'lint: clang-tidy' /usr/bin/python3 tools/lint/clang_tidy.py --build build/clang
	@echo '==> lint passed'

format:
	@tools/lint/format.sh

# --- measure ------------------------------------------------------------------------------------

bench: build
	@exec build/release/bin/bulkhead bench kernels --history bench/history.jsonl $(ARGS)

bench-peer: setup build
	@.venv/bin/python bench/peers.py $(ARGS)

bench-scaling: setup build
	@cmake --build build/release --target bench_prefix_index
	@.venv/bin/python bench/scaling.py --history bench/history.jsonl $(ARGS)

clean:
	rm -rf build
