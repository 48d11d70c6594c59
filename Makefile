# The one place that says how to do things here. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(or $(shell command -v python3.11),$(shell command -v python3))
TORCH ?= auto
PORT ?= 8080
CLOUD_PORT ?= 5000
PROFILE ?= local
SUITE ?= smoke
REPEATS ?= 3
EXAMPLE_JOBS := job_container/own_jobs/thumbnails/job.tfvars
BIN := .venv/bin
DEPLOYMENT = --profile $(PROFILE) --port $(PORT) --cloud-port $(CLOUD_PORT)
# Each run tells where its time went. Workers whose threads wait for each other's would wait for the
# other workers, too.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -p tests.cost --dist loadfile
# One of three mostly waits for Airflow, so that two cores have enough to do; of the rest, two, the
# other for Terraform.
SIDE_BY_SIDE := --numprocesses 3 --no-loadscope-reorder
SHORT := not (monte_carlo or full_matrix or thirty_runs or airflow_ui)
ONE_RUN := tests/e2e/test_main_job.py tests/e2e/test_regressions.py tests/browser/test_report_page.py
# Hundreds of processes import the same modules; without bytecode files each would compile them again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPATH := $(CURDIR):$(CURDIR)/plugins:$(CURDIR)/job_container

AWS_CHECK = $(if $(REGION),--region "$(REGION)") $(if $(BUDGET),--budget "$(BUDGET)") $(if $(IMAGE),--image "$(IMAGE)") $(if $(WITH),--with "$(WITH)") \
	$(if $(filter yes,$(RESUME)),--resume) $(if $(filter yes,$(DESTROY)),--destroy) \
	$(if $(filter yes,$(KEEP)),--keep) $(if $(filter yes,$(YES)),--yes)

# What torch's CUDA build asks for; its CPU build asks for none of it.
CUDA_PACKAGES := cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti \
	nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand \
	nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink \
	nvidia-nvshmem-cu13 nvidia-nvtx triton
CHECKOV := build/checkov/bin/checkov
OTAVA := build/otava/bin/otava
MWAA := build/mwaa/bin/pytest
MWAA_PYTHON := python3.12
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --annotation-style line --generate-hashes
COMPILE_FOR_IMAGE = $(subst --universal,--python-platform x86_64-manylinux_2_28,$(COMPILE))

THUMBNAILS := job_container/own_jobs/thumbnails
DOCKERFILES := containers/Dockerfile job_container/Dockerfile $(THUMBNAILS)/Dockerfile $(wildcard tests/containers/bases/*/Dockerfile)
SCRIPTS := $(wildcard job_container/*.sh job_container/own_jobs/examples/*.sh containers/*.sh \
	plugins/batchmark/runs/own_jobs/*.sh tests/containers/bases/*/*.sh)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use it

.PHONY: install
install: ## Everything into .venv (1 to 4 minutes; nothing to do when it is up to date)
	@test -n "$(PYTHON)" || { echo "Python 3.11 is needed but not on the PATH: install it, or set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) laptop/install.py --torch $(TORCH)

.PHONY: terraform-there
terraform-there:
	@command -v terraform >/dev/null || { echo "Terraform 1.11 or newer is needed but not on the PATH: install it first" >&2; exit 1; }

.PHONY: demo
demo: terraform-there install ## The whole chain once, on this machine: table, build/demo/report.html (3 to 5 minutes)
	@exec $(BIN)/python -m laptop demo --suite $(SUITE)

.PHONY: demo-sharing
demo-sharing: terraform-there install ## Tasks that share a device, on this machine's CPU: curves, build/demo-sharing/report.html (3 to 5 minutes)
	@exec $(BIN)/python -m laptop demo-sharing

.PHONY: demo-distributed
demo-distributed: terraform-there install ## Training on one and two nodes with a file system of its own, on this machine's CPU: build/demo-distributed/report.html (5 to 10 minutes)
	@exec $(BIN)/python -m laptop demo-distributed

.PHONY: try-job
try-job: terraform-there install ## Your own job, its command on this machine, or its image with ENGINE=yes: build/try-job/report.html (3 to 7 minutes for the example; JOBS=FILE, JOB=NAME, REPEATS=3, TARGET=c5.2xlarge for that one alone; COMMIT=3f2a91c, shown with the run; WATCH=5 runs it five times and shows the trend; BASELINE=FILE compares with that version of the job, BASELINE_COMMIT=8ab0c11)
	@exec $(BIN)/python -m laptop try-job --jobs "$(or $(JOBS),$(EXAMPLE_JOBS))" $(if $(JOB),--job "$(JOB)") --repeats $(REPEATS) $(if $(TARGET),--target "$(TARGET)") $(if $(COMMIT),--commit "$(COMMIT)") $(if $(BASELINE),--baseline "$(BASELINE)") $(if $(BASELINE_COMMIT),--baseline-commit "$(BASELINE_COMMIT)") $(if $(WATCH),--watch "$(WATCH)") $(if $(filter yes,$(ENGINE)),--engine)

.PHONY: sample
sample: install ## The sample installation alone, as the demo leaves it: a year, made up, in build/sample/index.html (half a minute)
	@echo "sample: writing a year of pages (about half a minute)"
	@$(BIN)/python -W ignore -m sample build/sample

.PHONY: up
up: terraform-there install ## Start the Airflow UI and the local cloud and leave them running (PORT=8080, JOBS=FILE with your own jobs)
	@exec $(BIN)/python -m laptop up --port $(PORT) $(if $(JOBS),--jobs "$(JOBS)")

.PHONY: down
down: ## Stop what `make up` started; runs and results stay for the next `make up` (STATE=delete drops them)
	@test -x $(BIN)/python || { echo "nothing is installed here, so nothing is running"; exit 0; }; exec $(BIN)/python -m laptop down $(if $(STATE),--state $(STATE))

.PHONY: containers-up
containers-up: install ## All as containers: Airflow on Postgres, and the local cloud or AWS (PROFILE=aws, PORT=8080, BUILD=no)
	@exec $(BIN)/python -m laptop containers-up $(DEPLOYMENT) $(if $(filter no,$(BUILD)),--no-build)

.PHONY: containers-down
containers-down: install ## Stop and remove the containers; runs and results stay (VOLUMES=delete drops them)
	@exec $(BIN)/python -m laptop containers-down $(DEPLOYMENT) $(if $(VOLUMES),--volumes $(VOLUMES))

.PHONY: containers-backup
containers-backup: install ## Save Airflow's database and the local bucket into a new folder (TO=...)
	@exec $(BIN)/python -m laptop containers-backup $(DEPLOYMENT) --to "$(or $(TO),$(error TO= names the new folder))"

.PHONY: containers-restore
containers-restore: install ## Put a backup back in the place of what is there (FROM=...)
	@exec $(BIN)/python -m laptop containers-restore $(DEPLOYMENT) --from "$(or $(FROM),$(error FROM= names the folder))"

.PHONY: image
image: ## Build the job image and push it to the applied stack's ECR repository (needs Docker and the AWS CLI)
	@job_container/publish.sh

.PHONY: aws-check
aws-check: terraform-there install ## The first apply in your AWS account: says what it makes and costs, asks, tries all of it, destroys it, leaves a page to send (1 to 2 hours; AWS_PROFILE=NAME, REGION=us-east-1, BUDGET=2, IMAGE=..., WITH=sharing,multi_node,eks, RESUME=yes, DESTROY=yes, KEEP=yes, YES=yes)
	@exec $(BIN)/python -m laptop aws-check $(AWS_CHECK)

.PHONY: prices
prices: install ## Ask AWS for today's prices, with your credentials, or FROM=index.csv, its price list, without; rewrite the committed table (REGION=us-east-1, TYPES="g6e.xlarge ...")
	$(BIN)/python -m batchmark.aws.price_list $(REGION:%=--region %) $(if $(FROM),--from "$(FROM)") $(TYPES)

.PHONY: plugins-zip
plugins-zip: install ## plugins/ as the archive that MWAA takes: build/plugins.zip
	@rm -rf build/plugins build/plugins.zip && cp -rp plugins build/plugins
	@mkdir build/plugins/batchmark_job && cp -rp job_container/batchmark_job/{__init__.py,result} build/plugins/batchmark_job/
	@echo "batchmark_job/" >> build/plugins/.airflowignore
	@find build/plugins -name __pycache__ -type d -prune -exec rm -rf {} +
	@cd build/plugins && $(CURDIR)/$(BIN)/python -m zipfile -c ../plugins.zip .
	@echo "build/plugins.zip"

.PHONY: wheels
wheels: install ## `batchmark` and `batchmark-job` as wheels that need no Airflow: build/wheels
	@rm -rf build/wheels build/wheels-from && mkdir -p build/wheels-from && cp -rp plugins job_container build/wheels-from
	@cd build/wheels-from && for part in plugins job_container; do cp ../../LICENSE $$part; done
	@$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheels build/wheels-from/*
	@ls build/wheels/*

.PHONY: clean
clean: down ## Stop everything and remove .venv and build/, with all runs and results in it
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Check it

.PHONY: test-quick
test-quick: install ## The unit tests of what differs from main (at most 20 s for a module)
	$(PYTEST) -q --numprocesses 2 $$($(BIN)/python tests/quick.py)

.PHONY: test-unit
test-unit: install ## The unit tests (about 3 minutes on 2 cores)
	$(PYTEST) --numprocesses 3 -m "not monte_carlo" tests/unit

.PHONY: test
test: terraform-there install ## Unit, DAG integrity, Terraform; a run with report and alert, end to end; its page in a browser (about 6 minutes on 2 cores)
	$(PYTEST) $(SIDE_BY_SIDE) -m "$(SHORT)" tests/terraform $(ONE_RUN) tests/unit

.PHONY: test-all
test-all: test test-rest test-containers ## All tests but those that take tens of minutes (about 30 minutes on 2 cores)

.PHONY: test-rest
test-rest: terraform-there install ## What `make test-all` adds to `make test`, containers apart (about 16 minutes on 2 cores)
	$(PYTEST) $(SIDE_BY_SIDE) --numprocesses 4 -m "$(SHORT)" $(ONE_RUN:%=--ignore %) tests/e2e tests/faults tests/browser

.PHONY: test-cost
test-cost: terraform-there install ## Processor seconds of all these tests by file and by what they started, in build/test-cost.txt (about 25 minutes)
	set -o pipefail; for some in "$(SIDE_BY_SIDE) --ignore tests/containers tests" tests/containers; do \
		$(PYTEST) --cost -m "$(SHORT)" $$some || exit 1; done | tee build/test-cost.txt

.PHONY: test-statistics
test-statistics: install ## Statistical properties and hostile input with many draws; each unit test run proves them with few (about 10 minutes)
	$(PYTEST) --numprocesses 2 -m monte_carlo tests/unit

.PHONY: fuzz
fuzz: install ## Documents, logs, imports, gates' folders and what reaches the nodes' port, of thousands of examples each: named losses, nothing else (about 10 minutes)
	$(PYTEST) --numprocesses 2 -m monte_carlo tests/unit/plugin/fuzzing \
		tests/unit/plugin/history/test_import_losses.py tests/unit/job/distributed/test_door.py

.PHONY: test-mwaa
test-mwaa: install $(MWAA) ## DAGs and plugins with the packages of MWAA's image (half a minute; needs Python 3.12: MWAA_PYTHON=...)
	$(MWAA) -q -m "not monte_carlo" tests/unit/repository/test_dag_integrity.py \
		$(addprefix tests/unit/plugin/,analysis aws changes checks core fuzzing history orchestration report runs)

$(MWAA): requirements-mwaa.txt | install
	@$(MWAA_PYTHON) -c "" 2>/dev/null || { echo "Python 3.12 is needed, as MWAA has it, and $(MWAA_PYTHON) does not run: install it, or set MWAA_PYTHON=..." >&2; exit 1; }
	@echo "mwaa: installing the packages of its image into build/mwaa (10 to 60 s)"
	@$(MWAA_PYTHON) laptop/install.py --into build/mwaa --lock $<
	@touch $@

.PHONY: test-browser
test-browser: terraform-there install ## In a real Chromium: hostile pages, the report, our pages in Airflow's UI; pictures in build/screenshots (5 minutes; needs chromium)
	@$(BIN)/python -m tests.browser.chromium
	$(PYTEST) -q tests/browser tests/e2e/test_airflow_pages.py

.PHONY: test-faults
test-faults: terraform-there install ## Every fault of jobs, users, AWS, Airflow and runs on several nodes: a table of what came of each; then the matrix's own mutants; `aws-check` killed with each of its faults, and with all that WITH can name (about an hour)
	@$(PYTEST) -q tests/faults tests/e2e/aws_check/test_killed.py tests/e2e/aws_check/test_parts.py

.PHONY: test-regressions
test-regressions: terraform-there install ## 30 runs with a workload that gets slower and recovers, one killed at every task, a slower release of your own job: one alert each (about 45 minutes)
	@$(PYTEST) -q -s -m thirty_runs tests/e2e/test_regressions.py tests/e2e/test_killed_runs.py tests/e2e/test_own_jobs.py

.PHONY: test-containers
test-containers: terraform-there install ## Images and docker-compose.yaml on a Docker engine, yours or one of its own (about 8 minutes; FULL=yes kills each service and compares containers with processes, half an hour)
	@echo "test-containers: about 8 minutes from nothing (half an hour with FULL=yes); without a Docker engine and without root all of it is skipped"
	@$(PYTEST) -v -rfEs --timeout 1200 $(if $(filter yes,$(FULL)),,-m "not full_matrix") tests/containers

.PHONY: lint
lint: terraform-there install $(CHECKOV) ## ruff, mypy, import rules, shellcheck, hadolint, terraform fmt, READMEs' tables, compose file, action, issue forms, checkov (about a minute)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/shellcheck .ci/run $(SCRIPTS)
	$(BIN)/hadolint $(DOCKERFILES)
	$(BIN)/yamllint --strict docker-compose.yaml action.yml .github
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	terraform fmt -check -recursive terraform
	$(BIN)/python terraform/readme_tables.py --check
	@set -o pipefail; for profile in terraform/local.tfvars terraform/examples/private_network.tfvars; do \
		$(CHECKOV) --config-file .checkov.yaml --var-file $$profile | tee build/checkov.txt && ! grep -q "Parsing errors: [1-9]" build/checkov.txt || exit 1; \
	done

# In an environment of its own: it pins what Airflow needs newer.
$(CHECKOV): requirements-checkov.txt | install
	@echo "checkov: installing it into build/checkov (10 to 40 s)"
	@$(PYTHON) laptop/install.py --into build/checkov --lock $<
	@touch $@

##@ Write files anew

.PHONY: format
format: terraform-there install ## Let ruff and terraform fmt rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	terraform fmt -recursive terraform

.PHONY: tables
tables: install ## Write the input and output tables of Terraform's READMEs anew
	$(BIN)/python terraform/readme_tables.py

.PHONY: schema
schema: install ## Export the JSON Schemas of the result document, and of a line that tells a metric
	$(BIN)/python -m batchmark_job schema > job_container/result.schema.json
	$(BIN)/python -m batchmark_job schema metric-line > job_container/metric-line.schema.json

.PHONY: lock
lock: install ## Resolve pyproject.toml into the lock files anew, with the hash of every file that they may bring
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) --group dev -c requirements.txt -o requirements-dev.txt
	@echo "# The job image's lock, made by \`make lock\`. torch and the packages named last are left out: PyPI has no CPU build to take a hash from." \
		> job_container/requirements.txt
	cd job_container && ../$(COMPILE_FOR_IMAGE) requirements.in -c ../requirements.txt \
		$(addprefix --no-emit-package ,torch $(CUDA_PACKAGES)) >> requirements.txt
	@echo "# The lock of the gpu variant: requirements.txt, torch, and what its CUDA build asks for; made by \`make lock\`." \
		> job_container/requirements-gpu.txt
	cd job_container && ../$(COMPILE_FOR_IMAGE) requirements.in -c ../requirements.txt >> requirements-gpu.txt
	@echo "# What builds the job image, locked; made by \`make lock\`." > job_container/requirements-build.txt
	cd job_container && ../$(COMPILE_FOR_IMAGE) requirements-build.in -c ../requirements-dev.txt -c ../requirements.txt \
		>> requirements-build.txt
	@echo "# The lock of the thumbnails' cpu image, made by \`make lock\`." > $(THUMBNAILS)/requirements.txt
	cd $(THUMBNAILS) && ../../../$(COMPILE_FOR_IMAGE) requirements.in -c ../../../requirements-dev.txt >> requirements.txt
	@echo "# The lock of the thumbnails' gpu image, made by \`make lock\`." > $(THUMBNAILS)/requirements-gpu.txt
	cd $(THUMBNAILS) && ../../../$(COMPILE_FOR_IMAGE) requirements.in requirements-gpu.in \
		-c ../../../requirements-dev.txt -c ../../../requirements.txt >> requirements-gpu.txt
	@echo "# The Airflow image's lock, made by \`make lock\`." > containers/requirements.txt
	cd containers && ../$(COMPILE) requirements.in -c ../requirements.txt >> requirements.txt
	@echo "# What builds the Airflow image, locked; made by \`make lock\`." > containers/requirements-build.txt
	cd containers && ../$(COMPILE) requirements-build.in -c ../requirements-dev.txt >> requirements-build.txt
	$(COMPILE) requirements-checkov.in -o requirements-checkov.txt
	$(COMPILE) requirements-otava.in -o requirements-otava.txt
	$(subst 3.11,3.12,$(COMPILE)) requirements-mwaa.in -o requirements-mwaa.txt

.PHONY: base-images
base-images: install ## Renew the digests of the images that ours begin with, wherever they stand; docker buildx asks for them
	@$(BIN)/python containers/renew_base_images.py

##@ Measure Batchmark itself

.PHONY: mutation
mutation: install ## Small faults in a sample of functions: the share that tests find, per room, and the rest (about 25 minutes; ROOMS=plugins/batchmark/core)
	@exec $(BIN)/python -m benchmarks.mutation $(if $(ROOMS),--rooms $(ROOMS))

.PHONY: cuda-coverage
cuda-coverage: install ## The lines for CUDA that unit tests run, on a simulated GPU where there is none: 95 % at least (2 minutes)
	@exec $(BIN)/python -m benchmarks.cuda_coverage

.PHONY: bench-mapped
bench-mapped: terraform-there install ## 200 mapped short jobs at once, three times over; counts what Airflow loses (about 12 minutes)
	@exec $(BIN)/python -m benchmarks.orchestration.mapped_jobs

.PHONY: bench-overhead
bench-overhead: install ## How much measuring adds to what is measured: below 2 % for calls of 1 to 30 ms (7 minutes)
	@exec $(BIN)/python -m benchmarks.job.harness_overhead

.PHONY: bench-noise
bench-noise: install ## A/A: 20 equal runs on this idle machine; each row's noise floor, and how often rows are called different
	@exec $(BIN)/python -m benchmarks.job.noise_floor

.PHONY: bench-history
bench-history: install ## Read a history of 1,000,000 rows as the detector does: below 500 MB of memory (a minute)
	@exec $(BIN)/python -m benchmarks.memory.long_history

.PHONY: bench-logs
bench-logs: install ## A job that prints 100 MiB on the local cloud, beside a program that reads the same line by line (two minutes)
	@exec $(BIN)/python -m benchmarks.local_cloud_logs

.PHONY: bench-pages
bench-pages: install ## Time pages' trends of 1,000 and 10,000 runs, from the snapshot and from all files (three minutes)
	@exec $(BIN)/python -m benchmarks.pages

.PHONY: bench-changes
bench-changes: install ## Steps, and many kinds of noise without any, without fresh jobs: how many are found, how soon, false alerts a month (HARNESS=.../evaluate.py; 6 minutes)
	@$(BIN)/python -m benchmarks.detector.history_alone $(HARNESS)
	@$(BIN)/python -m benchmarks.detector.false_alerts
	@$(BIN)/python -m benchmarks.detector.common_shifts

.PHONY: bench-reruns
bench-reruns: install ## Steps and noise, run by run, with fresh jobs: alerts in the same run, false ones, extra jobs (HARNESS=.../evaluate.py; 2 to 3 minutes)
	@exec $(BIN)/python -m benchmarks.detector.reruns $(HARNESS)

.PHONY: bench-detector
bench-detector: install $(OTAVA) ## 1,000 series of 200 runs, by our detector and by otava in turns (1 to 3 minutes)
	@exec $(BIN)/python -m benchmarks.detector.speed $(dir $(OTAVA))python

# In an environment of its own: it pins an older numpy and scipy.
$(OTAVA): requirements-otava.txt | install
	@echo "otava: installing it into build/otava (10 to 40 s)"
	@$(PYTHON) laptop/install.py --into build/otava --lock $<
	@touch $@

.PHONY: bench-gpu
bench-gpu: install ## On a GPU machine: our products against plain calls, our filters against a copy (a minute; ends with 77 without CUDA)
	@exec $(BIN)/python -m benchmarks.job.gpu_rivals

# On machines that were made for something else: without .venv, network or Terraform.
.PHONY: gpu-check
gpu-check: ## On a GPU machine: CUDA tests, suites, rivals, sharing; one folder and a summary (at most 8 minutes; needs no network; SIMULATE=T4)
	@exec $(firstword $(wildcard $(BIN)/python) $(PYTHON)) -m benchmarks.gpu_check \
		$(if $(TO),--to $(TO)) $(if $(SIMULATE),--simulate $(SIMULATE))

.PHONY: gpu-wheels
gpu-wheels: install ## Wheels of what a CUDA image lacks for gpu-check, to carry there (FOR=3.12, its Python)
	@$(BIN)/python -m benchmarks.gpu_check.wheels $(or $(FOR),3.12)

.PHONY: bench-cpu
bench-cpu: install ## Our CPU times beside plain library calls and the published approach (one to two hours)
	@exec $(BIN)/python -m benchmarks.job.cpu_rivals
