# `make` without a target lists all commands and these variables:
#
#   CPU=1, CPU=0    require torch's CPU build, or skip it:        make lab CPU=0
#   PYTHON=...      create the environment with this Python:      make lab PYTHON=python3.13
#   BENCH_FLAGS=... options for the benchmark:                    make bench BENCH_FLAGS=--help
#   LAB_FLAGS=...   options for JupyterLab:                       make lab LAB_FLAGS=--no-browser
#   N=...           number of the notebook:                       make notebook N=04
#   SEED=...        random seed of the tests:                     make test SEED=1
#   PINS_FLAGS=...  options for uv pip compile:                   make pins PINS_FLAGS=--upgrade
#   VENV=...        use an existing environment:                  make test VENV=$CONDA_PREFIX

PYTHON ?= python3
VENV ?= .venv
LAB_FLAGS ?=
PINS_FLAGS ?=
BENCH_FLAGS ?=
IMAGE ?= rope-kernels

# Tests run in several processes. Each needs memory, also on a GPU, so there are at most 8.
SHARED := -n auto --maxprocesses 8

# `make test` and `make test-all` share these commands. `make test` skips the solutions' notebooks,
# because the tests of answers check them, and the detours.
LINT = "$(VENV)"/bin/ruff check && "$(VENV)"/bin/ruff format --check && \
	"$(VENV)"/bin/lint-imports --no-logo
TESTS = "$(VENV)"/bin/python -m pytest tests --durations=10 $(SHARED) --dist worksteal \
	$(if $(SEED),--seed $(SEED))
NBVAL = "$(VENV)"/bin/python -m pytest --nbval $(SHARED) --dist loadscope

.DEFAULT_GOAL := help
.SILENT:
.PHONY: help environment pins lab test test-all mutants notebook notebooks listings hosted seven_kernels hugging_face bench record site docker_image clean

help: ## list all commands
	awk -F ':.*## ' '/^[a-z_-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile
	echo && sed -n 's/^#   //p' Makefile

environment: ## create or update .venv from constraints.txt
ifeq ($(VENV),.venv)
	command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) was not found: \
on Debian or Ubuntu, run 'sudo apt-get install $(notdir $(PYTHON) $(PYTHON)-venv)'." >&2; exit 1; }
	$(PYTHON) lab.py --environment $(WITH_SITE)
endif

lab: environment ## install everything, copy the notebooks to my_notebooks/ and open JupyterLab
	"$(VENV)"/bin/python lab.py --this-python $(LAB_FLAGS)

# uv keeps the versions in constraints.txt. It is pinned too, because lab.py installs it. The
# first line is added at the end, so that the file doesn't change if uv finds no solution.
pins: environment ## write constraints.txt from pyproject.toml (PINS_FLAGS=--upgrade: newest versions)
	echo uv | "$(VENV)"/bin/python -m uv pip compile pyproject.toml - --all-extras --universal \
		--python-version 3.11 --fork-strategy fewest --no-emit-index-url --no-annotate \
		--no-header --quiet --output-file constraints.txt $(PINS_FLAGS)
	{ echo "# Made by 'make pins' from pyproject.toml: one version of each package, on every system \
and Python."; cat constraints.txt; } >constraints.txt.new && mv constraints.txt.new constraints.txt

test: WHICH = -m "not slow"
test: BOOKS = notebooks --ignore=notebooks/solutions --ignore=notebooks/deeper
test: environment ## lint, tests that are not slow, notebooks 00 to 14

# If CI is set, Sphinx is installed and the site is built. Otherwise its tests may be skipped.
test-all: WITH_SITE = $(if $(CI),--site)
test-all: WHICH = --every
test-all: BOOKS = notebooks
test-all: environment ## lint, all tests with all cases, all notebooks

# If a step fails, an edited original notebook may be the cause. New outputs don't make a test
# fail, but git lists them too.
OR_EXPLAIN := || { git diff --exit-code --stat --relative -- 'notebooks/*.ipynb'; \
	[ $$? -ne 1 ] || echo "The original notebooks listed \
above differ from git, which may be the cause. To undo edits of originals, run 'git restore \
notebooks'; your own copies are in my_notebooks/."; exit 1; } >&2

test test-all:
	{ echo "1 of 3: format, lint and imports (some seconds)" && $(LINT) && \
	echo && echo "2 of 3: tests (5 to 16 minutes on two cores; the percentage counts tests)" && \
	$(TESTS) $(WHICH) && \
	echo && echo "3 of 3: notebooks, compared with their stored outputs (2 to 4 minutes)" && \
	$(NBVAL) $(BOOKS); } $(OR_EXPLAIN)

# A notebook with its detours and solutions. N=04_naive selects no detours.
OF_N = $(if $(N),$(wildcard notebooks/$(N)*.ipynb notebooks/*/$(N)*.ipynb))

notebook: environment ## run, store and check a notebook, its detours and solutions: make notebook N=04
	[ -n "$(OF_N)" ] || { echo "error: no notebook N=$(N). Give its number: make notebook N=04"; exit 1; }
	"$(VENV)"/bin/python -m rope_lab.run_notebooks $(OF_N)
	"$(VENV)"/bin/python -m pytest --nbval $(OF_N)

hosted: environment ## run each copy for Colab and Kaggle in an empty folder (20 minutes)
	"$(VENV)"/bin/python -m pytest tests/notebooks/test_hosted_copies.py --every

mutants: environment ## check that each deliberate bug makes a test fail (an hour)
	"$(VENV)"/bin/python tools/mutants.py

notebooks: environment ## run all notebooks and store their outputs (on a GPU also the measurements)
	"$(VENV)"/bin/python -m rope_lab.run_notebooks notebooks

listings: environment ## store compiler output of the notebooks' kernels, for macOS and Windows
	PATH="$(abspath $(VENV))/bin:$$PATH" "$(VENV)"/bin/python tools/listings.py

seven_kernels: environment ## write docs/seven_kernels.md and its pictures, from the rungs, records and checks
	"$(VENV)"/bin/python tools/seven_kernels.py

hugging_face: environment ## write tools/hugging_face.md: the functions that `patch` replaces
	"$(VENV)"/bin/python tools/hugging_face.py

bench: environment ## measure the kernels and those of other projects (needs a GPU)
	"$(VENV)"/bin/python -m benchmarks $(BENCH_FLAGS)

record: environment ## measure everything on a new GPU (half an hour)
	"$(VENV)"/bin/python -m benchmarks machine calls peers norm cache-limits norm-limits \
		rotation-limits models

site: WITH_SITE = --site
site: environment ## build the site into build/site (needs npm)
	"$(VENV)"/bin/python tools/make_site.py

docker_image: ## build the Docker image rope-kernels (CPU=1 for one without CUDA)
	docker build --build-arg CPU=$(CPU) --build-arg READER_ID=$(shell id -u) -t $(IMAGE) .

clean: ## remove .venv, builds and caches
	rm -rf .venv .site build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
