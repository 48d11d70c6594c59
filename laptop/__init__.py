"""The whole system on one machine: the local cloud, Terraform and Airflow, started together."""

import signal

# Signals with which a terminal, a service manager or a closed connection ends a command.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TARGETS = ("c5.2xlarge", "g4dn.xlarge")  # of terraform/local.tfvars
