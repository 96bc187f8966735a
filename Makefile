# `make help` lists the targets. Building, the demo and the tests need only Go and
# make.

GO       ?= go
BIN      := bin
TOOLS    := $(CURDIR)/.tools
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X conclave/internal/cli.version=$(VERSION)
PROGRAMS := conclave node devdb
# The names by which node is called. The processes of a machine share the pages of one file.
ROLES    := meta session data

# The race detector needs a C compiler; without one the tests run without it.
CC_FOUND := $(shell command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 && echo yes)
RACE     := $(if $(CC_FOUND),-race,)
SAY_RACE := race detector: $(if $(RACE),on,off$(if $(CC_FOUND),, (no C compiler)))
TEST_ENV := $(if $(CC_FOUND),CGO_ENABLED=1,CGO_ENABLED=0)

# Programs, tests and tools are compiled alike, so that what one target has compiled
# serves all: the embedded MySQL server takes minutes.
export GOFLAGS     := $(strip $(GOFLAGS) -trimpath)
export CGO_ENABLED ?= 0

# Versions of the tools that generate and check code. Those of the two protoc
# plugins are the versions of the libraries in go.mod, so that both match.
BUF_VERSION      := v1.57.2
PROTOC_GO        := $(shell $(GO) list -m -f '{{.Version}}' google.golang.org/protobuf 2>/dev/null)
PROTOC_CONNECT   := $(shell $(GO) list -m -f '{{.Version}}' connectrpc.com/connect 2>/dev/null)
LINT_VERSION     := v2.15.0
SBOM_VERSION     := v1.10.0
NFPM_VERSION     := v2.45.2

.DEFAULT_GOAL := help
.PHONY: help build demo play pictures test-browser test-telemetry soak eight test test-slow test-race cross test-all test-long test-hostile test-real test-containers test-compose test-replicated test-zookeeper sim diagram mutate check up down lint generate bench fuzz release test-release cover clean
.PHONY: need-docker image image-source compose-up compose-demo compose-down

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

# The embedded MySQL server is most of the code; later builds have it in Go's cache.
FIRST := building the embedded MySQL server: minutes at the first time, seconds after that

build: ## the programs, into bin/
	@mkdir -p $(BIN)
	@[ -e $(BIN)/devdb ] || echo '$(FIRST)'
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./cmd/,$(PROGRAMS))
	@for role in $(ROLES); do ln -f $(BIN)/node $(BIN)/$$role; done

demo: build ## run a cluster through half a minute of faults: elect, publish, kill, drain, kill, kill, stop
	@$(BIN)/conclave demo

play: build ## a cluster, its clients and a page on which it can be watched and broken; prints the address
	@$(BIN)/conclave up --console --clients 2

.PHONY: sofa-example
sofa-example: build ## providers and a consumer with SOFARegistry's client for Java (a JDK and Maven), while nodes die as in the demo; the last line says how many calls failed
	@sh examples/sofa/run.sh

.PHONY: playground
playground: ## recordings of failures, and a cluster to break, as a page of static files in playground/: any host can serve it (docs/playground.md)
	rm -rf playground.new && $(GO) run ./testbed/playground/build -o playground.new && rm -rf playground && mv playground.new playground

pictures: ## draw docs/console-*.png again, by the browser test
	CONSOLE_PICTURES='$(CURDIR)/docs' REQUIRE_BROWSER=1 TEST_ALL=1 $(GO) test -count=1 -timeout 10m -run '^Test(Console|Console_Recording|Console_TurnsRedAtAViolation|Playground)$$' ./cmd/conclave

# RACED=1 builds its programs in a directory of their own.
soak: build ## inject random faults (SEED=n) into a cluster for FOR=5m and check it from outside: RACED=1, TAKEOVER=lease, ON=compose
ifdef RACED
	@mkdir -p $(BIN)/raced
	CGO_ENABLED=1 $(GO) build -race -o $(BIN)/raced/ $(addprefix ./cmd/,$(ROLES) devdb)
endif
	@$(BIN)/conclave soak --for $(or $(FOR),5m) --seed $(or $(SEED),1) --takeover $(or $(TAKEOVER),witness) --on $(or $(ON),local) $(if $(RACED),--bin $(BIN)/raced --raced,)

# At least one scenario for each of the eight defects of docs/track-record.md ("Why no test had found them").
EIGHT := handed-over-while-a-session-is-slow the-last-copy-is-being-drained all-sessions-are-killed all-sessions-are-frozen \
  the-last-session-is-not-drained drained-session-is-the-last power-cut-of-data-and-sessions \
  a-session-whose-port-is-closed stopped-after-an-announcement acts-that-end-the-service-are-refused
eight: build ## the defects that were found from outside, on processes: each scenario TIMES=n (20), PARALLEL=n (3) clusters at once; ONLY=NAMES
	@$(BIN)/conclave chaos run $(or $(ONLY),$(EIGHT)) --times $(or $(TIMES),20) --parallel $(or $(PARALLEL),3) --seed $(or $(SEED),1)

# make test plays under the race detector packages in which many goroutines meet and that
# do not need the embedded MySQL server, whose code takes minutes to build for it. The
# others are plain here; storms (make sim RACED=1), real servers and hostile clients run
# under it too, and test-race plays everything. The longest begin first, and four run at
# once, because some of them wait. internal/archtest asks the go command for compiled
# packages, so it comes when all are compiled. make lint vets.
SLOWEST        := ./testbed/simulated ./cmd/conclave ./lab ./elector/termcas/tests ./meta
RACED_PACKAGES := ./session/... ./data/... ./client ./wire/... ./elector ./elector/electorfake ./elector/electorhttp/... ./meta/metaclient ./internal/node ./internal/contain ./internal/signal

# Tests that take five to thirty seconds each, here or under the race detector, and the
# elections of other systems. make test leaves them out; CI and test-long play them by
# test-slow.
SLOW_PACKAGES := ./cmd/conclave ./testbed/simulated ./lab ./meta ./data ./session ./elector/termcas/tests ./internal/archtest
SLOW := ^(TestArrivals_AllAreServed|TestArticle001_DeadLeaderHasNoSuccessor|TestArticle003Late_LivingLeaderDeposedAndElectionWonTwice|TestBalance_SpreadsAndRests|TestBenchGrowth_WritesTableAndJSON|TestBinaries_LookNoMethodUpByName|TestCompare_EverySlotInTurn|TestConfig_RefusesWhatIsInvalidAndChangesNothing|TestDemo_HoldsInABubble|TestHandOver_CrashInEachPhase|TestLabElections|TestLargeDatum|TestLimits_UnfinishedMessagesAreBounded|TestLinger_GoesToTheSessionThatAnswers|TestOwners_ConnectedSessionIsNotLost|TestOwners_NothingIsRemovedWithoutLeader|TestOwners_OutageOfAllSessionsRemovesNothing|TestParts_ListLargerThanAMessageIsPushed|TestParts_ListThatChangesAllTheTimeArrives|TestRecording_CostsLittle|TestRename_TreeBuildsUnderAnotherPath|TestRepair_IdleClusterComparesRarely|TestRights_RotationUnderLoadMissesNothing|TestSIGSTOP_PerceivedLeadershipsDoNotOverlap|TestSoak_OnRealProcesses|TestStop_AnnouncementExpires|TestUp_CertificatesAreRenewedUnderLoad)$$|^TestRules$$/^(client-go|curator|dolphinscheduler|freno|orchestrator|polaris|river)$$

# The collector runs seldom, in the compiler too: a fifth of the time for more memory.
test: export GOGC := 400
test: ## the tests that need only Go, but for those of test-slow, each playing a share of its rounds
	@echo '$(SAY_RACE)'
	$(GO) test -vet=off -p 4 -timeout 30m -skip '$(SLOW)' $(SLOWEST) $$($(GO) list ./... | grep -vxF "$$($(GO) list ./internal/archtest $(if $(RACE),$(RACED_PACKAGES),))")
	$(if $(RACE),$(TEST_ENV) $(GO) test -vet=off -p 3 -timeout 30m $(RACE) -skip '$(SLOW)' $(RACED_PACKAGES),@true)
	$(GO) test -vet=off -skip '$(SLOW)' ./internal/archtest
	cd internal/devdb/goregex && $(GO) test ./...
	cd client/conclavegrpc && $(GO) test ./...

test-slow: ## the tests of five to thirty seconds each that make test leaves out, and the election's and the console's under the race detector
	$(GO) test -vet=off -timeout 30m -run '$(SLOW)' $(SLOW_PACKAGES)
	$(if $(RACE),$(TEST_ENV) $(GO) test -vet=off -timeout 30m $(RACE) ./elector/tests ./elector/termcas/tests ./elector/fence/tests ./testbed/load ./testbed/console/... ./internal/faultnet,@true)

# Tests of many virtual minutes or megabytes, which take a minute each under the race
# detector: others bring the same goroutines together, and make test and test-slow play these
# without it.
HEAVY := ^(TestCalm_NoElectionAcrossCalendarBoundaries|TestConfig_RefusesWhatIsInvalidAndChangesNothing|TestHandOver_CrashInEachPhase|TestMetaOutage_MembersAndTableStay|TestParts_ListLargerThanAMessageIsPushed|TestRepair_IdleClusterComparesRarely|TestStop_AnnouncementExpires)$$

test-race: ## all tests that need only Go under the race detector, but for a few that take a minute each
	$(TEST_ENV) $(GO) test -timeout 60m $(RACE) -skip '$(HEAVY)' $$($(GO) list ./... | grep -v -e /internal/archtest$$ -e /testbed/simulated/mutate$$)
	cd internal/devdb/goregex && $(TEST_ENV) $(GO) test $(RACE) ./...

# The packages whose tests also run on real servers, one package at a time (AT_ONCE=n: n) because
# each starts its own servers. Their tests mostly wait, so up to four run at once.
REAL := ./internal/mysqltest/ ./testbed/containers/ ./sql/... ./elector/tests/ ./elector/termcas/tests/ ./elector/fence/tests/ ./elector/once/tests/ ./lab/ ./lab/oversell/ ./lab/article000/... ./lab/article001/... ./lab/article003/...
test-all: test test-race test-long test-hostile test-browser test-telemetry test-real test-zookeeper test-beside test-containers ## those, the slow suites, the page in a browser, Prometheus, and the tests on real servers in containers: MySQL, MariaDB, ZooKeeper; lists what it skipped (REQUIRE_DOCKER=1: fails); hours

cross: ## build for Windows what applications import, and for macOS also the programs but devdb
	GOOS=windows $(GO) build ./client ./elector ./elector/termcas ./elector/fence ./elector/once ./elector/electorhttp ./elector/electorfake
	GOOS=darwin GOARCH=arm64 $(GO) build ./client ./elector ./elector/termcas ./elector/fence ./elector/once ./elector/electorhttp ./elector/electorfake ./cmd/conclave ./cmd/meta ./cmd/session ./cmd/data ./cmd/node

test-long: cross ## the suites that take minutes each: those of test-slow, stories, storms, one seed one trace, fuzz, soak, all programs for macOS, the tree under another path, a release twice
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	TEST_ALL=1 $(GO) test -count=1 ./internal/archtest ./internal/devdb ./meta ./session
	TEST_ALL=1 $(GO) test -count=1 -v -run '^TestSofaExample' ./cmd/conclave
	@$(MAKE) --no-print-directory test-release
	@$(MAKE) --no-print-directory test-slow SLOW_PACKAGES='$(filter-out ./internal/archtest ./meta ./session,$(SLOW_PACKAGES))'
	$(GO) test -count=1 -run '^TestStories$$' ./testbed/simulated -args -all
	@for suite in 'sim STORIES=1' 'sim STORIES=1 TRIMMED=1' 'sim SEEDS=2000' 'sim TWICE=20' 'sim RACED=1 SEEDS=50' 'fuzz FUZZTIME=60s' 'soak FOR=5m'; do \
	  echo "== make $$suite"; $(MAKE) --no-print-directory $$suite || exit 1; done

test-containers: ## the image by every builder, the demo on both databases, and a cluster with TLS that consoles watch and break
	.ci/check-image
	@for suite in compose-demo 'compose-demo DB=mariadb'; do echo "== make $$suite"; $(MAKE) --no-print-directory $$suite || exit 1; done
	$(BIN)/conclave chaos run f16-kill-a-data-node --on compose --tls
	@export COMPOSE_PROFILES=console; $(MAKE) --no-print-directory compose-up TLS=1 && $(MAKE) --no-print-directory test-compose; code=$$?; \
	  $(MAKE) --no-print-directory compose-down; exit $$code

test-hostile: ## the hostile-client suite, with the race detector in the programs if there is a C compiler; ONLY=PATTERN: some of the attacks
	TEST_ALL=1 $(if $(RACE),RACED=1,) $(TEST_ENV) $(GO) test -count=1 -v $(RACE) $(if $(ONLY),-run '^TestHostile_ClientsHarmNoHonestOne$$/($(ONLY))',) ./testbed/hostile/

test-browser: ## the test of test-all that needs a browser (chromium); REQUIRE_BROWSER=1: fails without one
	@$(call on-real-servers,-run '^Test(Console|Playground)' ./cmd/conclave)

test-telemetry: ## the tests of test-all that need Prometheus (Debian's package): dashboard, alerts; REQUIRE_PROMETHEUS=1: fails without it
	@$(call on-real-servers,-run '^TestTelemetry' ./cmd/conclave)

test-real: ## the tests of test-all that need a real MySQL and MariaDB; SERVERS=mysql,mariadb,group,galera: on some; REAL=PACKAGES: of some; SKIP=PATTERN: without some; AT_ONCE=n packages
	@$(call on-real-servers,$(REAL))

test-compose: ## the console's tests on the cluster that make compose-up has started; with COMPOSE_PROFILES=console, on its service too
	@$(call on-real-servers,-run '^TestComposeUp' ./cmd/conclave)

test-replicated: ## the scenarios on replicated databases, TIMES=n (20) each on servers that are started once; ONLY=PATTERN; a table of runs and times
	@echo '$(SAY_RACE)'; { TEST_ALL=1 REQUIRE_DOCKER=1 $(TEST_ENV) $(GO) test -json -p 1 -count=$(or $(TIMES),20) -timeout 6h $(RACE) \
	  -run '$(or $(ONLY),^Test(Replicas|Group|Galera)_)' ./elector/termcas/tests/ ./sql/tests/; printf '{"Action":"exit","Elapsed":%d}\n' $$?; } | $(GO) run .ci/testreport.go

test-zookeeper: ## the tests of test-all that need a real ZooKeeper
	@$(call on-real-servers,./internal/zktest/ ./lab/article004/zklatch/...)

test-beside: ## the test of test-all that needs etcd: ETCD=PROGRAM
	@$(call on-real-servers,-run '^TestBenchBeside' ./cmd/conclave)

on-real-servers = echo '$(SAY_RACE)'; { TEST_ALL=1 $(if $(SERVERS),TEST_SERVERS=$(SERVERS)) $(TEST_ENV) $(GO) test -json -p $(or $(AT_ONCE),1) -parallel 4 -count=1 -timeout 30m $(RACE) $(if $(SKIP),-skip '$(SKIP)') $(1); \
	  printf '{"Action":"exit","Elapsed":%d}\n' $$?; } | $(GO) run .ci/testreport.go

# Two processes of one processor each, which share the seeds. With the overlay one
# seed gives one trace; onetrace reports if it does not fit the installed Go.
SIM      := $(TOOLS)/sim
SIM_CODE := ./meta/...,./data/...,./session/...,./client,./elector,./elector/termcas,./slot,./lease,./blacklist,./wire,./wire/serve,./sql
SIM_RUN   = cd testbed/simulated && GOMAXPROCS=1 GOGC=400 GODEBUG=memprofilerate=0 '$(SIM)/sim.test' -test.timeout 0
SIM_SUM   = cat '$(SIM)'/sum.? | awk '{ n += $$1; bad += $$2; s += $$3; if ($$4 > wall) wall = $$4 } END { printf "both together: %d storms played, %d failed; %.1f virtual hours in %.1f minutes, %.2f simulated hours per minute\n", n, bad, s / 3600, wall / 60, s / 60 / (wall + (wall == 0)) }'
SIM_RECORD = $(if $(RECORD),-recording '$(abspath $(RECORD))',)
sim: ## storms in virtual time: SEEDS=N (100) of them; SHRINK=0 as they are; SEED=n one, in full; STORIES=1 all stories; SCENARIO=NAME one; RECORD=FILE: of one, for the console; TWICE=N compared; COVER=1; RACED=1; TRIMMED=1 on the playground's database
	@$(if $(RECORD),$(if $(SEED)$(SCENARIO),true,echo 'RECORD needs SEED=n or SCENARIO=NAME'; exit 2),true)
	@mkdir -p '$(SIM)'
	@[ -e '$(SIM)/sim.test' ] || echo '$(FIRST)'
	@if [ -z '$(RACED)' ] && $(GO) run ./testbed/simulated/onetrace -out '$(SIM)/overlay'; then set -- -overlay '$(SIM)/overlay/overlay.json' -tags onetrace; else set --; fi; \
	  $(if $(TRIMMED),rm -rf .tools/trimmed && $(GO) run ./testbed/playground/build -trim .tools/trimmed && set -- "$$@" -modfile .tools/trimmed/wasm.mod &&) \
	  $(if $(RACED),CGO_ENABLED=1) $(GO) test "$$@" $(if $(RACED),-race,) $(if $(COVER),-coverpkg=$(SIM_CODE),) -c -o '$(SIM)/sim.test' ./testbed/simulated
ifdef SCENARIO
	@$(SIM_RUN) -test.run '^TestStories$$' -timeline -scenario '$(or $(abspath $(wildcard $(SCENARIO))),$(SCENARIO))' -seed '$(or $(SEED),1)' -record '$(SIM)' $(SIM_RECORD); code=$$?; [ $$code = 2 ] || ls -1 '$(SIM)/$(basename $(notdir $(SCENARIO)))'.*; exit $$code
else ifdef TWICE
	@$(SIM_RUN) -test.v -test.run '^TestDiagram$$'
	@$(SIM_RUN) -test.v -test.run '^TestOneSeedOneTrace$$' -twice '$(TWICE)'
	GOMAXPROCS=1 GODEBUG=memprofilerate=0 $(GO) test -vet=off -overlay '$(SIM)/overlay/overlay.json' -tags onetrace -count=1 -run '^TestOneStartOneState$$' ./testbed/playground
else ifdef STORIES
	@rm -f '$(SIM)'/queue; for i in 0 1; do ( $(SIM_RUN) -test.run '^TestStories$$' -all -queue '$(SIM)'/queue ) & pids="$$pids $$!"; done; \
	  code=0; for p in $$pids; do wait $$p || code=1; done; exit $$code
else ifeq ($(SEED)$(SEEDS),$(or $(SEED),none))
	@$(SIM_RUN) -test.v -test.run '^TestStorms$$' -seed '$(SEED)' $(if $(SHRINK),-shrink $(SHRINK),) -record '$(SIM)' $(SIM_RECORD); code=$$?; echo "log and history: $(SIM)"; exit $$code
else
	@rm -f '$(SIM)'/sum.? '$(SIM)'/queue; for i in 0 1; do ( $(SIM_RUN) -test.run '^TestStorms$$' -seed $(or $(SEED),1) -seeds $(or $(SEEDS),100) -queue '$(SIM)'/queue -sum '$(SIM)'/sum.$$i $(if $(SHRINK),-shrink $(SHRINK),) \
	    $(if $(COVER),-test.coverprofile '$(SIM)'/cover.$$i,) ) & pids="$$pids $$!"; done; \
	  code=0; for p in $$pids; do wait $$p || code=1; done; $(SIM_SUM); exit $$code
	@$(if $(COVER),$(SIM_RUN) -test.skip '^(TestStorms|TestOneSeedOneTrace)$$' -all -test.coverprofile '$(SIM)/cover.2' > /dev/null,true)
	@$(if $(COVER),{ echo 'mode: set'; cat '$(SIM)'/cover.? | grep -v -e '^mode:' -e '\.pb\.go:' -e '\.connect\.go:'; } > '$(SIM)/cover.all' && \
	  $(GO) tool cover -func='$(SIM)/cover.all' | awk '/^total:/ { print "the share of the cluster'"'"'s code that storms and stories ran: " $$3 }',true)
endif

diagram: ## play a failover in the simulator and draw it into docs/failover.svg
	@mkdir -p '$(SIM)' && $(GO) run ./testbed/simulated/onetrace -out '$(SIM)/overlay'
	$(GO) test -overlay '$(SIM)/overlay/overlay.json' -tags onetrace -c -o '$(SIM)/sim.test' ./testbed/simulated
	@$(SIM_RUN) -test.run '^TestDiagram$$' -diagram

mutate: ## remove the guards of the code, one at a time, and let the simulator find it (docs/mutations.md): ONLY=WORDS
	$(GO) run ./testbed/simulated/mutate -only '$(ONLY)'

# Packages whose tests take seconds.
UNIT := . ./slot/... ./lease/... ./blacklist/... ./wire/... ./data/store/... ./elector ./elector/tests ./elector/fence/... ./elector/once/... ./sql ./sql/tests ./client \
  ./internal/signal/... ./internal/stage/... ./internal/logging/... ./internal/trace/... ./internal/node/... ./testbed ./testbed/check/... ./testbed/scenario/... ./testbed/report/...
check: $(TOOLS)/golangci-lint-$(LINT_VERSION) ## under a minute, once the caches are warm: format, vet, lint, import rule, unit tests
	@bad=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +); test -z "$$bad" || { echo 'not formatted:'; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	$(TOOLS)/golangci-lint-$(LINT_VERSION) run ./...
	$(GO) test -short ./internal/archtest/ $(UNIT)

up: build ## a local cluster in the background, with two publishers and two subscribers
	@$(BIN)/conclave up --detach --clients 2

down: ## stop it
	@$(BIN)/conclave down

# The name of the nodes' image; .env has the same.
CONCLAVE_IMAGE ?= conclave:local
GO_IMAGE       ?= golang:1.26

need-docker:
	@compose/need-docker

image: need-docker build ## the image of all programs, from bin/
	docker build -q -f compose/Dockerfile.bin --build-arg VERSION=$(VERSION) -t $(CONCLAVE_IMAGE) $(BIN)
	@docker image prune -f --filter label=org.opencontainers.image.title=Conclave >/dev/null # what had the name before

image-source: need-docker ## the same image, built from source in a container (GO_IMAGE=golang:1.26)
	docker build -f Dockerfile --build-arg GO_IMAGE=$(GO_IMAGE) --build-arg GOPROXY='$(shell $(GO) env GOPROXY 2>/dev/null)' \
	  --build-arg VERSION=$(VERSION) $(BUILD_ARGS) -t $(CONCLAVE_IMAGE) .

compose-up: image ## the cluster in containers, with a real MySQL (DB=mariadb: with MariaDB; TLS=1: with TLS)
	@$(if $(TLS),COMPOSE_FILE=docker-compose.yml:compose/tls.yml) compose/up $(DB)

compose-demo: image ## the demo, in containers (DB=mariadb: with MariaDB)
	@DB_IMAGE=$$(compose/db-image $(DB)) && export DB_IMAGE && $(BIN)/conclave demo --on compose

compose-down: ## remove its containers, networks and volumes
	@compose/down

lint: $(TOOLS)/golangci-lint-$(LINT_VERSION) ## golangci-lint, built once into .tools/
	$(TOOLS)/golangci-lint-$(LINT_VERSION) run ./...
	cd client/conclavegrpc && $(TOOLS)/golangci-lint-$(LINT_VERSION) run ./...

generate: $(TOOLS)/generate-$(BUF_VERSION)-$(PROTOC_GO)-$(PROTOC_CONNECT) ## the protocol's Go code, from wire/v1/*.proto
	PATH='$(TOOLS)':"$$PATH" buf generate

bench: build ## the figures, n = 30 each, in under ten minutes; FULL=1: n >= 200 and the growth curves
	@$(BIN)/conclave bench $(if $(FULL),--repeat 200,)
	@$(if $(FULL),$(BIN)/conclave bench --full,:)

.PHONY: peers beside test-beside
peers: build ## the program with the clients of other registries, for `conclave bench --beside`
	cd testbed/bench/peers && $(GO) build -o '$(CURDIR)/$(BIN)/' .

beside: peers ## figures beside those of etcd, whose three nodes it starts on loopback: ETCD=PROGRAM (Debian: etcd-server), NACOS=PROGRAM too (r-nacos); ten minutes
	@DIR=$(BIN) testbed/bench/peers/with-peers $(BIN)/conclave bench --kill-peers

FUZZTIME ?= 20s
# A run that ends with its limit of time alone has found nothing: the go command
# sometimes reports that as a failure (golang/go#75804). An input that fails or hangs
# is always written to a file.
fuzz: ## every fuzz target for FUZZTIME (20s), two at a time
	@grep -roE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' . | sed 's|:func | |' | sort -u | GO='$(GO)' xargs -P 2 -n 2 .ci/fuzz $(FUZZTIME)

# The modules are read from the programs themselves, so the list is that of what was
# built. The image has nothing but four of these programs.
.PHONY: sbom
sbom: $(if $(IMAGE),,build) $(TOOLS)/cyclonedx-gomod-$(SBOM_VERSION) ## lists of the modules in each program, bin/sbom/*.cdx.json (CycloneDX); IMAGE=NAME: of the programs in that image
	@mkdir -p $(BIN)/sbom
	@set -e; from=$(BIN); \
	if [ -n '$(IMAGE)' ]; then \
	  from=$$(mktemp -d); trap 'rm -rf "$$from"' EXIT; \
	  container=$$(docker create '$(IMAGE)'); docker cp "$$container:/bin/." "$$from" >/dev/null; docker rm "$$container" >/dev/null; \
	fi; \
	for program in "$$from"/*; do \
	  [ -f "$$program" ] || continue; name=$$(basename "$$program"); \
	  '$(TOOLS)/cyclonedx-gomod-$(SBOM_VERSION)' bin -json -output "$(BIN)/sbom/$$name.cdx.json" -version '$(VERSION)' "$$program"; \
	  echo "$(BIN)/sbom/$$name.cdx.json: $$(grep -c '"purl"' "$(BIN)/sbom/$$name.cdx.json") modules"; \
	done

# Of a commit without changes, and of the tag VERSION once there are tags.
release: $(TOOLS)/cyclonedx-gomod-$(SBOM_VERSION) $(TOOLS)/nfpm-$(NFPM_VERSION) ## what users download, into bin/release/VERSION: VERSION=v0.1.0; archives, Debian packages, lists of modules, checksums
	@CYCLONEDX='$(TOOLS)/cyclonedx-gomod-$(SBOM_VERSION)' NFPM='$(TOOLS)/nfpm-$(NFPM_VERSION)' \
	  .ci/release '$(if $(filter command,$(origin VERSION)),$(VERSION))'

# Four programs with the embedded MySQL server, minutes when nothing is compiled: test-long plays
# it. The clones have no tags, so any version can be tried.
test-release: ## a release of the last commit, from clones in two folders: the same bytes, and its program works
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && \
	for clone in first second/clone; do \
	  git clone -q --no-tags . "$$work/$$clone" && $(MAKE) --no-print-directory -C "$$work/$$clone" TOOLS='$(TOOLS)' release VERSION=v0.0.0 || exit 1; \
	done && diff -r "$$work/first/bin/release" "$$work/second/clone/bin/release" && echo 'two clones, one release'

.PHONY: rename
rename: ## give the module another path: MODULE=github.com/you/conclave
	@.ci/rename '$(MODULE)'

.PHONY: model
model: ## the models of the election and the hand-over, by Spin: every property, every guard removed (FULL=1: larger bounds)
	@docs/model/run $(if $(FULL),full,)

cover: ## test coverage, by package and in total
	$(GO) test -coverprofile=cover.out -coverpkg=./... ./...
	@grep -v -e '\.pb\.go:' -e '\.connect\.go:' cover.out > cover.hand.out
	@$(GO) tool cover -func=cover.hand.out | tail -1

clean: ## remove what was built
	rm -rf $(BIN) $(TOOLS) cover.out cover.hand.out

# Tools are built from the module proxy under a name that carries their version.
$(TOOLS)/golangci-lint-$(LINT_VERSION):
	@mkdir -p $(TOOLS)
	GOBIN='$(TOOLS)' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv '$(TOOLS)/golangci-lint' $@

$(TOOLS)/cyclonedx-gomod-$(SBOM_VERSION):
	@mkdir -p $(TOOLS)
	GOBIN='$(TOOLS)' $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(SBOM_VERSION)
	@mv '$(TOOLS)/cyclonedx-gomod' $@

$(TOOLS)/generate-$(BUF_VERSION)-$(PROTOC_GO)-$(PROTOC_CONNECT):
	@mkdir -p $(TOOLS)
	GOBIN='$(TOOLS)' $(GO) install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)
	GOBIN='$(TOOLS)' $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GO)
	GOBIN='$(TOOLS)' $(GO) install connectrpc.com/connect/cmd/protoc-gen-connect-go@$(PROTOC_CONNECT)
	@touch $@

$(TOOLS)/nfpm-$(NFPM_VERSION):
	@mkdir -p $(TOOLS)
	GOBIN='$(TOOLS)' $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	@mv '$(TOOLS)/nfpm' $@
