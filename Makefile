# Everything a person or CI does here, by one name each. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
    if command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Python keeps what it compiled, and pytest the tests that it rewrote, also where the environment says not to:
# without that each process compiles all modules anew, and a run of the fast tests takes 10 s more in each of
# its processes.
unexport PYTHONDONTWRITEBYTECODE


PROTOC := $(BIN)/python -m grpc_tools.protoc -I tank_protos/generated=protos
CODE := node controller protos client spark examples benchmarks tests e2e
FRAMES ?= 1000000
IGGY_FRAMES ?= 1000000
SHORT_FRAMES ?= 50000
SANITIZED_FRAMES ?= 200000
KILLS ?= 200
SEEDS ?= 200
CI_SEEDS ?= 200
MINUTES ?= 5
PURE = tests/node tests/protos

.PHONY: help setup kernel kernel-auto run three check chart e2e unit unit-pure thorough slow slow-thorough test test-busy kafka iggy upgrade test-pure fuzz fuzz-iggy fuzz-short fuzz-sanitized crash sim sim-compiled sim-short mutants chaos long nightly bench bench-broker bench-client bench-spark bench-memory bench-cluster bench-kafka bench-groups bench-iggy proto proto-fresh proto-compatible docs wheel ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then echo "Tank Cluster needs Python 3.11 or newer on the PATH; or say which: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; fi
	if ! $(PYTHON) -m venv $(VENV) >$(CURDIR)/.venv-error 2>&1; then
	    rm -rf $(VENV); cat .venv-error >&2; rm -f .venv-error
	    echo "$(PYTHON) cannot make a virtual environment: install its venv package (Debian, Ubuntu: apt-get install python3-venv), then try again." >&2; exit 1
	fi
	rm -f .venv-error

$(VENV)/.ready-run: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Tank Cluster and what the flights need into $(VENV) (a few minutes the first time) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	touch $@

$(VENV)/.ready-three: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Tank Cluster, a Kafka client and an Iggy client into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[three]'
	touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Tank Cluster and its tools into $(VENV) (a few minutes the first time) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.ready-run $(VENV)/.ready-three

setup: $(VENV)/.ready-dev ## install everything for development into .venv

kernel: $(VENV)/.ready-dev ## build the compiled kernel anew where its sources changed: twins and node (the install builds it first)
	@$(BIN)/python protos/kernel_build.py

run: $(VENV)/.ready-run ## stream a year of flights through a cluster into a PySpark pipeline, and kill a broker meanwhile
	@$(BIN)/python -m examples.run

three: $(VENV)/.ready-three ## one topic, three protocols at once: TANK's, Kafka's and Iggy's clients read what all of them write
	@$(BIN)/python -m examples.three

check: $(VENV)/.ready-dev ## lint, types, walls, generated files, what the last release reads, the house's own rules
	@ruff check --quiet $(CODE)
	ruff format --check --quiet $(CODE)
	mypy $(CODE)
	lint-imports --no-cache --no-logo
	$(BIN)/python protos/kernel_build.py --check
	$(MAKE) --no-print-directory proto-fresh proto-compatible
	pytest -q -n 2 --dist worksteal -p no:cacheprovider tests/repository

proto-fresh: $(VENV)/.ready-dev
	@tank-protos generate --check
	folder=$$(mktemp -d)
	trap 'rm -rf "$$folder"' EXIT
	$(PROTOC) --python_out="$$folder" --pyi_out="$$folder" --grpc_python_out="$$folder" tank_protos/generated/control.proto
	for name in control_pb2.py control_pb2.pyi control_pb2_grpc.py; do
	    cmp "$$folder/tank_protos/generated/$$name" protos/tank_protos/generated/$$name || { echo "$$name is not made from protos/control.proto; run: make proto" >&2; exit 1; }
	done

proto-compatible: $(VENV)/.ready-dev
	@released=$$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
	if [ -z "$$released" ]; then echo "no release here whose messages these could break"; exit 0; fi
	for protocol in $(sort $(dir $(wildcard protos/*/*.json))); do
	    if git cat-file -e "$$released:$$protocol" 2>/dev/null; then tank-protos check "$$released:$$protocol" "$$protocol"; fi
	done

unit: $(VENV)/.ready-dev ## the fast tests: no Spark, no processes, no kills (ROOM=node/log: those of one room)
	@pytest -q $(if $(ROOM),tests/$(ROOM),-n 4 --dist worksteal --ignore tests/repository) -m 'not integration and not spark and not crash and not long and not chart$(if $(ROOM),, and not thorough)'

unit-pure: $(VENV)/.ready-dev ## the fast tests of what the compiled kernel has a part in, without it
	@TANK_KERNEL=pure pytest -q -n 4 --dist worksteal $(PURE) -m 'not integration and not spark and not crash and not long and not chart and not thorough'

thorough: $(VENV)/.ready-dev ## properties on all their examples, and what looks at much
	@pytest -q -n 3 --dist worksteal --ignore tests/repository -m '(thorough or hypothesis) and not (integration or spark or crash or long or chart)'

test: unit slow ## everything: units, real processes, kill -9, Spark, in their short form (TANK_TEST_PATIENCE=4 where the machine is busy)

slow: $(VENV)/.ready-dev ## what runs real processes: integration, kills, Spark
	@pytest -q -n 3 --dist loadgroup -m '(integration or spark or crash) and not (long or thorough)'

slow-thorough: $(VENV)/.ready-dev ## the longest of these: rolls, an operator at work, faults of disks and names, more of Spark
	@pytest -q -n 3 --dist loadgroup -m '(integration or spark or crash) and thorough and not long'

test-busy: $(VENV)/.ready-dev ## make test beside four processes that take all the processor that they get
	@$(BIN)/python -m tests.busy

kafka: $(VENV)/.ready-dev ## stock clients of Kafka's protocol against one broker and three (installs them; KAFKA='--library franz-go', INTO=FILE)
	@$(BIN)/python -m tests.kafka_clients $(KAFKA) $(INTO:%=--into %)

iggy: $(VENV)/.ready-dev ## stock clients of Iggy's protocol against one broker (installs them; IGGY='--client "apache-iggy 0.9.0"', INTO=FILE)
	@$(BIN)/python -m tests.iggy_clients $(IGGY) $(INTO:%=--into %)

upgrade: $(VENV)/.ready-dev ## a cluster of the commit before becomes this one under clients of all protocols (FROM=COMMIT: of another)
	@TANK_UPGRADE_FROM=$(FROM) pytest -q tests/integration/cluster/test_rolling_upgrade.py \
		tests/integration/cluster/test_upgrade_to_iggy.py

test-pure: ## make test as it is where no compiler was
	@TANK_KERNEL=pure $(MAKE) --no-print-directory test

fuzz: $(VENV)/.ready-dev ## one million bad frames, on each kernel (FRAMES=N)
	@$(BIN)/python -m tests.fuzz.run --both-kernels --frames $(FRAMES)

fuzz-iggy: $(VENV)/.ready-dev ## as many bad frames of each of Iggy's framings, to a session and to a broker (IGGY_FRAMES=N)
	@$(BIN)/python -m tests.fuzz.run --frames $$((2 * $(IGGY_FRAMES))) --target "iggy classic sessions" --target "iggy framed sessions"
	$(BIN)/python -m tests.fuzz.run --frames $$((2 * $(IGGY_FRAMES))) --target "iggy live"

fuzz-short: $(VENV)/.ready-dev
	@$(BIN)/python -m tests.fuzz.run --frames $(SHORT_FRAMES)

fuzz-sanitized: $(VENV)/.ready-dev ## bad frames over a kernel that watches its own memory (SANITIZED_FRAMES=N; needs gcc)
	@$(BIN)/python -m tests.fuzz.sanitized --frames $(SANITIZED_FRAMES)

crash: $(VENV)/.ready-dev ## kill -9 the broker under load, again and again (KILLS=N)
	@TANK_KILLS=$(KILLS) pytest -q -m crash tests/crash

sim: $(VENV)/.ready-dev ## a cluster in a simulated world full of faults (SEEDS=N, SEED=N for one again)
	@TANK_KERNEL=pure $(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

sim-compiled: $(VENV)/.ready-dev kernel ## the same stories on the compiled kernel, as most clusters run (SEEDS=N)
	@TANK_KERNEL=compiled $(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

sim-short: $(VENV)/.ready-dev
	@TANK_KERNEL=pure $(BIN)/python -m tests.simulation --seeds $(CI_SEEDS)

mutants: $(VENV)/.ready-dev ## break the code on purpose, one line at a time: the simulator must see each
	@TANK_KERNEL=pure $(BIN)/python -m tests.simulation.mutants

chaos: $(VENV)/.ready-dev ## real processes killed, frozen, cut off under load (MINUTES=N; LONG=1: Iggy's client, too); root makes network namespaces
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(LONG),--iggy)

long: $(VENV)/.ready-dev ## the long forms of single tests, for the night
	@pytest -q -n 2 --dist loadgroup --timeout 3000 -m long

BENCH = $(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(INTO:%=--into %) $(JSON:%=--json %)

bench: $(VENV)/.ready-dev kernel ## all that has a bar: broker beside C, client, Spark, memory (QUICK=1, ROUNDS=N)
	@$(BENCH)

bench-broker bench-client bench-spark bench-memory: $(VENV)/.ready-dev kernel
	@$(BENCH) --parts $(@:bench-%=%)

bench-cluster: $(VENV)/.ready-dev kernel ## three replicas beside other systems: what they cost, and what a fault costs (QUICK=1, ROUNDS=N, INTO=FILES, JSON=FILE)
	@$(BENCH) --parts replicated,cluster_metadata,failover

bench-kafka: $(VENV)/.ready-dev kernel ## what Kafka's clients cost, in turn with Kafka where ../shared/yardstick has it (QUICK=1, ROUNDS=N, INTO=FILES, JSON=FILE)
	@$(BENCH) --parts kafka

bench-groups: $(VENV)/.ready-dev kernel ## consumer groups, in turn with Kafka where ../shared/yardstick has it (QUICK=1, ROUNDS=N, INTO=FILES, JSON=FILE)
	@$(BENCH) --parts groups

bench-iggy: $(VENV)/.ready-dev kernel ## what Iggy's clients cost, in turn with Kafka's front, and with the server that IGGY_SERVER names (QUICK=1, ROUNDS=N, INTO=FILES, JSON=FILE)
	@$(BENCH) --parts iggy

proto: $(VENV)/.ready-dev ## write the generated code and the protocol reference again
	@tank-protos generate
	$(PROTOC) --python_out=protos --pyi_out=protos --grpc_python_out=protos tank_protos/generated/control.proto

docs: $(VENV)/.ready-dev ## write the references of the command line, the client and the configuration again
	@$(BIN)/python -m tank_cli.reference > docs/cli.md
	$(BIN)/python -m tank_client.reference > docs/client-reference.md
	$(BIN)/python -m tank_cli.configuration > docs/configuration.md
	$(BIN)/python -m tests.chart.values_reference > docs/chart-values.md
	$(BIN)/python -m tests.chart.plain_monitoring

chart: $(VENV)/.ready-dev ## the Helm chart: linted, rendered with many values, judged by the schemas of each Kubernetes
	@helm=$$($(BIN)/python -m tests.chart.helm)
	HELM=$$helm pytest -q -n 2 -m chart tests/chart

e2e: $(VENV)/.ready-dev ## the chart on a real Kubernetes under load: KUBECONFIG's, or one that is started (LONG=1: with Iggy's clients)
	@$(BIN)/python -m e2e $(if $(LONG),,-m 'not long')

nightly: ## what a night is for: 5,000 stories, 1,000 on the compiled kernel, all mutants, an hour of chaos, the long forms of all else, the longest tests of processes
	@$(MAKE) sim SEEDS=5000
	@$(MAKE) sim-compiled SEEDS=1000
	@$(MAKE) mutants long crash fuzz fuzz-iggy
	@$(MAKE) chaos MINUTES=60 LONG=1
	@$(MAKE) e2e LONG=1
	@$(MAKE) slow-thorough

wheel: $(VENV)/.ready-dev ## build the wheel and try it in an empty environment
	@$(BIN)/python -m tests.wheel

kernel-auto: $(VENV)/.ready-dev
	@$(BIN)/python protos/kernel_build.py --auto

ci: $(VENV)/.ready-dev ## what CI runs, two parts at a time; says what each took
	@$(BIN)/python -m tests.parts

clean: ## remove the environment and what was built
	@rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf */tank_*/compiled/*.so */tank_*/compiled/built.json node/tank_node/compiled
