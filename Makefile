# For people. Scripts do the work: ./scripts/setup, ./scripts/demo, ./scripts/test.
VENV := .venv/bin
unexport PYTHONDONTWRITEBYTECODE # compiled files are kept: each test process would compile everything again
NODE ?= gpu-a1

.PHONY: setup check faults test bench demo lab-up lab-down lab-shell

setup: ## .venv and what the lab needs
	./scripts/setup

check: ## everything that needs no lab, in less than two minutes
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/pytest -m "not lab" -n 4 --dist worksteal

faults: ## runs that are cut off at every change, and laws with many examples, where make check takes a sample
	$(VENV)/pytest -m "faults and not lab" --thorough -n 4 --dist worksteal

test: ## everything, as root
	./scripts/test

bench: ## how long things take
	$(VENV)/pytest -s tests/bench/bench_*.py

demo: ## the whole story on a simulated node
	./scripts/demo

lab-up: ## three GPU nodes on this machine
	tests/lab/lab up

lab-down: ## leaves nothing of them
	tests/lab/lab down

lab-shell: ## a shell on one: make lab-shell NODE=gpu-h1
	tests/lab/lab shell $(NODE)
