# Every target does its own set-up, in a virtual environment that any Python from 3.11 on makes.
#
#   make installed   the set-up of make test alone, for machines that have no network afterwards
#   make demo        resolve one URL of every scheme against the bundled servers, and show what was sent
#   make check       format, lint, types and the tests of the protocols: under 40 s from the second time on
#   make test        the gate: format, lint, types, and the tests that decide whether a change lands
#   make test-full   all tests, all their rows, fuzz at length, with a seed of its own (SEED=N: that one again)
#   make test-all    the gate with every Python from 3.11 on that is on this machine, then with LOWEST=1
#   make coverage    lines and branches that some test runs; what it leaves tells make mutants which tests run a line
#   make fuzz        search inputs that break a parser, guided by coverage (MINUTES=10 for each, NAMES="ftp url")
#   make test-guests  the test suites of requests, httpx, fsspec, Airflow and pywb with the adapters; needs a network (GUESTS="requests httpx")
#   make mutants     what the tests notice of 300 changes to the sources (MUTANTS=N SEED=N, GATE=1: of the gate alone), and what got through
#   make world       run schedules of faults in a simulated world (RUNS=N SEED=N LOOP=asyncio SCENARIO=cancel, warc, tls or udp); a failure prints its seed and its faults
#   make bench       measure beside other clients, in turn, under ten minutes: start-up, small and large bodies, saved files, trees, memory; count the calls of a fetch (ROWS="http tls" JSON=FILE ROUNDS=N)
#   make bench-long  what takes longer: trees that are far away, archives, segments, calls of threads, lists of very many with a ledger, long listings in a browser
#   make speed       measure all that docs/explanation/benchmarks.md tells, and make its tables and pictures anew: a quarter of an hour on an idle machine
#   make plots       the same of the figures that are in docs/explanation/benchmarks
#   make servers     unpack Debian's real servers for the tests into .servers (installs nothing)
#   make docs        build the site of the documentation into build/docs; a warning is an error
#   make reference   the pages docs/reference/commands, rules and exit-statuses.md, made of the tables of the command
#   make api-diff    breaking changes of the public API since the last tag v*
#   make sdist       the source distribution, into dist
#   make clean       remove what these targets made
#
# PYTHON=/path/to/python chooses the interpreter that makes the environment; LOWEST=1 installs the lowest
# dependencies that pyproject.toml allows, in an environment beside the other one.

.SUFFIXES:
.PHONY: installed demo check test test-full test-all test-guests coverage fuzz mutants world bench bench-long speed plots servers docs reference api-diff sdist clean

PYTHON ?=
LOWEST =
VENV = $(if $(LOWEST),.venv-lowest,.venv)
RUN = $(VENV)/bin/python
PIP = -m pip install -q --disable-pip-version-check
SOURCES = protocols resolver manual fixtures bench tests tools docs/conf.py packaging/snakemake
# One more than there are processors: many tests wait for a server.
WORKERS = $$($(RUN) -c 'import os; print((os.cpu_count() or 1) + 1)')
LINT = $(RUN) -m ruff format --check -q $(SOURCES) && $(RUN) -m ruff check -q $(SOURCES) && $(RUN) -m codespell_lib $(SOURCES) docs *.md
PYTEST = -m pytest -q -n $(WORKERS) --dist worksteal

demo: .demo/.installed
	@.demo/bin/python -m fixtures.demo

check: $(VENV)/.installed
	@began=$$(date +%s); set -e; \
	echo "check: format and lint"; \
	$(LINT) || exit 1; \
	echo "check: types (the first time a minute, then what changed)"; \
	$(RUN) -m mypy; \
	echo "check: tests/protocols"; \
	$(RUN) $(PYTEST) --gate tests/protocols; \
	echo "check: passed in $$(($$(date +%s) - began)) s; make test runs the other tests"

# The types are looked at beside the tests. With the lowest dependencies there are none: their stubs are older.
test: $(VENV)/.installed
	$(LINT)
	@mkdir -p build; typed=0; \
	$(if $(LOWEST),,$(RUN) -m mypy >build/types.txt 2>&1 & types=$$!;) \
	$(RUN) $(PYTEST) --gate; tested=$$?; \
	$(if $(LOWEST),,wait $$types; typed=$$?; cat build/types.txt;) \
	[ $$tested = 0 ] && [ $$typed = 0 ]

SEED =
test-full: $(VENV)/.full
	@seed=$(or $(SEED),$$(date +%s)); echo "seed $$seed (make test-full SEED=$$seed tries the same again)"; \
	RESOLVE_TESTS=full RESOLVE_SEED=$$seed FTP_FUZZ=40000 GOPHER_FUZZ=200 PROSPERO_FUZZ=8000 TELNET_FUZZ=15000 WAIS_FUZZ=10000 \
	$(RUN) $(PYTEST) --hypothesis-seed=$$seed

# The environments and the sources are in build/guests. The table tools/guests/guests.toml has the budgets.
GUESTS =
test-guests: $(VENV)/.installed
	@$(RUN) -m tools.guests $(GUESTS)

# A test that fails is told and does not keep the figures back. What is measured runs at half the speed.
coverage: $(VENV)/.full
	$(RUN) -m coverage erase
	-$(RUN) -m coverage run $(PYTEST)
	$(RUN) -m coverage combine -q
	@$(RUN) -m coverage report

# Each harness in its turn; an input that fails ends the target, and is in build/fuzz.
MINUTES = 10
NAMES =
fuzz: $(VENV)/.fuzz
	@mkdir -p build/fuzz; for name in $(or $(NAMES),$$($(RUN) -m tests.fuzz)); do \
	    echo "== $$name"; \
	    $(RUN) -m tests.fuzz $$name -max_total_time=$$(($(MINUTES) * 60)) -timeout=10 -rss_limit_mb=2000 -max_len=4096 \
	        -verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/$$name- || exit 1; \
	done

# Takes the better part of an hour, and is no part of any other target.
MUTANTS = 300
GATE =
mutants: $(VENV)/.full
	[ -f .coverage ] || $(MAKE) coverage
	@$(RUN) -m tools.mutation --changes $(MUTANTS) $(if $(GATE),--gate) $(if $(SEED),--seed $(SEED))

RUNS = 1000
LOOP = trio
SCENARIO = save
world: $(VENV)/.installed
	@$(RUN) -m tests.world --runs $(RUNS) --seed $(or $(SEED),0) --loop $(LOOP) --scenario $(SCENARIO)

# An idle machine, please; under ten minutes with two processors.
ROWS =
ROUNDS =
JSON =
bench: $(VENV)/.bench
	@$(RUN) -m bench $(ROWS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json $(JSON))

bench-long: $(VENV)/.bench
	@$(RUN) -m bench saved-unsynced list cat-ftp-far tree-nginx-far tree-vsftpd tree-vsftpd-far tree-proftpd tree-proftpd-far archive --rounds 3
	@$(RUN) -m bench.startup
	@$(RUN) -m bench.segments
	@$(RUN) -m bench.blocking
	@$(RUN) -m bench.calls
	@$(RUN) -m bench.ledger
	@$(RUN) -m bench.window

speed: $(VENV)/.plots $(VENV)/.bench
	@$(RUN) -m bench --json docs/explanation/benchmarks/rows.json
	@$(RUN) -m bench.sweeps docs/explanation/benchmarks/sweeps.json
	@$(MAKE) plots

plots: $(VENV)/.plots
	@$(RUN) -m bench.plots
	@$(RUN) -m bench.page

test-all:
	@set -e; for python in $$($(or $(PYTHON),python3) -m tests.everywhere); do \
	    echo "== $$python"; $(MAKE) --no-print-directory PYTHON="$$python" VENV=.venvs/"$$(echo "$$python" | tr / _)" test; \
	done; $(MAKE) --no-print-directory LOWEST=1 test

# Warnings are broken links, pages outside the contents, unknown names, and docstrings that are not valid markup.
# -E reads every page: a page that Sphinx skips repeats no warning.
docs: $(VENV)/.docs
	$(RUN) -m sphinx -E -q -W --keep-going -n -d build/doctrees docs build/docs

api-diff: $(VENV)/.release
	@$(RUN) -m tools.api_diff

reference: $(VENV)/.installed
	$(RUN) -m manual.reference

sdist: $(VENV)/.installed
	$(RUN) -m hatchling build -t sdist

servers:
	tests/servers/unpack.sh

# Groups of dependencies, each in its turn into the same environment. urllib3.future, which niquests needs, replaces
# urllib3 unless it is built from its source with this variable.
$(VENV)/.full $(VENV)/.bench $(VENV)/.plots $(VENV)/.docs $(VENV)/.fuzz $(VENV)/.release: $(VENV)/.%: $(VENV)/.installed
	$(RUN) tools/requirements.py $(if $(LOWEST),--lowest) $* >$(VENV)/$*.txt
	URLLIB3_NO_OVERRIDE=1 $(RUN) $(PIP) --no-binary urllib3-future -r $(VENV)/$*.txt
	@touch $@

clean:
	rm -rf .venv .venv-lowest .venvs .demo .servers .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The interpreter that makes an environment has to be new enough and to bring ensurepip, which Debian keeps in
# python3-venv. $(call environment,FOLDER) makes one there, unless one with pip is there. Without pyvenv.cfg, the
# Python of a folder installs into the Python that it is a link to.
define environment
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
	[ -f $(1)/pyvenv.cfg ] && $(1)/bin/python -c 'import pip' 2>/dev/null || "$$found" -m venv --clear $(1)
endef

installed: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml tools/requirements.py
	$(call environment,$(VENV))
	@echo "installing what make test needs into $(VENV) (about 300 MB, once)"
	@$(RUN) tools/requirements.py $(if $(LOWEST),--lowest) lint test >$(VENV)/test.txt
	$(RUN) $(PIP) -e . -r $(VENV)/test.txt
	@touch $@

.demo/.installed: pyproject.toml
	@echo "demo: installing the package and trustme into .demo (about 60 MB, once)"
	$(call environment,.demo)
	@.demo/bin/python $(PIP) -e . trustme
	@touch $@
