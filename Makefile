# Set-up is two commands: `make run` and `make test`. Everything lands in this folder: .venv, ./data.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := $(VENV)/bin/python -m pip install $(if $(CI),--quiet,) --require-hashes
AUDIT   := pip-audit==2.10.1 cyclonedx-bom==7.5.0
AIRFLOW := apache-airflow==3.3.2
CONNECT := grpcio==1.85.3 grpcio-status==1.85.3 googleapis-common-protos==1.76.0
PYTEST := $(BIN)/python -m pytest -n auto --dist loadscope
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE   # tests start Python a few hundred times: what is compiled once is kept

.PHONY: help run quick test test-all check lint types imports simulate machine race prove prove-reconcile generated wire-faults chaos-kafka-proxy chaos-rocketmq-proxy search-kafka-proxy foreign-clients fuzz audit sbom airflow spark-connect outages bench kafka kafka-client rocketmq-client reconcile-demo reconcile-job reconcile-export spark-package lock version wheel image tagged coverage clean

help:   ## this list
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run   ## start everything on the embedded queue, HTTP on 127.0.0.1:8080
	@exec $(BIN)/delayline serve

quick: $(VENV)/.test   ## units, tidiness, tags of rules, the queues of one process: a minute; tests/README.md
	QUICK=1 $(PYTEST) -n 3 -m 'not outage and not thorough and not broker and not slow' tests/unit tests/contract tests/mutation tests/test_*.py $(PYTEST_ARGS)

test: $(VENV)/.test   ## what every change must pass; tests/README.md
	$(PYTEST) --durations=25 $(PYTEST_ARGS)

test-all: $(VENV)/.test   ## all tests, before an issue is done; tests/README.md
	THOROUGH=1 $(PYTEST) --durations=50 -m 'not outage and not foreign' $(PYTEST_ARGS)
	$(MAKE) outages

check: lint types imports

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

simulate: $(VENV)/.test   ## 20,000 seeded crash simulations; SEEDS, FIRST, MUTANTS=1
	$(BIN)/python -m tests.simulation.run

machine: $(VENV)/.test   ## 10,000 random programs for a worker, in step with a small model; EXAMPLES, STEPS
	$(BIN)/python -m tests.machine.run

race: $(VENV)/.test   ## 10,000 cancels against due instants on each queue, workers killed on Kafka; RACES, SEED
	RACES=$${RACES:-10000} $(BIN)/python -m pytest -m race -s -q tests/acceptance/test_cancel_race.py

prove: $(VENV)/.test   ## kill -9 on Kafka, again and again, and nothing lost, twice or early; SEED, PARTS, MQ=rocketmq; see docs/proof.md
	$(BIN)/python -m tests.fault.$${MQ:-kafka}.run

prove-reconcile: $(VENV)/.test   ## the reconcile job beside traffic on Kafka, runs and repairs killed; SEED, PARTS, RUNS; see docs/proof.md
	$(BIN)/python -m tests.fault.reconcile.run

generated: $(VENV)/.test   ## the reconcile job on a million messages with every fault in them; MESSAGES, SEED
	MESSAGES=$${MESSAGES:-1000000} $(BIN)/python -m pytest -q -o faulthandler_timeout=3600 tests/reconcile/test_generated.py

wire-faults: $(VENV)/.test   ## a worker on the wire, cut off, delayed, refused, misunderstood; SEED, PARTS, CYCLES; see docs/proof.md
	$(BIN)/python -m tests.fault.wire.run

chaos-kafka-proxy: $(VENV)/.test   ## kill -9 of Kafka proxies, workers and brokers under six kinds of clients; SEED, PARTS, DURATION
	$(BIN)/python -m tests.fault.proxy.run

chaos-rocketmq-proxy: $(VENV)/.test   ## kill -9 of RocketMQ proxies, workers and the broker under clients that send and recall; SEED, PARTS, KILLS, RECALLS
	$(BIN)/python -m tests.fault.rocketmq_proxy.run

search-kafka-proxy: $(VENV)/.test   ## every crash point of the proxy's sequencer in a model of two logs; PARTS, SEEDS, FIRST
	$(BIN)/python -m tests.proxy_model.run

foreign-clients: $(VENV)/.test   ## clients in Go, JavaScript, Rust, Python and Java from 0.11 to 4.3 through the Kafka proxy, and of RocketMQ; needs their tools
	$(BIN)/python -m pytest -m foreign -s -q tests/foreign $(PYTEST_ARGS)

fuzz: $(VENV)/.test   ## hostile input for every entrance, a minute each; SEED, SECONDS, PARTS, COVER=1
	$(BIN)/python -m tests.fuzz.run

audit: .venv-audit/.made   ## known vulnerabilities of the pinned packages, where the index has data about them; STRICT=1: only then it passes
	.venv-audit/bin/python deploy/audit.py .venv-audit/bin $(if $(STRICT),--strict,)

sbom: .venv-audit/.made   ## a bill of materials (CycloneDX) of each set of pinned packages, into build/sbom
	@mkdir -p build/sbom
	for lock in $(basename $(notdir $(wildcard requirements/*.txt))); do \
	    .venv-audit/bin/python -W ignore -m cyclonedx_py requirements requirements/$$lock.txt --pyproject pyproject.toml \
	        --output-reproducible --of JSON -o build/sbom/$$lock.cdx.json || exit 1; done

.venv-audit/.made: Makefile
	$(PYTHON) -m venv --clear .venv-audit
	.venv-audit/bin/python -m pip install --quiet $(AUDIT)
	@touch $@

airflow: $(VENV)/.test .venv-airflow/.$(AIRFLOW)   ## deploy/airflow under the real Airflow, in an environment of its own; needs Java 17
	$(BIN)/python -m tests.deploy.airflow_at_work .venv-airflow/bin

.venv-airflow/.$(AIRFLOW):
	$(PYTHON) -m venv --clear .venv-airflow
	.venv-airflow/bin/python -m pip install --quiet $(AIRFLOW)
	@touch $@

spark-connect: $(VENV)/.test build/connect/.made   ## the reconcile job as a client of Spark Connect, with packages of its own; needs Java 17
	$(BIN)/python -m tests.reconcile.connect_at_work build/connect

build/connect/.made: Makefile | $(VENV)/.test
	rm -rf build/connect
	$(BIN)/python -m pip install --quiet --target build/connect $(CONNECT)
	@touch $@

outages: $(VENV)/.test   ## a broker that goes under clients in the tests' own process: librdkafka may end that, so they run apart
	$(BIN)/python -m pytest -m outage

bench: $(VENV)/.test   ## every figure the documents quote; BENCH=store,kafka-deliver picks some, SCALE=0.05 is for trying
	$(BIN)/python -m bench

kafka: $(VENV)/.kafka   ## a Kafka broker to try things with, on 127.0.0.1:9092 or PORT; needs Java and, once, Maven
	@exec $(BIN)/python -m tests.brokers

# One environment, filled in two steps: what running needs, then what testing needs on top.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	@echo 'Installing what running needs into $(VENV), once: some 30 packages, 120 MB.'
	$(INSTALL) -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements/test.txt $(VENV)/.run
	@echo 'Installing what the tests need into $(VENV), once: 1.4 GB, most of it Spark.'
	$(INSTALL) -r requirements/test.txt
	@touch $@

reconcile-demo: $(VENV)/.reconcile   ## messages are lost by hand and found again, in ./data-demo; needs Java 17
	@exec $(BIN)/python -m demo.reconcile

reconcile-job: $(VENV)/.reconcile   ## what `delayline reconcile` needs on top of `make run`, beside Java 17

$(VENV)/.reconcile: requirements/reconcile.txt $(VENV)/.run
	@echo 'Installing what the reconcile job needs into $(VENV), once: 450 MB, most of it Spark.'
	$(INSTALL) -r requirements/reconcile.txt
	@touch $@

reconcile-export: $(VENV)/.export   ## what `delayline reconcile export` needs on top of `make run`

$(VENV)/.export: requirements/export.txt $(VENV)/.run
	$(INSTALL) -r requirements/export.txt
	@touch $@

spark-package: $(VENV)/.test   ## what `spark-submit` sends to a cluster with the reconcile job, into build/spark: docs/deploy.md
	$(BIN)/python deploy/spark/pack.py build/spark

kafka-client: $(VENV)/.kafka   ## what mq.kind = "kafka" needs on top of `make run`

$(VENV)/.kafka: requirements/kafka.txt $(VENV)/.run
	$(INSTALL) -r requirements/kafka.txt
	@touch $@

rocketmq-client: $(VENV)/.rocketmq   ## what mq.kind = "rocketmq" needs on top of `make run`

$(VENV)/.rocketmq: requirements/rocketmq.txt $(VENV)/.run
	$(INSTALL) -r requirements/rocketmq.txt
	@touch $@

lock:   ## renew the pinned requirements (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
	    --extra build pyproject.toml -o requirements/run.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
	    --extra build --extra access --extra encryption --extra kafka --extra proxy -c requirements/run.txt pyproject.toml -o requirements/kafka.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
	    --extra build --extra access --extra encryption --extra rocketmq -c requirements/run.txt pyproject.toml -o requirements/rocketmq.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
	    --extra build --extra encryption --extra reconcile -c requirements/run.txt pyproject.toml -o requirements/reconcile.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
	    --extra build --extra export -c requirements/run.txt pyproject.toml -o requirements/export.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
	    --extra build --extra test -c requirements/run.txt pyproject.toml -o requirements/test.txt

version:   ## set the version everywhere: VERSION=1.2.3
	$(PYTHON) deploy/release.py set $(VERSION)

tagged:
	$(PYTHON) deploy/release.py check

wheel: tagged $(VENV)/.run   ## a wheel, into build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .

image: tagged   ## both container images; needs Docker
	docker build --target service   -t delayline:$$($(PYTHON) deploy/release.py show) .
	docker build --target reconcile -t delayline-reconcile:$$($(PYTHON) deploy/release.py show) .

coverage: $(VENV)/.test   ## which lines `make quick` runs, by file
	$(BIN)/python -m coverage run -m pytest -q -m 'not outage and not thorough and not broker and not slow' tests/unit tests/contract
	$(BIN)/python -m coverage report --include='delayline/*,kafkawire/*,rocketmq/*,cli/*,mq/*,store/*,delay_service/*,api/*,proxy/*,reconcile/*' --skip-covered

clean:   ## remove what was installed and built; ./data stays
	rm -rf $(VENV) .venv-airflow .venv-audit build bench/results .mypy_cache .ruff_cache .pytest_cache
