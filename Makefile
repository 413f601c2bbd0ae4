# Every target does its own set-up: a virtual environment in .venv, made by any Python from 3.11 on.
#
#   make demo      resolve one URL of every scheme against the bundled servers and show what was sent
#   make test      check format, lint and types, then run the tests
#   make bench     measure start-up, and small http bodies, news, small ftp files and a large file beside other clients
#   make servers   unpack Debian's real servers for the tests into .servers (installs nothing)
#   make clean     remove what these targets made
#
# PYTHON=/path/to/python chooses the interpreter that .venv is made with.

.SUFFIXES:
.PHONY: demo test bench servers clean

PYTHON ?=
VENV = .venv
RUN = $(VENV)/bin/python
SOURCES = protocols resolver fixtures tests
# One more than there are processors: many tests wait for a server. They also start many a Python of their own,
# which should not have to compile everything again.
WORKERS = $$($(RUN) -c 'import os; print((os.cpu_count() or 1) + 1)')

demo: $(VENV)/.installed
	@$(RUN) -m fixtures.demo

test: $(VENV)/.installed
	$(RUN) -m ruff format --check $(SOURCES)
	$(RUN) -m ruff check $(SOURCES)
	$(RUN) -m mypy
	PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -q -n $(WORKERS) --dist worksteal

bench: $(VENV)/.installed
	@$(RUN) -m tests.benchmarks.startup
	@$(RUN) -m tests.benchmarks.http
	@$(RUN) -m tests.benchmarks.news
	@$(RUN) -m tests.benchmarks.ftp
	@$(RUN) -m tests.benchmarks.bulk

servers:
	tests/servers/unpack.sh

clean:
	rm -rf $(VENV) .servers .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
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
