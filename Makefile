# What to type. Each target installs what it is missing on Debian, and says so.

.PHONY: demo test lint-openapi test-browser test-agents test-containers check chaos simulate bench fmt setup setup-test openapi

## Set up what is missing, build, show the main job step by step, and serve on until Ctrl-C.
demo: setup
	cargo run --locked --package journeyman -- demo

## Set up what is missing, then run all tests.
test: setup-test
	cargo test --workspace --locked --no-fail-fast
	sh scripts/openapi.sh
	sh scripts/browser.sh

## Lint the OpenAPI document of the HTTP interface.
lint-openapi: setup-test
	sh scripts/openapi.sh

## The tests of the pages alone, in a real browser.
test-browser: setup-test
	cargo build --locked --package journeyman
	sh scripts/browser.sh

## Install Podman and Docker, and run the tests of sandboxes in containers with Podman as root, rootless Podman and
## dockerd; engines that this machine cannot run are reported as SKIPPED.
test-containers:
	@sh scripts/setup.sh test-containers
	cargo test --locked --package journeyman --test main -- program::container --include-ignored --nocapture

## Install agents of other people from npm, 2.5 GB, and have each do three turns in its sandbox with a scripted model.
test-agents:
	@sh scripts/setup.sh test-agents
	cargo test --locked --package journeyman --test main -- program::real --ignored --nocapture --test-threads=1

## What CI checks before the tests.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	sh scripts/layering.sh

## A storm of kills, cuts and crashes over four machines and a database: make chaos SECONDS=60 SEED=1
SECONDS ?= 60
SEED ?= 1
chaos: setup-test
	SECONDS=$(SECONDS) SEED=$(SEED) cargo test --locked --package journeyman --test main -- storm::a_storm --ignored --exact --nocapture

## Thousands of hours of crashes, cuts and wrong clocks, simulated: make simulate SEEDS=1000 SEED=1
SEEDS ?= 1000
simulate:
	SEEDS=$(SEEDS) SEED=$(SEED) cargo test --locked --package journeyman-worker --lib -- simulation::worlds --ignored --exact --nocapture

## Measure a release build on this machine, beside what the machine can do; half an hour. See bench/README.md.
bench: setup
	python3 bench/bench.py

fmt:
	cargo fmt --all

## Writes the description of the HTTP interface anew, after it was changed on purpose.
openapi:
	cargo run --quiet --locked --package journeyman -- openapi > openapi.json.new
	mv openapi.json.new docs/openapi.json

setup:
	@sh scripts/setup.sh

setup-test:
	@sh scripts/setup.sh test
