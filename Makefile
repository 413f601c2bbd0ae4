# Every target does its own set-up: a virtual environment in .venv, made by any Python from 3.11 on.
#
#   make demo      resolve one URL of every scheme against the bundled servers and show what was sent
#   make check     format, lint, types, and the tests that need no server, no fault and no patience: seconds
#   make test      check format, lint and types, then run all tests
#   make test-all  run all tests with every Python from 3.11 on that is on this machine, then make test-lowest
#   make test-lowest  run all tests with the lowest dependencies that pyproject.toml allows
#   make coverage  lines and branches that some test runs; what it leaves tells make mutants which tests run a line
#   make mutants   what the tests notice of 300 changes to the sources (MUTANTS=N SEED=N), and what got through
#   make bench     measure beside other clients, in turn, under ten minutes: start-up, small and large bodies, saved files, trees, memory; count the calls of a fetch (ROWS="http tls" JSON=FILE ROUNDS=N)
#   make bench-long  what takes longer: trees that are far away, archives, segments, calls of threads, lists of very many with a ledger, long listings in a browser
#   make speed     measure all that docs/speed.md tells, and make its tables and pictures anew: a quarter of an hour on an idle machine
#   make plots     the same of the figures that are in docs/speed
#   make servers   unpack Debian's real servers for the tests into .servers (installs nothing)
#   make docs      the reference of the Python API, made of its docstrings, into build/reference
#   make sdist     the source distribution, into dist
#   make clean     remove what these targets made
#
# PYTHON=/path/to/python chooses the interpreter that .venv is made with.

.SUFFIXES:
.PHONY: demo check test test-all test-lowest coverage mutants bench bench-long speed plots servers docs sdist clean

PYTHON ?=
VENV = .venv
RUN = $(VENV)/bin/python
SOURCES = protocols resolver manual fixtures tests
# What mirrors the sources, and the rules of the house.
QUICK = tests/protocols tests/resolver tests/test_*.py
# One more than there are processors: many tests wait for a server.
WORKERS = $$($(RUN) -c 'import os; print((os.cpu_count() or 1) + 1)')

demo: $(VENV)/.installed
	@$(RUN) -m fixtures.demo

check: $(VENV)/.installed
	$(RUN) -m ruff format --check -q $(SOURCES)
	$(RUN) -m ruff check -q $(SOURCES)
	$(RUN) -m mypy
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -m 'not slow' $(QUICK)

test: $(VENV)/.installed
	$(RUN) -m ruff format --check $(SOURCES)
	$(RUN) -m ruff check $(SOURCES)
	$(RUN) -m mypy
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal

# A test that fails is told and does not keep the figures back. What is measured runs at half the speed.
coverage: $(VENV)/.installed
	$(RUN) -m coverage erase
	-$(RUN) -m coverage run -m pytest -q -n $(WORKERS) --dist worksteal
	$(RUN) -m coverage combine -q
	@$(RUN) -m coverage report

# Takes the better part of an hour, and is no part of any other target.
MUTANTS = 300
SEED =
mutants: $(VENV)/.installed
	[ -f .coverage ] || $(MAKE) coverage
	@$(RUN) -m tests.mutation --changes $(MUTANTS) $(if $(SEED),--seed $(SEED))

# An idle machine, please; under ten minutes with two processors.
ROWS =
ROUNDS =
JSON =
bench: $(VENV)/.bench
	@$(RUN) -m tests.benchmarks $(ROWS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json $(JSON))

bench-long: $(VENV)/.installed
	@$(RUN) -m tests.benchmarks saved-unsynced tree-nginx-far tree-vsftpd tree-vsftpd-far tree-proftpd tree-proftpd-far archive --rounds 3
	@$(RUN) -m tests.benchmarks.startup
	@$(RUN) -m tests.benchmarks.segments
	@$(RUN) -m tests.benchmarks.blocking
	@$(RUN) -m tests.benchmarks.calls
	@$(RUN) -m tests.benchmarks.ledger
	@$(RUN) -m tests.benchmarks.window

speed: $(VENV)/.plots $(VENV)/.bench
	@$(RUN) -m tests.benchmarks --json docs/speed/rows.json
	@$(RUN) -m tests.benchmarks.sweeps docs/speed/sweeps.json
	@$(MAKE) plots

plots: $(VENV)/.plots
	@$(RUN) -m tests.benchmarks.plots
	@$(RUN) -m tests.benchmarks.page

test-all: $(VENV)/.installed
	@$(RUN) -m tests.everywhere

test-lowest: $(VENV)/.installed
	@$(RUN) -m tests.everywhere lowest

# A warning is an error: a link that leads nowhere, a name that there is not, a parameter that nobody has.
docs: $(VENV)/.docs
	$(RUN) -m mkdocs build -q --strict -f docs/mkdocs.yml

sdist: $(VENV)/.installed
	$(RUN) -m hatchling build -t sdist

servers:
	tests/servers/unpack.sh

$(VENV)/.docs: $(VENV)/.installed
	$(RUN) -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@

# A peer of benchmarks alone: as an extra it would be in the lowest dependencies, too.
$(VENV)/.bench: $(VENV)/.installed
	$(RUN) -m pip install -q --disable-pip-version-check 'scrapy>=2.13'
	@touch $@

$(VENV)/.plots: $(VENV)/.installed
	$(RUN) -m pip install -q --disable-pip-version-check -e '.[plots]'
	@touch $@

clean:
	rm -rf $(VENV) .venvs .servers .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A candidate has to be new enough and to bring ensurepip, which Debian keeps in python3-venv.
$(VENV)/.installed: pyproject.toml
	@found=; old=; \
	for candidate in $(if $(PYTHON),'$(PYTHON)',python3.11 python3 python3.12 python3.13 python3.14 /usr/bin/python3); do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    old=$$candidate; \
	    "$$candidate" -c 'import ensurepip, venv; ensurepip.version()' 2>/dev/null || continue; \
	    found=$$candidate; break; \
	done; \
	if [ -z "$$found" ] && [ -n "$$old" ]; then \
	    echo "$$old cannot make a virtual environment: install its venv package (Debian: apt-get install python3-venv)" >&2; exit 1; \
	elif [ -z "$$found" ]; then \
	    echo "Python 3.11 or later is needed$(if $(PYTHON),: $(PYTHON) is not; , and none is on PATH; )set PYTHON=/path/to/python" >&2; exit 1; \
	fi; \
	[ -x $(RUN) ] && $(RUN) -c 'import pip' 2>/dev/null || "$$found" -m venv --clear $(VENV)
	$(RUN) -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@
