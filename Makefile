# Commands for development. Needs python3 (3.11 or newer), pip, git and make; everything else is installed into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# -qq: hides warnings about package locations; errors are still shown.
PIP    := $(BIN)/pip --disable-pip-version-check -qq
# Two workers: the suite is measured on two cores. `make test WORKERS=0` runs it in one process.
WORKERS ?= 2
# Where tests have their files: in memory, if 4 GB are free there. A disk takes milliseconds to remove each of them.
MEMORY := $(shell [ -w /dev/shm ] && df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
# -rfEs: list failures, and the reasons for skipped tests. Small chunks: slow tests are next to each other, and one worker
# would get all of them.
PYTEST  := $(if $(MEMORY),TMPDIR=$(MEMORY) )$(BIN)/pytest -q -rfEs -n $(WORKERS) --maxschedchunk 16

# Workers that order sets differently collect tests in different orders, and pytest ends the run. `make soak-tests` has
# the usual random order.
SAME_ORDER := PYTHONHASHSEED=0

# Compiled files are kept, whatever the user's own setting: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# Without this, pyright asks the network whether a newer version exists.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help audit test lint format demo pictures browser ray soak soak-board soak-tests mutants results bench clean
.DEFAULT_GOAL := help

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "everturn needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Install a newer one, or name it: make PYTHON=python3.12 test"; exit 1; }
	@echo "Setting up $(VENV) (once; again when requirements.txt or pyproject.toml changes) ..."
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

test: lint browser  ## run linters, type checks, import rules and all tests
	@echo "== pytest"
	@$(SAME_ORDER) $(PYTEST)

# pyright takes the longest and one core; the others use the second one meanwhile. Collecting finds tests that
# cannot be imported, and compiles them once for all workers.
lint: $(STAMP)  ## run ruff, pyright, import rules and the checks for unused code and broken tests
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@mkdir -p build
	@$(BIN)/pyright > build/pyright.txt 2>&1 & types=$$!; trap "kill $$types 2>/dev/null" INT TERM; bad=0; \
	echo "== import rules"; $(BIN)/lint-imports --no-cache --no-logo || bad=1; \
	echo "== unused code"; $(BIN)/python tests/architecture/unused_code.py || bad=1; \
	echo "== collecting tests"; $(BIN)/pytest -q --collect-only > build/collected.txt 2>&1 \
	  || { bad=1; tail -n 40 build/collected.txt; }; \
	wait $$types || bad=1; echo "== pyright"; cat build/pyright.txt; exit $$bad

format: $(STAMP)  ## fix and format the code with ruff
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Only what the commands need: a tenth of what the tests need.
$(VENV)/.commands: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "everturn needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Install a newer one, or name it: make PYTHON=python3.12 audit"; exit 1; }
	@[ -e $(STAMP) ] || { echo "Setting up $(VENV) (once; without the tools for tests) ..."; \
	  { [ -x $(BIN)/pip ] || $(PYTHON) -m venv --clear $(VENV); } && \
	  $(PIP) install -c requirements.txt --editable '.[dashboard,chat]'; }
	@touch $@

audit: $(VENV)/.commands  ## show what your own sessions cost, and why
	@$(BIN)/everturn audit

# Five policies, and a bound that no program can reach.
DEMO_POLICIES := none,recorded,claude-code,economic,clear-keep-3,clears-only

demo: $(STAMP)  ## show what fills the context of a bundled session, and its cost under five policies
	@$(BIN)/everturn context examples/session.jsonl
	@mkdir -p build
	@$(BIN)/everturn replay examples/session.jsonl --policy $(DEMO_POLICIES) --summary-model $(SUMMARY_MODEL) \
	  --cache build/replays --html build/replay.html
	@echo; echo "The same as a page: build/replay.html"

pictures: demo browser  ## update the pictures in the README
	@$(BIN)/everturn context examples/session.jsonl --svg docs/pictures/context.svg
	@chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking \
	  --user-data-dir=build/chromium --window-size=1280,905 --screenshot=docs/pictures/replay.png \
	  "file://$(CURDIR)/build/replay.html" 2>/dev/null
	@PYTHONPATH=tests $(BIN)/python -m web_dashboard.pictures docs/pictures
	@PYTHONPATH=tests $(BIN)/python -m pictures.recording docs/pictures/chat.svg
	@PYTHONPATH=tests $(BIN)/python -m pictures.results docs/results.md docs/pictures/results.svg
	@ls -l docs/pictures

# The page is tested in a browser and the chat in a terminal, if they are installed. Installing them is tried once; if it
# fails, those tests are skipped. BROWSER=no never tries.
BROWSER ?= yes
# Checks pages for people who use a keyboard or a screen reader. Only a test uses it; its checksum is in that test.
AXE     := 4.14.0
browser: $(STAMP)  ## install chromium and tmux for the tests, if possible
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
	  && command -v tmux >/dev/null || [ "$(BROWSER)" = no ] || [ -e $(VENV)/.no-browser ] || { \
	  echo "== chromium and tmux, for tests of the page and the chat (once; BROWSER=no skips this)"; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    install="timeout 180 apt-get -qq install -y --no-install-recommends tmux chromium fonts-dejavu-core"; \
	    $$install >/dev/null 2>&1 </dev/null \
	      || { timeout 60 apt-get -qq update && $$install; } >/dev/null 2>&1 </dev/null || true; fi; \
	  for each in chromium tmux; do command -v $$each >/dev/null || { touch $(VENV)/.no-browser; \
	    echo "$$each is not installed and could not be installed: the tests that need it are skipped."; }; done; }
	@[ -e build/axe-core-$(AXE)/package ] || [ "$(BROWSER)" = no ] || ! command -v npm >/dev/null || { \
	  mkdir -p build/axe-core-$(AXE) && cd build/axe-core-$(AXE) && timeout 60 npm pack --silent axe-core@$(AXE) >/dev/null 2>&1 \
	  && tar xzf axe-core-$(AXE).tgz; } || echo "axe-core could not be fetched: the test that needs it is skipped."

# Ray is large (280 MB) and only needed on clusters, so it is not installed by default.
ray: $(STAMP)  ## install Ray, for `everturn replay --engine ray`
	@$(PIP) install ray==2.60.0

# MINUTES=10 or TRIALS=100000 (conversations; the other kinds in proportion), KIND=kills, SEED=7 (by default a fresh
# one), WORKERS=2. Runs on the same source add up.
soak: $(STAMP)  ## run random trials for MINUTES or TRIALS and print the results (docs/reliability.md)
	@PYTHONPATH=tests $(BIN)/python -m reliability.soak --workers $(WORKERS) \
	  --date "$$(date -u +%F)" --commit "$$(git rev-parse --short HEAD 2>/dev/null)" \
	  $(if $(KIND),--kind $(KIND)) $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(if $(TRIALS),--trials $(TRIALS)) $(if $(SEED),--seed $(SEED))

soak-board: $(STAMP)  ## write the sum of all soaks of this source into docs/reliability.md, and keep them in docs/soak
	@PYTHONPATH=tests $(BIN)/python -m reliability.board

soak-tests: $(STAMP)  ## run all tests with a hundred times more random examples
	@EVERTURN_PROFILE=soak $(PYTEST)

# Installs Claude Code's CLI from npm into build/claude-code. MINUTES=60 repeats rounds with other jobs; SEED is the first.
.PHONY: clients-twin
clients-twin: $(STAMP)  ## give Claude Code small jobs against the twin, and report what it changed
	@PYTHONPATH=tests $(BIN)/python -m clients.claude_code \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

# Installs the clients from npm and PyPI into build/clients. CLIENT=aider runs one of them and writes nothing;
# MODEL=claude-opus-5-5 uses another model.
.PHONY: clients
clients: $(STAMP)  ## run real clients directly, observed and managed against the twin; updates docs/clients.md
	@PYTHONPATH=tests $(BIN)/python -m clients.compare $(if $(CLIENT),--only "$(CLIENT)",--into docs/clients.md) \
	  $(if $(MODEL),--model $(MODEL))

# SEED=7 (by default a fresh one), TRIALS=200, PACKAGE=decide, INTO=docs/testing.md writes the table into that page.
mutants: $(STAMP)  ## change the pure packages at random and count what the tests notice (docs/testing.md)
	@PYTHONPATH=tests nice -n 19 $(BIN)/python -m mutation.run $(if $(SEED),--seed $(SEED)) \
	  $(if $(TRIALS),--trials $(TRIALS)) $(if $(PACKAGE),--package $(PACKAGE)) $(if $(INTO),--into $(INTO))

DATA ?= ../shared/data
OTHERS := aider codex gemini-cli pi swe tau-bench
SWITCHED := $(foreach policy,none recorded claude-code summarize-85,$(policy) $(policy)+1h $(policy)+refresh $(policy)+refresh-blind)
empty :=
comma := ,

SUMMARY_MODEL := claude-haiku-4-5
# `economic` has a table of its own, with a summary model.
OTHER_POLICIES := none,recorded,claude-code,when-cold,clear-keep-3,masking,sliding-window,summarize-85,clears-only
results: $(STAMP)  ## update the tables in docs/results.md from the recorded sessions in DATA
	@$(BIN)/everturn replay $(DATA)/claude-code --into docs/results.md claude-code > /dev/null \
	  --policy $(OTHER_POLICIES)
	@$(BIN)/everturn replay $(DATA)/claude-code --into docs/results.md economic > /dev/null \
	  --policy recorded,claude-code,economic,economic+careful,economic+frugal --summary-model $(SUMMARY_MODEL)
	@$(BIN)/everturn replay $(DATA)/claude-code --into docs/results.md lifetimes > /dev/null \
	  --policy $(subst $(empty) $(empty),$(comma),$(SWITCHED))
	@$(BIN)/everturn replay $(addprefix $(DATA)/,$(OTHERS)) --model claude-sonnet-4-5 --into docs/results.md others > /dev/null \
	  --policy $(OTHER_POLICIES)
	@PYTHONPATH=tests $(BIN)/python -m pictures.results docs/results.md docs/pictures/results.svg

bench: $(STAMP)  ## run every benchmark in bench/
	@set -e; for file in bench/[a-z]*.py; do \
	  [ -e "$$file" ] || { echo "no benchmarks in bench/ yet"; break; }; \
	  echo "== $$file"; $(BIN)/python "$$file"; done

# SECONDS=120 for each number of CLIENTS=8,64.
.PHONY: bench-gateway
bench-gateway: $(STAMP)  ## put 1,000 conversations through a relay and through gateways, and compare
	@$(BIN)/python bench/gateway_load.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(CLIENTS),--clients $(CLIENTS))

# The other libraries are large and need different versions of the same packages: each is installed into its own
# environment below build/peers. One that cannot be installed or run is listed in the tables with the reason. PART: turn, dollars, compaction, or all.
# PEERS_ARGS passes on more: `--peer langchain` for one of them, `--count 0` for all recorded sessions.
PART       ?= all
PEERS_ARGS ?= --into docs/peers.md

.PHONY: bench-peers
bench-peers: $(STAMP)  ## compare with other libraries on the same conversations; updates docs/peers.md
	@PYTHONPATH=bench $(BIN)/python -m peers.install
	@PYTHONPATH=bench $(BIN)/python -m peers --part $(PART) --data $(DATA) $(PEERS_ARGS)

clean:  ## remove .venv, build output and caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
