# The recipes for working on Flotilla; CI runs the same ones. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools that `make setup` brings live here, outside of the tree, and come before the machine's own.
export PATH := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flotilla/bin:$(PATH)

# All recipes build the same selection of crates: another one would make cargo compile the dependencies again with
# other features. What was built is run from here.
BIN := $(or $(CARGO_TARGET_DIR),target)/debug
GO_MODULES := loadtests/testbed/control-plane/apiserver loadtests/testbed/control-plane/etcd

.PHONY: help
help: ## List the recipes
	@awk -F ':.*## ' '/^## / { sub("## ", ""); printf "\n%s\n", $$0 } \
		/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## Working on it

.PHONY: setup
setup: ## Bring what tests and demo need into the cache; the first time takes 10 min, then nothing
	@scripts/setup

.PHONY: build
build: ## Build all crates and programs
	cargo build --workspace --bins --locked

.PHONY: lint
lint: ## Check formats, lints, licences and banned crates
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@scripts/lint-clock
	@scripts/setup cargo-deny
	cargo deny --log-level error check bans licenses sources
	@unformatted=$$(gofmt -l $(GO_MODULES)); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	for module in $(GO_MODULES); do (cd $$module && go vet -trimpath .); done

.PHONY: test
test: setup build ## Run all tests; those that need a control plane start one
	cargo test --workspace --locked --no-fail-fast

.PHONY: fuzz
fuzz: setup build ## Feed parsers with random bytes, MINUTES each (10), and run random tests with a SEED of their own
	@scripts/fuzz $(or $(MINUTES),10)
	@seed=$(or $(SEED),$$(date +%s)); echo "random tests with SEED=$$seed"; \
		PROPTEST_RNG_SEED=$$seed cargo test --workspace --locked --lib --test properties

.PHONY: generate
generate: $(if $(TYPES),catalog) ## Remake everything in the tree that is made by a program; the catalog only with TYPES
	@scripts/setup clients
	cargo build --workspace --bins --locked
	$(BIN)/flotilla crds list -o markdown > docs/reference/kinds.md
	$(BIN)/flotilla crds list --further -o markdown > docs/reference/further_types.md
	$(BIN)/render-chart
	FLOTILLA_GENERATE=1 cargo test --workspace --locked --lib --bin flotilla page_

.PHONY: clean
clean: ## Remove what was built; the cache of tools stays
	cargo clean

## Running it

.PHONY: control-plane
control-plane: setup build ## Run an API server of your own until Ctrl-C
	@exec $(BIN)/control-plane

.PHONY: demo
demo: setup build ## Show a fleet at work from start to end; KEEP=1 leaves it running
	@exec $(BIN)/demo $(if $(KEEP),--keep)

.PHONY: e2e
e2e: setup build ## Run the recorded cases against a fleet
	cargo test --workspace --locked --test e2e

.PHONY: chaos
chaos: setup build ## Kill coordinators and workers while operations run, and check that nothing was lost
	cargo test --workspace --locked --test e2e survival

.PHONY: bench
bench: setup ## Measure it, as docs/benchmarks.md shows; SHORT=1 takes a minute and shows less
	@scripts/setup valgrind
	cargo build --release --workspace --bins --locked
	@exec $(BIN:debug=release)/bench $(if $(SHORT),--short)

.PHONY: catalog
catalog: build ## Remake the catalog of Azure's types; TYPES names the folder with the type data
	@exec $(BIN)/catalog $(TYPES)
