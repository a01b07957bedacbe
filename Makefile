# The commands of this project. On Debian, each target installs the packages that it needs, and reports this.

.PHONY: demo test lint-openapi test-browser test-fuzz test-sdks test-a2a test-mcp test-clients test-ci-clients test-agents test-containers test-units test-packages test-release package release check check-format check-imports lint check-dependencies check-arm64 chaos chaos-hosts simulate exact bench fmt notices setup setup-test openapi schema

## Install prerequisites, build, show a job step by step, and serve until Ctrl-C.
demo: setup
	cargo run --locked --package journeyman -- demo

# Builds the program with the same features of dependencies as `cargo test --workspace`, so that neither compiles again
# what the other has compiled. Cargo adds the features of test dependencies because an example may need them.
BUILD = cargo build --locked --workspace --bin journeyman --example syntax_licenses

## Install prerequisites, and run all tests. ALL=1 also runs the clients that test nothing that has changed.
test:
	@sh scripts/setup.sh python
	@python3 scripts/test.py $(if $(ALL),--all) $(PARTS)

## Lint the OpenAPI document of the HTTP interface.
lint-openapi: setup-test
	sh scripts/openapi.sh

## Send generated requests for every operation of the OpenAPI document: make test-fuzz EXAMPLES=100
EXAMPLES ?= 5
test-fuzz: setup-test
	$(BUILD)
	EXAMPLES=$(EXAMPLES) sh scripts/fuzz.sh

## Run only the tests of the pages, in a real browser.
test-browser: setup-test
	$(BUILD)
	sh scripts/browser.sh

## Check, test and build only the client libraries in sdk/.
test-sdks: setup-test
	$(BUILD)
	sh scripts/sdk-python.sh
	sh scripts/sdk-typescript.sh

## Call the A2A server with the public clients for Python and JavaScript.
test-a2a: setup-test
	$(BUILD)
	sh scripts/a2a.sh

## Call the MCP server with the public conformance suite, inspector and client for Python.
test-mcp: setup-test
	$(BUILD)
	sh scripts/mcp.sh

## Generate clients of the OpenAPI document with public generators, and call the program with them.
test-clients: setup-test
	$(BUILD)
	sh scripts/clients.sh

## Run the GitHub Action and the GitLab CI component in sdk/ with the program that was built.
test-ci-clients: setup-test
	$(BUILD)
	sh scripts/ci-clients.sh

## Install Podman and Docker, and run the tests of sandboxes in containers with Podman as root, rootless Podman and
## dockerd. Engines that this machine cannot run are reported as SKIPPED.
test-containers:
	@sh scripts/setup.sh test-containers
	# With --workspace, cargo uses what `make test` has built: the features of dependencies are the same.
	cargo test --locked --workspace --test main -- program::container --include-ignored --nocapture

## Test the systemd units: their exposure, and as root the service and a job in them, with a systemd in namespaces.
test-units: setup-test
	$(BUILD)
	sh scripts/test-units.sh

## Install third-party agents from npm (2.5 GB), and run three turns of each in its sandbox with a scripted model.
test-agents:
	@sh scripts/setup.sh test-agents
	cargo test --locked --package journeyman --test main -- program::real --ignored --nocapture --test-threads=1

## Build a release of the program for this machine, and package it in target/packages.
package: notices
	@sh scripts/setup.sh package
	cargo build --locked --profile dist --bin journeyman --features journeyman/jemalloc
	PROGRAM=$${CARGO_TARGET_DIR:-target}/dist/journeyman sh scripts/package.sh

## Build the program for x86_64 and arm64 with an old glibc, and package both. See scripts/release.sh.
release: notices
	@sh scripts/setup.sh package
	sh scripts/release.sh

## Package the debug build, and try the packages in a fresh Debian and in a container.
test-packages: notices
	@sh scripts/setup.sh test-packages
	sh scripts/test-packages.sh

## Build the program for arm64 with an old glibc as a release does, but in the debug profile; package it beside the one
## for x86_64, and run it with QEMU.
test-release: notices
	@sh scripts/setup.sh test-release
	sh scripts/test-release.sh

## Check the formatting, the lints, and the dependencies. CI checks the lints when it builds the tests (.ci/run).
check: check-format check-imports lint check-dependencies

check-format:
	cargo fmt --all --check

## Count the circles of imports.
check-imports:
	python3 scripts/check_imports.py

lint:
	cargo clippy --workspace --all-targets --locked -- --deny warnings

check-dependencies:
	sh scripts/deny.sh

## Check for arm64 the crates with code that depends on the processor, and those above them that need no C compiler.
ARM64 = aarch64-unknown-linux-gnu
check-arm64:
	rustup target list --installed | grep -q $(ARM64) || rustup target add $(ARM64)
	cargo clippy --locked --target $(ARM64) --package journeyman-sandbox -- --deny warnings

## Inject crashes, network cuts and wrong clocks into four machines and a database: make chaos SECONDS=60 SEED=1
SECONDS ?= 60
SEED ?= 1
chaos: setup-test
	SECONDS=$(SECONDS) SEED=$(SEED) cargo test --locked --package journeyman --test main -- storm::a_storm_of_any_length_breaks_no_promise --ignored --exact --nocapture

## Kill the service ROUNDS times on a code host that fails, send COUNT webhooks meanwhile, and run JOBS jobs at once:
## make chaos-hosts ROUNDS=30 COUNT=1000 JOBS=200 SEED=1
ROUNDS ?= 30
COUNT ?= 1000
JOBS ?= 200
chaos-hosts: setup-test
	ROUNDS=$(ROUNDS) COUNT=$(COUNT) JOBS=$(JOBS) SEED=$(SEED) cargo test --locked --package journeyman --test main -- program::code_hosts --ignored --nocapture --test-threads=1

## Simulate thousands of hours of crashes, network cuts and wrong clocks: make simulate SEEDS=1000 SEED=1
SEEDS ?= 1000
simulate:
	SEEDS=$(SEEDS) SEED=$(SEED) cargo test --locked --package journeyman-worker --lib -- simulation::worlds --ignored --exact --nocapture

## Compare what random turns publish with a model that reads all files, and publish large repositories: make exact SEEDS=10000 SEED=1
exact:
	SEEDS=$(SEEDS) SEED=$(SEED) cargo test --locked --package journeyman-worker --lib -- commit::tests::random::random_turns commit::tests::shapes::people::large_repositories_are_published --ignored --exact --nocapture

## Measure a release build and compare it with the limits of this machine (half an hour). See bench/README.md.
bench:
	@sh scripts/setup.sh python
	python3 bench/bench.py

fmt:
	cargo fmt --all

## Regenerate the OpenAPI document after an intended change of the HTTP interface.
openapi:
	cargo run --quiet --locked --package journeyman -- openapi > openapi.json.new
	mv openapi.json.new docs/openapi.json

## Write the files with the schema of new databases, after a migration was added.
schema: setup-test
	cargo test --quiet --locked --package journeyman-store --lib -- write_schema --ignored

## Write the licenses of all third-party code in the program to target/THIRD-PARTY-NOTICES.txt.
notices:
	@sh scripts/setup.sh python
	python3 scripts/notices.py > target/notices.new
	mv target/notices.new target/THIRD-PARTY-NOTICES.txt

setup:
	@sh scripts/setup.sh

setup-test:
	@sh scripts/setup.sh test
