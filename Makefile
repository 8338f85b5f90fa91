# Everything a newcomer runs. Needs python3 (3.11 or newer), pip, git and make; the rest comes into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# -qq: warnings about this machine's package locations are noise, errors still show.
PIP    := $(BIN)/pip --disable-pip-version-check -qq
# Two workers: the suite is measured on two cores. `make test WORKERS=0` runs it in one process.
WORKERS ?= 2
# -rfEs: name what failed, and say why something was skipped. Small portions: slow tests stand beside each other, and
# one worker would get all of them.
PYTEST  := $(BIN)/pytest -q -rfEs -n $(WORKERS) --maxschedchunk 16

# pyright asks the network whether a newer version exists, unless told not to.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help test lint format demo pictures browser ray soak soak-board soak-tests results bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "everturn needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Install a newer one, or name it: make PYTHON=python3.12 test"; exit 1; }
	@echo "Setting up $(VENV) (once; again when requirements.txt or pyproject.toml changes) ..."
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

test: lint browser  ## linters, types, import contracts, then all tests
	@echo "== pytest"
	@$(PYTEST)

lint: $(STAMP)  ## ruff, pyright and the import contracts, without the tests
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== pyright"
	@$(BIN)/pyright
	@echo "== import contracts"
	@$(BIN)/lint-imports --no-cache --no-logo

format: $(STAMP)  ## let ruff fix and format what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Five policies, and the oracle as a bound.
DEMO_POLICIES := none,recorded,claude-code,frugal,clear-keep-3,oracle

demo: $(STAMP)  ## the bundled session: what fills its context, and what other policies had made of it
	@$(BIN)/everturn context examples/session.jsonl
	@mkdir -p build
	@$(BIN)/everturn replay examples/session.jsonl --policy $(DEMO_POLICIES) --cache build/replays --html build/replay.html
	@echo; echo "The same as a page to look at: build/replay.html"

pictures: demo browser  ## make the pictures of the README anew
	@$(BIN)/everturn context examples/session.jsonl --svg docs/pictures/context.svg
	@chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking \
	  --user-data-dir=build/chromium --window-size=1280,905 --screenshot=docs/pictures/replay.png \
	  "file://$(CURDIR)/build/replay.html" 2>/dev/null
	@ls -l docs/pictures

# The page is tested in a real browser and the chat in a real terminal, where there are such. Asked for once: who has
# none, and may not install one, is told so, and those tests are skipped. BROWSER=no never asks.
BROWSER ?= yes
browser: $(STAMP)  ## install chromium and tmux for the tests, where that is possible
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
	  && command -v tmux >/dev/null || [ "$(BROWSER)" = no ] || [ -e $(VENV)/.no-browser ] || { \
	  echo "== chromium and tmux, for tests of the page and the chat (once; BROWSER=no leaves them out)"; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    install="timeout 180 apt-get -qq install -y --no-install-recommends tmux chromium fonts-dejavu-core"; \
	    $$install >/dev/null 2>&1 </dev/null \
	      || { timeout 60 apt-get -qq update && $$install; } >/dev/null 2>&1 </dev/null || true; fi; \
	  for each in chromium tmux; do command -v $$each >/dev/null || { touch $(VENV)/.no-browser; \
	    echo "No $$each, and it could not be installed here: the tests that need it are skipped."; }; done; }

# Ray is large (280 MB) and only for clusters, so it is not installed with the rest.
ray: $(STAMP)  ## install Ray, to test and use `--engine ray`
	@$(PIP) install ray==2.60.0

# MINUTES=10 or TRIALS=100000 (conversations; the other kinds in proportion), KIND=kills, SEED=7, WORKERS=2.
soak: $(STAMP)  ## trials by chance for as long as asked, and their scoreboard (docs/reliability.md)
	@PYTHONPATH=tests $(BIN)/python -m reliability.soak --workers $(WORKERS) \
	  --date "$$(date -u +%F)" --commit "$$(git rev-parse --short HEAD 2>/dev/null)" \
	  $(if $(KIND),--kind $(KIND)) $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(if $(TRIALS),--trials $(TRIALS)) $(if $(SEED),--seed $(SEED))

soak-board: $(STAMP)  ## write the scoreboard of the last soak into docs/reliability.md
	@PYTHONPATH=tests $(BIN)/python -m reliability.board

soak-tests: $(STAMP)  ## all tests, with a hundred times more random examples
	@EVERTURN_PROFILE=soak $(PYTEST)

DATA ?= ../shared/data
OTHERS := aider codex gemini-cli pi swe tau-bench
SWITCHED := $(foreach policy,none recorded claude-code summarize-85,$(policy) $(policy)+1h $(policy)+refresh $(policy)+refresh-blind)
empty :=
comma := ,

results: $(STAMP)  ## make the tables of docs/results.md anew from the recorded sessions in DATA
	@$(BIN)/everturn replay $(DATA)/claude-code --into docs/results.md claude-code > /dev/null
	@$(BIN)/everturn replay $(DATA)/claude-code --into docs/results.md lifetimes > /dev/null \
	  --policy $(subst $(empty) $(empty),$(comma),$(SWITCHED))
	@$(BIN)/everturn replay $(addprefix $(DATA)/,$(OTHERS)) --model claude-sonnet-4-5 --into docs/results.md others > /dev/null

bench: $(STAMP)  ## every benchmark in bench/, one after the other
	@set -e; for file in bench/[a-z]*.py; do \
	  [ -e "$$file" ] || { echo "no benchmarks in bench/ yet"; break; }; \
	  echo "== $$file"; $(BIN)/python "$$file"; done

# Peers are heavy, and do not agree on versions: each has an environment of its own below build/peers. One that
# cannot be installed or driven is listed in the tables with the reason. PART: turn, dollars, compaction, or all.
# PEERS_ARGS passes on more: `--peer langchain` for one of them, `--count 0` for all recorded sessions.
PART       ?= all
PEERS_ARGS ?= --into docs/peers.md

.PHONY: bench-peers
bench-peers: $(STAMP)  ## turns, dollars and compactions beside the peers, on the same conversations; writes docs/peers.md
	@PYTHONPATH=bench $(BIN)/python -m peers.install
	@PYTHONPATH=bench $(BIN)/python -m peers --part $(PART) --data $(DATA) $(PEERS_ARGS)

clean:  ## remove .venv, build output and caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
