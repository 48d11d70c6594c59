"""The benchmark job: measures workloads on one machine and writes one result document."""
