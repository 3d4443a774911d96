# `make help` lists the targets. Users need run, demo and test; the other targets are for development.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
TOOL := $(GO) tool -modfile=tools/go.mod
PGRUN := $(GO) run ./internal/testkit/pgtest/pgrun
# The race detector needs a C compiler; without one, go env CGO_ENABLED is 0.
CGO := $(shell $(GO) env CGO_ENABLED)
RACE := $(if $(filter 1,$(CGO)),-race)
# Everything except some tests is built with the same settings, so that no package is compiled twice.
export CGO_ENABLED := 0
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath

SOAK_MODEL = $(PGRUN) $(GO) test ./test/model -run WhileServersDie -v -timeout 0 -model.duration=$(or $(DURATION),10m) $(if $(SEED),-rapid.seed=$(SEED))
SOAK = $(GO) run ./test/soak $(if $(SEED),--seed=$(SEED)) $(if $(DURATION),--duration=$(DURATION))

# The commit of the version that landed last. test-upgrade upgrades from it. Update it when a version lands.
LANDED := f023e0d34

.PHONY: help run build demo test race fuzz test-restore test-upgrade soak soak-mutants soak-hostile drill replay-attack bench postgres generate lists verify lint schema test-clients test-alertmanager alertmanager packages release test-packages test-three-machines node-tools client-modules console test-console console-modules

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Run the server, with a private PostgreSQL unless DATABASE_URL is set
	@if [ -z "$${DATABASE_URL:-}" ] && ! grep -qs '^DATABASE_URL=.' .env; then scripts/postgres.sh; fi
	@$(MAKE) --no-print-directory build
	@exec bin/lksms serve

demo: build ## Send messages through the running server with a simulated sender
	@exec bin/lksms demo

build: ## Build bin/lksms, one static binary
	@$(GO) build -buildvcs=false -ldflags="$$(scripts/ldflags.sh)" -o bin/lksms ./cmd/lksms

test: postgres ## Run all tests against a real PostgreSQL that is started for them
	@cd test/bench && $(GO) test ./...
	@answers=$$(mktemp -d); trap 'rm -rf "$$answers"' EXIT; \
		LKSMS_TEST_ANSWERS=$$answers $(PGRUN) env CGO_ENABLED=$(CGO) scripts/test.sh $(RACE); \
		$(GO) run ./internal/testkit/contracttest/missing "$$answers" # prints the responses of the contract that no test observed

race: postgres ## Run all tests with the race detector, for half an hour
	@$(PGRUN) env CGO_ENABLED=1 $(GO) test -p 4 -race ./...

fuzz: postgres ## Run each fuzz target in turn, for a minute or DURATION (60s, 100000x)
	@$(PGRUN) scripts/fuzz.sh $(or $(DURATION),60s)

soak: postgres ## Inject faults into two servers and their PostgreSQL for ten minutes, then kill two servers while a model checks them (SEED=n, DURATION=d); or only kill, KILLS times (SOAK_DIR=folder)
	@$(SOAK) $(if $(KILLS),--kills=$(KILLS) $(if $(SOAK_DIR),--kills-dir=$(SOAK_DIR)))
	@$(if $(KILLS),,$(SOAK_MODEL))

soak-hostile: postgres ## Let two tenants attack, and compare the service of another tenant with and without the attack
	@$(SOAK) --hostile

soak-mutants: postgres ## Put known bugs into the code, one at a time, and check that the soak finds each bug
	@$(SOAK) --mutants

test-restore: postgres ## Back up a database under load, destroy it, and restore it to an earlier moment, as docs/operations.md says (SEED=n)
	@$(GO) test ./cmd/lksms -run TestADatabaseCanBeRestoredToAPointInTime -count=1 -v -timeout 9m -restore.seed=$(or $(SEED),$$(date +%s))

test-upgrade: postgres ## Upgrade servers from the last version to this version under load, and downgrade again (SEED=n, DURATION=d, 40s for a short run, FROM=<git ref>)
	@$(GO) run ./test/soak --upgrade --from=$(or $(FROM),$(LANDED)) $(if $(SEED),--seed=$(SEED)) --duration=$(or $(DURATION),3m)

drill: postgres ## Fail over repeatedly for ten minutes: servers with different roles on three PostgreSQL nodes under Patroni (SEED=n, DURATION=d, ARGS=--async)
	@scripts/programs.sh patroni=patroni etcd=etcd-server haproxy=haproxy pgbouncer=pgbouncer
	@$(SOAK) --drill $(ARGS)

replay-attack: postgres ## Replay an attack on verification codes (SEED=1, MINUTES=60)
	@$(PGRUN) $(GO) test ./internal/audience/verification -run ReplayOfAnAttack -v -args -replay.seed=$(or $(SEED),1) -replay.minutes=$(or $(MINUTES),60)

bench: postgres ## Compare with pgbench and River on the same PostgreSQL, for 40 minutes (ARGS=--short: one minute)
	@cd test/bench && $(GO) run . $(ARGS)

packages: ## Build binaries, deb and rpm packages, SBOMs and checksums into dist/ (VERSION=1.0, PLATFORMS="linux/amd64 ...")
	@GO=$(GO) scripts/packages.sh

release: ## Tag the last commit as VERSION (1.0.0), and build its packages
	@GO=$(GO) scripts/release.sh "$(VERSION)"

test-packages: ## Install the deb package on a clean Debian, and use, upgrade and purge it (needs root)
	@GO=$(GO) scripts/check-packages.sh

test-three-machines: ## Move from one machine to three as deploy/patroni/README.md says, on clean Debian machines in containers, for fifteen minutes (needs root)
	@GO=$(GO) scripts/check-three-machines.sh

postgres: ## Find a PostgreSQL server to start, or install one
	@scripts/postgres.sh

generate: ## Generate gen/ from api/openapi.yaml and db/, and write db/schema.sql
	@rm -rf gen && mkdir -p gen/api gen/client
	@$(TOOL) oapi-codegen -config oapi-codegen.yaml api/openapi.yaml
	@$(TOOL) oapi-codegen -config client/oapi-codegen.yaml api/openapi.yaml
	@$(TOOL) sqlc generate
	@$(MAKE) --no-print-directory schema

lists: postgres ## Write the lists of packages, sweeps and tables in docs/architecture.md
	@$(PGRUN) $(GO) test ./internal/app -run TestTheListsOfTheArchitectureAreCurrent -count=1 -update

# The schema omits partitions of days, because they depend on the current day. sed removes the lines that differ between versions of pg_dump.
schema: postgres
	@$(PGRUN) -database sh -c 'pg_dump --schema-only --no-owner --no-privileges --exclude-table=schema_migrations --exclude-table="*_20[0-9][0-9][0-9][0-9][0-9][0-9]" "$$DATABASE_URL"' \
		| sed -E '/^(--|SET |SELECT pg_catalog\.set_config|\\)/d' | cat -s > db/schema.sql.new
	@mv db/schema.sql.new db/schema.sql

console: console-modules ## Build the web console from web/src into web/dist, which the server embeds
	@cd web && npm run --silent build

test-console: build postgres console-modules ## Use the console in a browser on a real server, in both languages
	@$(PGRUN) sh -c 'cd web && npm test --silent'

verify: node-tools client-modules generate console ## Generate again and fail on a difference; check the queries, the contract, the migrations and the console
	@test -z "$$(git status --porcelain -- web/dist)" || { git status --short -- web/dist; echo "verify: web/dist is stale: run make console and commit"; exit 1; }
	@git diff --exit-code -- gen db/schema.sql || { echo "verify: generated files are stale: run make generate and commit"; exit 1; }
	@test -z "$$(git status --porcelain -- gen db/schema.sql)" || { echo "verify: generated files are not committed"; exit 1; }
	@$(TOOL) sqlc vet
	@cd tools/node && npx --no-install redocly lint --config redocly.yaml ../../api/openapi.yaml
	@# squawk checks only the up part of a migration, because only this part runs while tables are in use.
	@up=$$(mktemp -d); trap 'rm -rf "$$up"' EXIT; cd tools/node; \
		for file in ../../db/migrations/*.sql; do sed '/^-- migrate:down/,$$d' "$$file" > "$$up/$${file##*/}"; done; \
		npx --no-install squawk --config squawk.toml "$$up"/*.sql
	@# The TypeScript client is generated at each build, so it cannot be stale. Its tests show that it still fits the contract.
	@cd clients/typescript && npm test --silent
	@$(GO) mod tidy -diff
	@cd test/bench && $(GO) mod tidy -diff
	@echo "verify: ok"

lint: ## Lint the Go code, the words of comments, and the titles of the commits since the last version
	@scripts/titles.sh $(LANDED)
	@scripts/words.sh $(LANDED)
	@$(TOOL) golangci-lint run ./...
	@cd test/bench && $(GO) vet ./...
	@files=$$(gofmt -l test/bench tools/alertmanager); test -z "$$files" || { echo "lint: not formatted by gofmt: $$files"; exit 1; }

test-clients: postgres node-tools client-modules ## Submit and follow messages with each client: command line, TypeScript, generated, SMSGate for npm
	@$(PGRUN) -database scripts/check-clients.sh
	@$(PGRUN) -database tools/node/run-client.sh

test-alertmanager: postgres build alertmanager ## Build Alertmanager, and make it send an alert to a phone
	@$(PGRUN) -database sh -c 'cd tools/alertmanager && $(GO) test -count=1 ./...'

alertmanager:
	@cd tools/alertmanager && $(GO) build -ldflags="-s -w" -o ../../bin/alertmanager github.com/prometheus/alertmanager/cmd/alertmanager

node-tools:
	@cd tools/node && { cmp -s package-lock.json node_modules/.built-from || { npm install --no-save --loglevel=error --no-audit --no-fund && cp package-lock.json node_modules/.built-from; }; }

client-modules:
	@cd clients/typescript && { cmp -s package-lock.json node_modules/.built-from || { npm ci --loglevel=error --no-audit --no-fund && cp package-lock.json node_modules/.built-from; }; }

console-modules:
	@cd web && { cmp -s package-lock.json node_modules/.built-from || { npm ci --loglevel=error --no-audit --no-fund && cp package-lock.json node_modules/.built-from; }; }
