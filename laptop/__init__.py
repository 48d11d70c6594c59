"""The whole system on one machine: the local cloud, Terraform and Airflow, started together."""

import signal

# What a terminal, a service manager or a closed connection ends a command with.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
